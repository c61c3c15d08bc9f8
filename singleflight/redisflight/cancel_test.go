package redisflight_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
