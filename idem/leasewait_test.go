package idem_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// elsewhere is a store in which another process has the key, until the test says that it has ended. What servers do with the
// statements is seen in package idemtest; here it is seen when a duplicate looks.
type elsewhere struct {
	idem.Store

	mu        sync.Mutex // guards all below
	looks     []time.Time
	announced int
	refuse    bool // what is announced
	done      bool
	heard     chan [2]string
	broken    error // of listening
}

func (e *elsewhere) Claim(_ context.Context, c idem.Claim) (idem.Record, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looks = append(e.looks, time.Now())
	r := idem.Record{ID: c.ID, Scope: c.Scope, Name: c.Name, State: idem.Running, Nonce: c.Nonce + 1, Epoch: 1, Attempts: 1, Left: time.Hour}
	if e.done {
		r.State, r.Answer = idem.Completed, idem.Answer{State: idem.Completed, Codec: 2, Body: []byte(`"first"`)}
	}
	return r, nil
}

func (e *elsewhere) Announce(context.Context, idem.ID) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.announced++
	return !e.refuse && !e.done, nil
}

// end ends the execution, and notifies if it is to.
func (e *elsewhere) end(id idem.ID, notify bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done = true
	if notify {
		e.heard <- [2]string{e.Channel(), id.String()}
	}
}

func (e *elsewhere) Pool() any       { return e }
func (e *elsewhere) Channel() string { return "here" }

func (e *elsewhere) Notify(_ context.Context, channel, payload string) error {
	e.heard <- [2]string{channel, payload}
	return nil
}

func (e *elsewhere) Listen(context.Context) (tx.Notifications, error) {
	if e.broken != nil {
		return nil, e.broken
	}
	return ear{e}, nil
}

type ear struct{ *elsewhere }

func (ear) Listen(context.Context, string) error   { return nil }
func (ear) Unlisten(context.Context, string) error { return nil }
func (ear) Close() error                           { return nil }

func (e ear) Next(ctx context.Context) (channel, payload string, err error) {
	select {
	case n := <-e.heard:
		return n[0], n[1], nil
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
}

// waits has n calls wait for an execution elsewhere that ends after so long, and returns how much later each has its answer.
func waits(t *testing.T, e *elsewhere, n int, takes time.Duration, notify bool, told func(holdfast.Event)) (late []time.Duration) {
	t.Helper()
	e.heard = make(chan [2]string, 10)
	keys := idem.NewLeasedOn(e, &idem.LeaseOptions{Wait: time.Hour, Observer: observer(told)})
	key := idem.Key{Scope: "s", Name: "n", Value: "v"}
	var all sync.WaitGroup
	late = make([]time.Duration, n)
	ends := time.Now().Add(takes)
	for i := range n {
		all.Go(func() {
			res, err := idem.DoLeased(t.Context(), keys, key, func(context.Context, *idem.Run) (string, error) {
				return "", errors.New("it ran")
			})
			if err != nil || res.Value != "first" || !res.Replayed {
				t.Errorf("got %+v, %v", res, err)
			}
			late[i] = time.Since(ends)
		})
	}
	time.Sleep(takes)
	e.end(key.ID(), notify)
	all.Wait()
	time.Sleep(10 * time.Minute) // nothing is left of it: the bubble ends
	synctest.Wait()
	return late
}

type observer func(holdfast.Event)

func (o observer) Observe(_ context.Context, e holdfast.Event) {
	if o != nil {
		o(e)
	}
}

// A notification is answered at once, and until it comes there are few looks, for all calls of the process together.
func TestANotificationEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &elsewhere{}
		for _, late := range waits(t, e, 50, 20*time.Second, true, nil) {
			if late != 0 {
				t.Errorf("the answer came %v after the notification", late)
			}
		}
		if n := len(e.looks); n < 20 || n > 46 {
			t.Errorf("%d looks in 20 s", n)
		}
		if e.announced > 2 { // once, and once more if it was woken by the beginning of the listening
			t.Errorf("announced %d times", e.announced)
		}
	})
}

// Without notifications, with some that are lost, and where nothing can be announced, a duplicate looks again: soon at first, and then
// about every second. Whoever waits gets no error of it, and the observer one event.
func TestPollingEndsTheWait(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	for _, c := range []struct {
		name   string
		store  *elsewhere
		events int
	}{
		{"lost", &elsewhere{}, 0},
		{"not open", &elsewhere{refuse: true}, 0},
		{"no listener", &elsewhere{broken: fmt.Errorf("none: %w", errors.ErrUnsupported)}, 0},
		{"away", &elsewhere{broken: away}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				told := make(chan error, 1000)
				late := waits(t, c.store, 3, 20*time.Second, false, func(event holdfast.Event) {
					if event.Kind == tx.EventPolling {
						told <- event.Err
					}
				})
				for _, late := range late {
					if late > 1010*time.Millisecond {
						t.Errorf("the answer came %v after the end", late)
					}
				}
				if n := len(c.store.looks); n < 20 || n > 150 {
					t.Errorf("%d looks in 20 s", n)
				}
				if len(told) != c.events {
					t.Errorf("told %d times, want %d", len(told), c.events)
				}
				if c.store.broken != nil && c.store.announced > 1 {
					t.Errorf("announced %d times, and nobody hears", c.store.announced)
				}
			})
		})
	}
}
