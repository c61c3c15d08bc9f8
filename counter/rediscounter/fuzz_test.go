package rediscounter_test

import (
	"errors"
	"testing"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter/rediscounter"
)

// What a key holds is an integer for Get, Add and Take alike, and for Redis.
func FuzzStored(f *testing.F) {
	for _, text := range []string{"", "0", "-1", "-0", "+1", "007", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e3", "5\x00"} {
		f.Add(text, int64(1))
	}
	c := start(f, nil)
	f.Fuzz(func(t *testing.T, text string, n int64) {
		ctx := t.Context()
		n = max(1, n)
		set := func() {
			if err := c.client.Set(ctx, c.KeyOf("n"), text, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		set()
		value, plain := c.client.IncrBy(ctx, c.KeyOf("n"), 0).Result()
		got, err := c.Get(ctx, "n")
		if (plain == nil) != (err == nil) || got != value || err != nil && !errors.Is(err, rediscounter.ErrNotInteger) {
			t.Errorf("get: %d, %v; redis: %d, %v", got, err, value, plain)
		}
		after, err := c.Take(ctx, "n", n, "")
		switch {
		case err == nil && (plain != nil || value < n || after != value-n):
			t.Errorf("took %d of %q: %d", n, text, after)
		case plain == nil && value >= n && err != nil:
			t.Errorf("take: %v", err)
		case err != nil && !errors.Is(err, rediscounter.ErrInsufficient) && !errors.Is(err, rediscounter.ErrNotInteger):
			t.Errorf("take: %v", err)
		}
		set()
		if after, err := c.Add(ctx, "n", -n, ""); (err == nil) != (plain == nil && value-n <= value) || err == nil && after != value-n {
			t.Errorf("add %d to %q: %d, %v", -n, text, after, err)
		}
	})
}

// No reply makes a value of what is none, and a reply that cannot be read is unknown.
func FuzzReply(f *testing.F) {
	for _, status := range []string{"applied", "replayed", "insufficient", "mismatch", "", "other"} {
		f.Add(status, "5", int64(0), 3)
		f.Add(status, "x", int64(1), 3)
	}
	f.Add("applied", "5", int64(0), 2)
	c := rediscounter.New(nil, nil)
	f.Fuzz(func(t *testing.T, status, text string, repaired int64, n int) {
		reply := []any{status, text, repaired}
		reply = reply[:min(3, max(0, n))]
		value, err := c.Read(t.Context(), reply)
		known := len(reply) == 3 && (status == "applied" || status == "replayed" || status == "insufficient" || status == "mismatch")
		switch {
		case err == nil && (!known || value == 0 && text != "0"):
			t.Errorf("%q: %d", reply, value)
		case err != nil && !known && holdfast.OutcomeOf(err) != holdfast.Unknown:
			t.Errorf("%q: %v is %v", reply, err, holdfast.OutcomeOf(err))
		}
	})
}
