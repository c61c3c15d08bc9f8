package redisflight_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

func TestOneLoadAcrossProcesses(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	slow := func(context.Context, string) (string, error) {
		loads.Add(1)
		time.Sleep(50 * time.Millisecond)
		return "value", nil
	}
	var all sync.WaitGroup
	for range 5 {
		c := f.cache(f.open(nil), slow, nil)
		for range 20 {
			all.Go(func() { want(t, "value")(c.Get(t.Context(), "key")) })
		}
	}
	all.Wait()
	if loads.Load() != 1 || f.count(redisflight.EventLoaded) != 1 || f.count(redisflight.EventWaited) == 0 {
		t.Errorf("%d loads, %d waited", loads.Load(), f.count(redisflight.EventWaited))
	}
	if keys := f.keys(); len(keys) != 1 {
		t.Errorf("keys: %q", keys)
	}
}

func TestWhatCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	for _, o := range []redisflight.Options[string]{
		{Prefix: "{"}, {TTL: 1}, {NotFoundTTL: 1}, {NotFoundTTL: -1}, {OwnerTimeout: 1}, {Timeout: -1}, {Jitter: 2},
	} {
		c := redisflight.New(f.client, constant("", &loads), &o)
		if _, err := c.Get(t.Context(), "key"); !errors.Is(err, redisflight.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	c := redisflight.New(nil, constant("", &loads), nil)
	if err := c.Invalidate(t.Context(), "key"); !errors.Is(err, redisflight.ErrInvalid) {
		t.Errorf("no client: %v", err)
	}
}

// Numbers that the documentation names.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	p, client := f.behind(-1)
	c := f.cache(client, constant("value", &loads), nil)
	want(t, "value")(c.Get(t.Context(), "warm")) // the scripts
	for _, step := range []struct {
		name  string
		trips int
		do    func() error
	}{
		{"miss", 2, func() error { _, err := c.Get(t.Context(), "key"); return err }},
		{"hit", 1, func() error { _, err := c.Get(t.Context(), "key"); return err }},
		{"invalidate", 1, func() error { return c.Invalidate(t.Context(), "key") }},
		{"miss again", 2, func() error { _, err := c.Get(t.Context(), "key"); return err }},
	} {
		p.Watch("", 0)
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if n := p.Count(); n != step.trips {
			t.Errorf("%s: %d round trips, want %d", step.name, n, step.trips)
		}
	}
	// Nor is there one afterwards, for which nobody waits.
	const misses = 100
	p.Watch("", 0)
	last := f.cache(client, constant("value", &loads), nil)
	for i := range misses {
		want(t, "value")(last.Get(t.Context(), fmt.Sprint(i)))
	}
	if err := last.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := p.Count(); n != 2*misses {
		t.Errorf("%d round trips for %d misses", n, misses)
	}
}

// S19: nothing is left running, and no lease.
func TestS19Close(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.cache(f.client, func(ctx context.Context, _ string) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}, nil)
	done := make(chan error, 1)
	go func() {
		_, err := c.Get(t.Context(), "key")
		done <- err
	}()
	f.until("the lease", func() bool { return len(f.keys()) == 1 })
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if err := <-done; !errors.Is(err, singleflight.ErrClosed) {
		t.Errorf("the caller got %v", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Errorf("Close again: %v", err)
	}
	if keys := f.keys(); len(keys) != 0 {
		t.Errorf("left: %q", keys)
	}
	if _, err := c.Get(t.Context(), "key"); !errors.Is(err, singleflight.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
