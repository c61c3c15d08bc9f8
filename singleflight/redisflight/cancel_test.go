package redisflight_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// S10: wherever a caller is when it leaves, no lease stays behind. That it would end is no help here: it would last an hour.
func TestS10CancelledAtAnyMoment(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	c := f.cache(f.client, constant("value", &loads), func(o *redisflight.Options[string]) { o.OwnerTimeout = time.Hour })
	left := 0
	for i := range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(3*time.Millisecond))
		if _, err := c.Get(ctx, fmt.Sprint(i)); errors.Is(err, context.DeadlineExceeded) {
			left++
		}
		cancel()
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range f.keys() {
		if strings.HasSuffix(key, ":lease") {
			t.Errorf("left: %s", key)
		}
	}
	t.Logf("%d of 300 callers left before the end", left)
}

// S10: a lease whose reply was lost is given back too.
func TestS10AGrantThatNobodyHeardOf(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	p, client := f.behind(-1)
	c := f.cache(client, constant("value", &loads), func(o *redisflight.Options[string]) { o.OwnerTimeout = time.Hour })
	want(t, "value")(c.Get(t.Context(), "warm")) // the scripts
	p.Watch("evalsha", 1)
	want(t, "value")(c.Get(t.Context(), "key")) // loaded, and not stored
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := f.keys(); len(keys) != 1 {
		t.Errorf("keys: %q", keys)
	}
}

// S10: who is cancelled at the moment of the acquisition leaves no lease behind, also if that arrives after the caller is gone.
func TestS10ACallerCancelledWhileItAcquiresLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	want(t, "warm")(f.cache(f.client, constant("warm", &loads), nil).Get(t.Context(), "warm")) // the scripts
	p, client := f.behind(-1)
	long := func(o *redisflight.Options[string]) { o.OwnerTimeout = time.Hour }
	c := f.cache(client, constant("value", &loads), long)
	held, release := p.Hold("evalsha")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Get(ctx, "key")
		done <- err
	}()
	<-held
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release()
	if err := c.Close(t.Context()); err != nil { // which waits until the lease is given back
		t.Fatal(err)
	}
	if keys := f.keys(); len(keys) != 1 {
		t.Errorf("keys: %q", keys)
	}
	want(t, "value")(f.cache(f.client, constant("value", &loads), long).Get(t.Context(), "key"))
}

// S11: a load that ends without a value gives the lease back at once.
func TestS11ALoadThatPanicsGivesTheLeaseBack(t *testing.T) {
	t.Parallel()
	away := errors.New("the source is away")
	for name, fails := range map[string]struct {
		how  load
		want func(error) bool
	}{
		"panic": {func(context.Context, string) (string, error) { panic("boom") }, func(err error) bool {
			var panicked *singleflight.PanicError
			return errors.As(err, &panicked)
		}},
		"goexit": {func(context.Context, string) (string, error) { runtime.Goexit(); return "", nil }, func(err error) bool {
			return errors.Is(err, singleflight.ErrGoexit)
		}},
		"error": {func(context.Context, string) (string, error) { return "", away }, func(err error) bool { return errors.Is(err, away) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			var loads atomic.Int64
			long := func(o *redisflight.Options[string]) { o.OwnerTimeout = time.Hour }
			c := f.cache(f.client, fails.how, long)
			if _, err := c.Get(t.Context(), "key"); !fails.want(err) {
				t.Errorf("got %v", err)
			}
			want(t, "value")(f.cache(f.client, constant("value", &loads), long).Get(t.Context(), "key"))
		})
	}
}
