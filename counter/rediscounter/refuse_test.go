package rediscounter_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter/rediscounter"
)

// refused fails unless the error is the target, and says that nothing happened.
func refused(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) || holdfast.OutcomeOf(err) != holdfast.NotApplied || !strings.HasPrefix(err.Error(), "rediscounter: ") {
		t.Errorf("%v is %v, want %v", err, holdfast.OutcomeOf(err), target)
	}
}

func TestOverflowIsRefused(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, nil), t.Context()
	want(t, math.MaxInt64)(f.Add(ctx, "big", math.MaxInt64, "a"))
	want(t, math.MinInt64)(f.Add(ctx, "small", math.MinInt64, "a"))
	_, err := f.Add(ctx, "big", 1, "b")
	refused(t, err, rediscounter.ErrOverflow)
	_, err = f.Add(ctx, "small", -1, "b")
	refused(t, err, rediscounter.ErrOverflow)
	_, err = f.Take(ctx, "small", math.MaxInt64, "c")
	refused(t, err, rediscounter.ErrInsufficient)
	want(t, math.MaxInt64)(f.Add(ctx, "big", math.MaxInt64, "a"))
	want(t, math.MaxInt64)(f.Get(ctx, "big"))
	want(t, math.MinInt64)(f.Get(ctx, "small"))
	// A refusal is not remembered.
	want(t, math.MaxInt64-1)(f.Add(ctx, "big", -1, ""))
	want(t, math.MaxInt64)(f.Add(ctx, "big", 1, "b"))
}

// In Lua 2^53 and 2^53+1 are one number.
func TestBeyond53BitsATakeIsExact(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, nil), t.Context()
	const n = 1 << 53
	want(t, n)(f.Add(ctx, "n", n, ""))
	_, err := f.Take(ctx, "n", n+1, "op")
	refused(t, err, rediscounter.ErrInsufficient)
	want(t, n+1)(f.Add(ctx, "n", 1, ""))
	want(t, 0)(f.Take(ctx, "n", n+1, "op"))
}

func TestMismatchIsRefused(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, nil), t.Context()
	want(t, 3)(f.Add(ctx, "n", 3, "op"))
	_, err := f.Add(ctx, "n", 4, "op")
	refused(t, err, rediscounter.ErrMismatch)
	_, err = f.Take(ctx, "n", 3, "op")
	refused(t, err, rediscounter.ErrMismatch)
	want(t, 3)(f.Get(ctx, "n"))
	entry, _ := f.EntryOf("n", "broken")
	f.client.Set(ctx, entry, "rubbish", time.Hour)
	_, err = f.Take(ctx, "n", 3, "broken")
	refused(t, err, rediscounter.ErrMismatch)
}

func TestInsufficientTellsWhatThereIs(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, func(o *rediscounter.Options) { o.Name = "shop" }), t.Context()
	want(t, 3)(f.Add(ctx, "n", 3, ""))
	_, err := f.Take(ctx, "n", 4, "op")
	refused(t, err, rediscounter.ErrInsufficient)
	var shortage *rediscounter.InsufficientError
	if !errors.As(err, &shortage) || shortage.Have != 3 {
		t.Errorf("%v", err)
	}
	events := f.seen()
	if len(events) != 1 || events[0].Kind != rediscounter.EventInsufficient || events[0].Name != "shop" || len(events[0].Key) != 16 || !errors.Is(events[0].Err, err) {
		t.Errorf("events: %+v", events)
	}
	want(t, 4)(f.Add(ctx, "n", 1, ""))
	want(t, 0)(f.Take(ctx, "n", 4, "op")) // a refusal is not remembered
	want(t, -2)(f.Add(ctx, "n", -2, ""))
	_, err = f.Take(ctx, "n", 1, "")
	if !errors.As(err, &shortage) || shortage.Have != -2 {
		t.Errorf("%v", err)
	}
}

func TestKeysOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, func(o *rediscounter.Options) { o.TTL = time.Hour }), t.Context()
	check := func(target error) {
		t.Helper()
		_, err := f.Add(ctx, "n", 1, "op")
		refused(t, err, target)
		_, err = f.Take(ctx, "n", 1, "op")
		refused(t, err, target)
		_, err = f.Get(ctx, "n")
		refused(t, err, target)
		if left := f.ttl(t, "n"); left != -1 {
			t.Errorf("it was given an expiry of %v", left)
		}
	}
	f.client.LPush(ctx, f.KeyOf("n"), "x")
	check(rediscounter.ErrWrongType)
	for _, text := range []string{"", "text", "1.5", "007", "00", "+1", "-0", " 1", "1\n", "0x10", "9223372036854775808", "-9223372036854775809"} {
		f.client.Set(ctx, f.KeyOf("n"), text, 0)
		check(rediscounter.ErrNotInteger)
		if got := f.client.Get(ctx, f.KeyOf("n")).Val(); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if events := f.seen(); len(events) != 0 {
		t.Errorf("events: %v", events)
	}
	entry, _ := f.EntryOf("m", "op")
	f.client.LPush(ctx, entry, "x")
	_, err := f.Add(ctx, "m", 1, "op")
	refused(t, err, rediscounter.ErrWrongType)
	want(t, 0)(f.Get(ctx, "m"))
}

func TestInvalidArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, nil), t.Context()
	long := strings.Repeat("x", 10<<20)
	for name, call := range map[string]func() (int64, error){
		"no name":        func() (int64, error) { return f.Add(ctx, "", 1, "") },
		"a long name":    func() (int64, error) { return f.Add(ctx, long, 1, "") },
		"a long ID":      func() (int64, error) { return f.Take(ctx, "n", 1, long) },
		"take 0":         func() (int64, error) { return f.Take(ctx, "n", 0, "") },
		"take -1":        func() (int64, error) { return f.Take(ctx, "n", -1, "") },
		"get without":    func() (int64, error) { return f.Get(ctx, "") },
		"no client":      func() (int64, error) { return rediscounter.New(nil, nil).Add(ctx, "n", 1, "") },
		"nil client":     func() (int64, error) { return rediscounter.New((*redis.Client)(nil), nil).Get(ctx, "n") },
		"nil cluster":    func() (int64, error) { return rediscounter.New((*redis.ClusterClient)(nil), nil).Get(ctx, "n") },
		"zero":           func() (int64, error) { return new(rediscounter.Counters).Take(ctx, "n", 1, "") },
		"nil":            func() (int64, error) { return (*rediscounter.Counters)(nil).Add(ctx, "n", 1, "") },
		"brace":          with(f, ctx, rediscounter.Options{Prefix: "a{b"}),
		"closing brace":  with(f, ctx, rediscounter.Options{Prefix: "a}b"}),
		"retention":      with(f, ctx, rediscounter.Options{Retention: time.Microsecond}),
		"past retention": with(f, ctx, rediscounter.Options{Retention: -1}),
		"ttl":            with(f, ctx, rediscounter.Options{TTL: time.Microsecond}),
		"past ttl":       with(f, ctx, rediscounter.Options{TTL: -1}),
	} {
		_, err := call()
		if refused(t, err, rediscounter.ErrInvalid); t.Failed() {
			t.Fatal(name)
		}
	}
	want(t, 0)(f.Get(ctx, "n"))
}

func with(f *fixture, ctx context.Context, o rediscounter.Options) func() (int64, error) { //nolint:revive // the fixture is the receiver
	return func() (int64, error) { return rediscounter.New(f.client, &o).Add(ctx, "n", 1, "") }
}
