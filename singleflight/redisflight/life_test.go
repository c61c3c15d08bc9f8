package redisflight_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// The age of a value counts from the beginning of its load; one that took longer than that is there for who waits.
func TestTheAgeCountsFromTheBeginningOfTheLoad(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, c := range []struct{ ttl, took, least, most time.Duration }{
		{time.Hour, 0, 59 * time.Minute, time.Hour},
		{10 * time.Second, 100 * time.Millisecond, 0, 9900 * time.Millisecond},
		{300 * time.Millisecond, 300 * time.Millisecond, 0, 200 * time.Millisecond},
		{50 * time.Millisecond, 60 * time.Millisecond, 0, 50 * time.Millisecond},
	} {
		var loads atomic.Int64
		cache := f.cache(f.client, func(context.Context, string) (string, error) {
			time.Sleep(c.took) // the time is what is tested
			loads.Add(1)
			return "value", nil
		}, func(o *redisflight.Options[string]) { o.TTL = c.ttl })
		want(t, "value")(cache.Get(t.Context(), c.ttl.String()))
		keys := f.keys()
		if len(keys) == 0 && c.ttl < time.Second { // a machine so slow that it is over
			continue
		}
		left, err := f.client.PTTL(t.Context(), keys[0]).Result()
		if err != nil || left > c.most || left < c.least {
			t.Errorf("a TTL of %v and a load of %v: %v are left, %v", c.ttl, c.took, left, err)
		}
		if err := f.client.Del(t.Context(), keys[0]).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
