package redisidem_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/redisidem"
)

// B15: many processes ask for a fresh key at the same moment. One runs, the others wait and get its answer, and none gets an error.
func TestAFreshKeyThatManyWant(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	for round := range 10 {
		var wg sync.WaitGroup
		var mu sync.Mutex // guards ran and values
		ran, values := 0, map[string]int{}
		for range 50 {
			keys := idem.NewLeasedOn(redisidem.New(f.client, &redisidem.Options{Prefix: f.prefix}), &idem.LeaseOptions{Wait: time.Minute})
			wg.Go(func() {
				res, err := idem.DoLeased(t.Context(), keys, idem.Key{Scope: "tenant", Name: "charge", Value: fmt.Sprint(round)},
					func(context.Context, *idem.Run) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						ran++
						return fmt.Sprint(rand.Int64()), nil
					})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				values[res.Value]++
				mu.Unlock()
			})
		}
		wg.Wait()
		if ran != 1 || len(values) != 1 {
			t.Errorf("it ran %d times, and the answers are %v", ran, values)
		}
	}
}

// deaf is a store of a process that is paused now and then: its renewals fail, and its writes come late.
type deaf struct {
	idem.Store

	chance int // of 100
}

var errPaused = errors.New("paused")

func (d deaf) Renew(ctx context.Context, terms []idem.Term, lease time.Duration) ([]idem.Renewal, error) {
	if rand.IntN(100) < d.chance {
		return nil, errPaused
	}
	return d.Store.Renew(ctx, terms, lease)
}

// Executions that lose their leases, fail and come back race for few keys. Whatever they do, epochs of a key rise, one answer is given
// for each key, and it is that of the execution whose answer was stored.
func TestStorm(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	const keys, processes, calls = 8, 6, 12
	var mu sync.Mutex // guards all below
	epochs, answers := map[string]int64{}, map[string]string{}
	var wg sync.WaitGroup
	for range processes {
		leased := idem.NewLeasedOn(deaf{redisidem.New(f.client, &redisidem.Options{Prefix: f.prefix}), 70},
			&idem.LeaseOptions{Lease: 200 * time.Millisecond, Wait: time.Minute, RetryAfter: 5 * time.Millisecond, MaxAttempts: 1000})
		wg.Go(func() {
			for range calls {
				value := fmt.Sprint(rand.IntN(keys))
				res, err := idem.DoLeased(t.Context(), leased, idem.Key{Scope: "tenant", Name: "charge", Value: value},
					func(ctx context.Context, run *idem.Run) (string, error) {
						mu.Lock()
						if run.Epoch() <= epochs[value] {
							t.Errorf("epoch %d of %s came after %d", run.Epoch(), value, epochs[value])
						}
						epochs[value] = run.Epoch()
						mu.Unlock()
						switch rand.IntN(3) {
						case 0:
							return "", errors.New("failed")
						case 1: // until the lease is lost
							<-ctx.Done()
						}
						return fmt.Sprint(run.Epoch()), nil
					})
				mu.Lock()
				switch had, known := answers[value]; {
				case err == nil && known && had != res.Value:
					t.Errorf("%s was answered with %s, and then with %s", value, had, res.Value)
				case err == nil:
					answers[value] = res.Value
				case errors.Is(err, idem.ErrStoreUnavailable), holdfast.OutcomeOf(err) == holdfast.Applied:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	list, err := f.List(t.Context(), idem.Filter{})
	must(t, err)
	for _, r := range list {
		if r.State.String() == "running" && r.Left > 0 {
			t.Errorf("nobody is at it, and it is taken: %+v", r)
		}
	}
	if len(answers) == 0 {
		t.Error("nothing was answered")
	}
}
