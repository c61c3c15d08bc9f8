package singleflight_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/bound"
	"github.com/holdfast-go/holdfast/singleflight"
)

// The function has the values of the first caller, but nothing that is bound to a transaction of it; it may make contexts of its
// own, which end with the flight's.
func TestTheFirstCallersValues(t *testing.T) {
	t.Parallel()
	type own struct{}
	type transaction struct{ bound.ToTransaction }
	for name, open := range map[string]func(*testing.T) context.Context{
		"inline":      func(*testing.T) context.Context { return context.Background() },
		"cancellable": func(t *testing.T) context.Context { return t.Context() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := context.WithValue(open(t), transaction{}, "not committed")
				ctx = holdfast.WithCorrelationID(context.WithValue(ctx, own{}, "the first's"), "request 1")
				_, err := singleflight.New[string, int](nil).Do(ctx, "key", func(ctx context.Context) (int, error) {
					inner, cancel := context.WithCancel(ctx)
					cancel()
					<-inner.Done()
					if ctx.Value(own{}) != "the first's" || holdfast.CorrelationID(ctx) != "request 1" {
						t.Error("values are lost")
					}
					if got := ctx.Value(transaction{}); got != nil {
						t.Errorf("the transaction of one caller is that of all: %v", got)
					}
					return 0, ctx.Err()
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A refresh in the background outlives the call that began it, and its transaction.
func TestARefreshIsInNoTransaction(t *testing.T) {
	t.Parallel()
	type transaction struct{ bound.ToTransaction }
	synctest.Test(t, func(t *testing.T) {
		loads := 0
		cache := singleflight.NewCache(func(ctx context.Context, _ string) (int, error) {
			loads++
			if got := ctx.Value(transaction{}); got != nil {
				t.Errorf("load %d is in a transaction: %v", loads, got)
			}
			return loads, nil
		}, &singleflight.CacheOptions[int]{TTL: time.Minute, SoftTTL: time.Second, Jitter: -1, Beta: -1})
		ctx := context.WithValue(t.Context(), transaction{}, "not committed")
		for range 2 {
			if got, err := cache.Get(ctx, "key"); got != 1 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if loads != 2 {
			t.Errorf("%d loads", loads)
		}
	})
}
