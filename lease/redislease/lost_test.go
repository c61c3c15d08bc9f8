package redislease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redisproxy"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/redislease"
)

// behind returns a proxy and a store behind it, whose client has go-redis' default retries.
func behind(t *testing.T, readTimeout time.Duration) (*redisproxy.Proxy, *fixture) {
	t.Helper()
	f := shared(t, nil)
	p := redisproxy.Start(t, f.client.Options().Addr)
	f.client = shared(t, func(o *redis.Options) { o.Addr, o.ReadTimeout = p.Address, readTimeout }).client
	f.Store = redislease.New(f.client, &redislease.Options{Prefix: f.prefix})
	term := take(t, f, claim("warm", "n", time.Minute)) // the scripts
	renewed(t, f, true, term)
	released(t, f, true, term)
	for _, warm := range []func(ctx context.Context, name string) (lease.Holding, error){f.RequestResign, f.Look, f.Evict} {
		if _, err := warm(t.Context(), "warm"); !errors.Is(err, lease.ErrFree) {
			t.Error(err)
		}
	}
	_, err := f.TryInTurn(t.Context(), claim("warm", "in turn", time.Millisecond), lease.Waiter{})
	must(t, err)
	must(t, f.Leave(t.Context(), "warm", "nobody"))
	return p, f
}

// go-redis sends a request again when its reply is late. The second answer is that of the first.
func TestALostReplyChangesNoAnswer(t *testing.T) {
	t.Parallel()
	p, f := behind(t, 200*time.Millisecond)
	sent := func(lost int) {
		t.Helper()
		if n := p.Count(); n != lost+1 {
			t.Errorf("it was sent %d times", n)
		}
	}
	p.Watch("evalsha", 2)
	term := take(t, f, claim("a", "n", time.Minute))
	sent(2)
	direct := shared(t, nil)
	direct.Store = redislease.New(direct.client, &redislease.Options{Prefix: f.prefix})
	renewed(t, direct, true, term)
	p.Watch("evalsha", 2)
	renewed(t, f, true, term)
	sent(2)
	p.Watch("evalsha", 2)
	released(t, f, true, term)
	sent(2)
	released(t, f, false, term)

	take(t, direct, claim("c", "n", time.Minute))
	for what, ask := range map[string]func() (lease.Holding, error){
		"resign": func() (lease.Holding, error) { return f.RequestResign(t.Context(), "c") },
		"look":   func() (lease.Holding, error) { return f.Look(t.Context(), "c") },
	} {
		p.Watch("evalsha", 2)
		if h, err := ask(); err != nil || h.Holder != "holder n" || h.Released {
			t.Errorf("%s: %+v, %v", what, h, err)
		}
		sent(2)
	}
	p.Watch("evalsha", 2)
	if h, err := f.Evict(t.Context(), "c"); err != nil || h.Holder != "holder n" || h.Name != "c" || !h.Resigning {
		t.Errorf("an eviction that came again: %+v, %v", h, err)
	}
	sent(2)
	if _, err := f.Evict(t.Context(), "c"); !errors.Is(err, lease.ErrFree) {
		t.Errorf("evicted twice: %v", err)
	}
	p.Watch("evalsha", 2)
	if g, err := f.TryInTurn(t.Context(), claim("c", "m", time.Minute), lease.Waiter{ID: "w", TTL: time.Minute}); err != nil || !g.Held {
		t.Errorf("in turn: %+v, %v", g, err)
	}
	sent(2)

	leases := lease.New(f, &lease.Options{TTL: time.Hour})
	must(t, leases.Run(t.Context(), "b", func(context.Context, *lease.Held) error {
		p.Watch("evalsha", 1) // the reply to the release
		return nil
	}))
	sent(1)
}

// A request that was overtaken by its own repetition comes when the lease has been released. It must not take it for nobody.
func TestALateRepetitionTakesNothing(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	term := take(t, f, claim("a", "n", time.Hour))
	released(t, f, true, term)
	if g, err := f.TryAcquire(t.Context(), claim("a", "n", time.Hour)); err != nil || g.Held {
		t.Fatalf("%+v, %v", g, err)
	}
	take(t, f, claim("a", "nn", time.Hour)) // a nonce that begins with the other
}

// go-redis waits for a reply as long as its ReadTimeout says. Each request ends with its context all the same, and what an
// acquisition took is released.
func TestARequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p, f := behind(t, time.Hour)
	direct := redislease.New(shared(t, nil).client, &redislease.Options{Prefix: f.prefix})
	held := take(t, direct, claim("held", "n", time.Hour))
	for _, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := f.Renew(ctx, []lease.Term{held}); return err },
		func(ctx context.Context) error { _, err := f.Release(ctx, held); return err },
		func(ctx context.Context) error { // last, since what comes after it in the background has replies to lose, too
			_, err := lease.New(f, &lease.Options{TTL: time.Hour}).TryAcquire(ctx, "a")
			return err
		},
	} {
		p.Watch("evalsha", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || holdfast.OutcomeOf(err) != holdfast.Unknown {
			t.Errorf("%v is %v", err, holdfast.OutcomeOf(err))
		}
		cancel()
	}
	for {
		g, err := direct.TryAcquire(t.Context(), claim("a", "other", time.Minute))
		must(t, err)
		if g.Held {
			break
		}
	}
}

// A client that heeds contexts by itself needs no help.
func TestContextTimeoutEnabled(t *testing.T) {
	t.Parallel()
	f := shared(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h, err := lease.New(f, nil).Acquire(ctx, "a")
	must(t, err)
	if got, err := h.Release(ctx); got != lease.ReleaseDone || err != nil {
		t.Errorf("the release came to %d, %v", got, err)
	}
	cancel()
	if _, err := f.TryAcquire(ctx, claim("a", "n", time.Minute)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
