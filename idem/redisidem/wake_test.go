package redisidem_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/redisidem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
)

// Who has announced to wait is told of the end, and nobody else is: a message comes with the end of an execution, and no other.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	f, ctx := shared(t, nil), t.Context()
	heard := f.client.Subscribe(ctx, f.Channel())
	defer func() { _ = heard.Close() }()
	_, err := heard.Receive(ctx)
	must(t, err)
	messages := heard.Channel()

	announced, silent, freed := claim("announced", time.Minute), claim("silent", time.Minute), claim("freed", time.Minute)
	a, s, r := begun(t, f, announced), begun(t, f, silent), begun(t, f, freed)
	yes(t)(f.Announce(ctx, a.ID))
	yes(t)(f.Announce(ctx, r.ID))
	yes(t)(f.Mark(ctx, termOf(a), nil))
	yes(t)(f.Complete(ctx, termOf(s), idem.Answer{State: idem.Completed}, time.Hour))
	yes(t)(f.Complete(ctx, termOf(a), idem.Answer{State: idem.Completed}, time.Hour))
	yes(t)(f.Release(ctx, termOf(r)))
	for _, want := range []idem.ID{a.ID, r.ID} { // the silent one would come before
		if got := <-messages; got.Payload != want.String() {
			t.Errorf("got %s, want %v", got.Payload, want)
		}
	}
	no(t)(f.Announce(ctx, a.ID))
	no(t)(f.Announce(ctx, r.ID))
	no(t)(f.Announce(ctx, idem.ID{}))
	// A new execution of the key has nobody who waits.
	next := begun(t, f, claim("freed", time.Minute))
	yes(t)(f.Release(ctx, termOf(next)))
	last := begun(t, f, claim("last", time.Minute))
	yes(t)(f.Announce(ctx, last.ID))
	yes(t)(f.Park(ctx, termOf(last), idem.Parking{State: idem.Pending}))
	if got := <-messages; got.Payload != last.ID.String() {
		t.Errorf("got %s, want %v", got.Payload, last.ID)
	}
	yes(t)(f.Announce(ctx, last.ID))
	last, ok, err := f.Take(ctx, idem.Taking{Claim: claim("last", time.Minute), Was: last})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	yes(t)(f.Complete(ctx, termOf(last), idem.Answer{State: idem.Failed}, time.Hour))
	if got := <-messages; got.Payload != last.ID.String() {
		t.Errorf("got %s, want %v", got.Payload, last.ID)
	}
}

// A user who may not publish stores the answer all the same.
func TestAnswersOfAUserWhoMayNotPublish(t *testing.T) {
	t.Parallel()
	f, ctx := alone(t), t.Context()
	r := begun(t, f, claim("a", time.Minute))
	yes(t)(f.Announce(ctx, r.ID))
	must(t, f.client.Do(ctx, "acl", "setuser", "default", "resetchannels", "-publish").Err())
	yes(t)(f.Complete(ctx, termOf(r), idem.Answer{State: idem.Completed, Body: []byte("b")}, time.Hour))
	if got, err := f.Claim(ctx, claim("a", time.Minute)); err != nil || string(got.Answer.Body) != "b" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Those who wait in other processes hear of an answer over one connection, and look once more.
func TestWaitersAreWoken(t *testing.T) {
	t.Parallel()
	f := alone(t)
	const waiters, rounds = 20, 3
	key := func(i int) idem.Key { return idem.Key{Scope: "tenant", Name: "charge", Value: fmt.Sprint(i)} }
	run := func(store func() idem.Store) (took time.Duration) {
		for round := range rounds {
			f.client.FlushAll(t.Context())
			var wg sync.WaitGroup
			var answered time.Time
			_, err := idem.DoLeased(t.Context(), idem.NewLeasedOn(store(), nil), key(round), func(ctx context.Context, run *idem.Run) (string, error) {
				for range waiters {
					keys := idem.NewLeasedOn(store(), &idem.LeaseOptions{Wait: time.Minute})
					wg.Go(func() {
						res, err := idem.DoLeased(t.Context(), keys, key(round), func(context.Context, *idem.Run) (string, error) { return "second", nil })
						if err != nil || res.Value != "first" || !res.Replayed {
							t.Errorf("%+v, %v", res, err)
						}
					})
				}
				time.Sleep(300 * time.Millisecond) // the work: those who poll have come to look seldom
				answered = time.Now()
				return "first", run.Check()
			})
			must(t, err)
			wg.Wait()
			took += time.Since(answered)
		}
		return took
	}
	woken := run(func() idem.Store { return redisidem.New(f.client, nil) })
	polling := run(func() idem.Store { return polls{redisidem.New(f.client, nil)} })
	t.Logf("%d times %d waiters had the answer after %v in all, those who look for themselves after %v", rounds, waiters, woken, polling)
	if woken > polling*85/100 {
		t.Error("to be woken is no faster than to look")
	}
}

// polls hides what else the store can do.
type polls struct{ idem.Store }

func TestNotifications(t *testing.T) {
	t.Parallel()
	server := testdb.RedisServer(t)
	f := &fixture{client: connect(t, server.URL(), nil)}
	f.Store = redisidem.New(f.client, nil)
	ctx := t.Context()
	n, err := f.Listen(ctx)
	must(t, err)
	next := func(channel, payload string) {
		t.Helper()
		c, p, err := n.Next(ctx)
		if err != nil || c != channel || p != payload {
			t.Errorf("got %q of %q, %v, want %q of %q", p, c, err, payload, channel)
		}
	}
	must(t, n.Listen(ctx, "a"))
	must(t, f.Notify(ctx, "a", "1"))
	must(t, f.Notify(ctx, "b", "is not listened to"))
	must(t, n.Listen(ctx, "b")) // what arrives meanwhile is kept
	must(t, f.Notify(ctx, "b", "2"))
	next("a", "1")
	next("b", "2")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := n.Next(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, n.Listen(ctx, "a"))
	must(t, n.Unlisten(ctx, "b"))
	must(t, f.Notify(ctx, "b", "is not listened to any more"))
	must(t, f.Notify(ctx, "a", "3"))
	next("a", "3")
	must(t, server.Kill())
	if c, p, err := n.Next(ctx); err == nil {
		t.Errorf("got %q of %q of a server that is gone", p, c)
	}
	if _, _, err := n.Next(ctx); err == nil {
		t.Error("a connection that was lost goes on")
	}
	must(t, n.Close())
	must(t, n.Close())
	if _, err := f.Listen(ctx); !errors.Is(err, tx.ErrNotSent) {
		t.Error(err)
	}
}
