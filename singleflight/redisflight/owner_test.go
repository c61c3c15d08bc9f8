package redisflight_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// S13: the others take over within the owner timeout when the one that loads has died, whatever the TTL.
func TestS13ADeadLoaderHandsOver(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	short := func(o *redisflight.Options[string]) { o.OwnerTimeout, o.TTL = 300*time.Millisecond, time.Hour }
	p, client := f.behind(-1)
	stuck := make(chan struct{})
	dead := f.cache(client, func(context.Context, string) (string, error) {
		loads.Add(1)
		<-stuck
		return "of the dead", nil
	}, short)
	var all sync.WaitGroup
	all.Go(func() { _, _ = dead.Get(t.Context(), "key") })
	f.until("the first load", func() bool { return loads.Load() == 1 })
	_, release := p.Hold("evalsha") // it renews no more, as after kill -9
	want(t, "value")(f.cache(f.client, constant("value", &loads), short).Get(t.Context(), "key"))
	release()
	close(stuck) // it comes back, as after SIGSTOP: its fill is refused
	all.Wait()
	want(t, "value")(f.cache(f.client, constant("another", &loads), short).Get(t.Context(), "key"))
	if loads.Load() != 2 {
		t.Errorf("%d loads", loads.Load())
	}
}

func TestALoadMayTakeLongerThanTheOwnerTimeout(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	short := func(o *redisflight.Options[string]) { o.OwnerTimeout = time.Second }
	from := func(context.Context, string) (string, error) {
		loads.Add(1)
		time.Sleep(2500 * time.Millisecond)
		return "value", nil
	}
	var all sync.WaitGroup
	for range 3 {
		c := f.cache(f.open(nil), from, short)
		all.Go(func() { want(t, "value")(c.Get(t.Context(), "key")) })
	}
	all.Wait()
	if loads.Load() != 1 {
		t.Errorf("%d loads", loads.Load())
	}
}

// A load that goes on although all have left keeps no other process waiting: its lease is given back when they leave.
func TestALoadThatIgnoresItsContextGivesTheLeaseBack(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	long := func(o *redisflight.Options[string]) { o.OwnerTimeout = time.Hour }
	begun, end := make(chan struct{}), make(chan struct{})
	deaf := f.cache(f.client, func(context.Context, string) (string, error) {
		close(begun)
		<-end
		return "late", nil
	}, long)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _, _ = deaf.Get(ctx, "key") })
	<-begun
	cancel()
	other, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	want(t, "value")(f.cache(f.open(nil), constant("value", &loads), long).Get(other, "key"))
	close(end)
	all.Wait()
	want(t, "value")(f.cache(f.client, constant("another", &loads), long).Get(t.Context(), "key"))
	if loads.Load() != 1 {
		t.Errorf("%d loads", loads.Load())
	}
}
