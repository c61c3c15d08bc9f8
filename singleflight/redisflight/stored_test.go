package redisflight_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// S12: no value is taken for a lease or for an error, and what is not ours is replaced.
func TestS12ValuesOfAnyBytes(t *testing.T) {
	t.Parallel()
	f := start(t)
	raw := func(o *redisflight.Options[string]) {
		o.Encode = func(v string) ([]byte, error) { return []byte(v), nil }
		o.Decode = func(b []byte) (string, error) { return string(b), nil }
	}
	for i, value := range []string{
		"", "held", "granted", "1v", "1n" + strings.Repeat("A", 26), "\x00\xff\r\n", "'; flushall", strings.Repeat("x", 1<<22),
	} {
		var loads atomic.Int64
		for range 2 {
			want(t, value)(f.cache(f.client, constant(value, &loads), raw).Get(t.Context(), fmt.Sprint(i, "{}\x00\xff", value)))
		}
		if loads.Load() != 1 {
			t.Errorf("%.20q: %d loads", value, loads.Load())
		}
	}
}

// S17: a TTL is kept to the millisecond, what cannot be decoded is replaced, and a store that fails loses no value.
func TestS17TTLAndUnreadableValues(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	c := f.cache(f.client, constant("value", &loads), func(o *redisflight.Options[string]) { o.TTL = 500 * time.Millisecond })
	want(t, "value")(c.Get(t.Context(), "key"))
	key := f.keys()[0]
	if ttl, err := f.client.PTTL(t.Context(), key).Result(); err != nil || ttl <= 0 || ttl > 500*time.Millisecond {
		t.Errorf("the TTL is %v, %v", ttl, err)
	}
	for _, foreign := range []string{"", "1", "rubbish that is longer than a header is", "1v" + strings.Repeat("A", 26) + "{not JSON", "2n" + strings.Repeat("A", 26) + "of another format"} {
		before := loads.Load()
		if err := f.client.Set(t.Context(), key, foreign, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		want(t, "value")(c.Get(t.Context(), "key"))
		want(t, "value")(c.Get(t.Context(), "key"))
		if loads.Load() != before+1 {
			t.Errorf("%q: %d loads", foreign, loads.Load()-before)
		}
	}
	never := f.cache(f.client, constant("value", &loads), func(o *redisflight.Options[string]) {
		o.Decode = func([]byte) (string, error) { return "", errors.New("cannot decode anything") }
	})
	for range 2 {
		want(t, "value")(never.Get(t.Context(), "key"))
	}
	mute := f.cache(f.client, constant("value", &loads), func(o *redisflight.Options[string]) {
		o.Encode = func(string) ([]byte, error) { return nil, errors.New("cannot encode anything") }
	})
	unstored := f.count(redisflight.EventUnstored)
	want(t, "value")(mute.Get(t.Context(), "mute"))
	if f.count(redisflight.EventUnstored) != unstored+1 {
		t.Error("nobody was told")
	}
}

func TestNotFoundIsRememberedInRedis(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	remember := func(o *redisflight.Options[string]) { o.NotFoundTTL = time.Hour }
	from := func(context.Context, string) (string, error) {
		loads.Add(1)
		return "", fmt.Errorf("no such user: %w", singleflight.ErrNotFound)
	}
	for range 3 {
		_, err := f.cache(f.client, from, remember).Get(t.Context(), "key")
		if !errors.Is(err, singleflight.ErrNotFound) || !strings.HasPrefix(err.Error(), "no such user") {
			t.Errorf("got %v", err)
		}
	}
	if loads.Load() != 1 {
		t.Errorf("%d loads", loads.Load())
	}
	c := f.cache(f.client, constant("value", &loads), remember)
	if err := c.Invalidate(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	want(t, "value")(c.Get(t.Context(), "key"))
}

// Whoever goes on storing what cannot be read here, such as a newer version of the service, keeps nobody from a load.
func TestUnreadableValuesWithoutEnd(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads, read atomic.Int64
	c := f.cache(f.client, constant("value", &loads), func(o *redisflight.Options[string]) {
		o.Decode = func([]byte) (string, error) {
			content := fmt.Sprint("1v", strings.Repeat("A", 26), "another ", read.Add(1))
			if err := f.client.Set(t.Context(), f.keys()[0], content, time.Hour).Err(); err != nil {
				t.Error(err)
			}
			return "", errors.New("cannot decode that")
		}
	})
	want(t, "value")(c.Get(t.Context(), "key")) // stores what cannot be read
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	want(t, "value")(c.Get(ctx, "key"))
	if loads.Load() != 2 || read.Load() > 5 || f.count(redisflight.EventUnstored) != 1 {
		t.Errorf("%d loads, %d values read, %d not stored", loads.Load(), read.Load(), f.count(redisflight.EventUnstored))
	}
}
