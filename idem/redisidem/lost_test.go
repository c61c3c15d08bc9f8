package redisidem_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/redisidem"
	"github.com/holdfast-go/holdfast/internal/redisproxy"
)

// behind returns a proxy, a store behind it, whose client has go-redis' default retries, and one beside it.
func behind(t *testing.T, readTimeout time.Duration) (p *redisproxy.Proxy, f, direct *fixture) {
	t.Helper()
	direct = shared(t, nil)
	p = redisproxy.Start(t, direct.client.Options().Addr)
	f = &fixture{prefix: direct.prefix}
	f.client = shared(t, func(o *redis.Options) { o.Addr, o.ReadTimeout = p.Address, readTimeout }).client
	f.Store = redisidem.New(f.client, &redisidem.Options{Prefix: f.prefix})
	must(t, f.Check(t.Context())) // the server knows all scripts
	return p, f, direct
}

// go-redis sends a request again when its reply is late. The answer is that of the first time, and so is what is stored.
func TestALostReplyChangesNoAnswer(t *testing.T) {
	t.Parallel()
	p, f, direct := behind(t, 200*time.Millisecond)
	ctx := t.Context()
	lost := func(request func(s idem.Store)) {
		t.Helper()
		p.Watch("evalsha", 2)
		request(f)
		if n := p.Count(); n != 3 {
			t.Errorf("it was sent %d times", n)
		}
		p.Watch("", 0)
	}
	show := func(id idem.ID) idem.Record {
		t.Helper()
		list, err := direct.List(ctx, idem.Filter{ID: id})
		must(t, err)
		if len(list) != 1 {
			t.Fatalf("%d records", len(list))
		}
		return list[0]
	}

	c := claim("a", time.Minute)
	var r idem.Record
	lost(func(s idem.Store) { r = begun(t, s, c) })
	if got := show(c.ID); got.Epoch != r.Epoch || got.Attempts != 1 {
		t.Errorf("%+v is stored of %+v", got, r)
	}
	lost(func(s idem.Store) { yes(t)(s.Mark(ctx, termOf(r), []byte("steps"))) })
	lost(func(s idem.Store) {
		renewals, err := s.Renew(ctx, []idem.Term{termOf(r)}, time.Hour)
		if err != nil || renewals[0] != idem.RenewalDone {
			t.Errorf("%v, %v", renewals, err)
		}
	})
	lost(func(s idem.Store) { yes(t)(s.Announce(ctx, r.ID)) })
	lost(func(s idem.Store) {
		yes(t)(s.Park(ctx, termOf(r), idem.Parking{State: idem.Pending, After: time.Minute, Note: "why"}))
	})
	no(t)(f.Park(ctx, termOf(r), idem.Parking{State: idem.Pending})) // another request
	if got := show(c.ID); got.State != idem.Pending || got.Note != "why" || string(got.Steps) != "steps" {
		t.Errorf("%+v", got)
	}
	again := claim("a", time.Minute)
	lost(func(s idem.Store) {
		next, ok, err := s.Take(ctx, idem.Taking{Claim: again, Was: r, Early: true})
		if err != nil || !ok || next.Epoch <= r.Epoch || next.Attempts != 2 {
			t.Errorf("%+v, %v, %v", next, ok, err)
		}
		r = next
	})
	if got := show(c.ID); got.Epoch != r.Epoch || got.Attempts != 2 {
		t.Errorf("%+v is stored of %+v", got, r)
	}
	lost(func(s idem.Store) { yes(t)(s.Release(ctx, termOf(r))) })
	no(t)(f.Release(ctx, termOf(r)))
	r = begun(t, f, claim("a", time.Minute))
	answer := idem.Answer{State: idem.Completed, Codec: 7, Status: 201, Body: []byte("body")}
	lost(func(s idem.Store) { yes(t)(s.Complete(ctx, termOf(r), answer, time.Hour)) })
	yes(t)(f.Complete(ctx, termOf(r), answer, time.Hour)) // another request of the same execution
	if got, err := f.Claim(ctx, claim("a", time.Minute)); err != nil || got.State != idem.Completed || string(got.Answer.Body) != "body" {
		t.Errorf("%+v, %v", got, err)
	}
}

// What is due is taken once, though its requests are repeated.
func TestALostReplyOfTakeDue(t *testing.T) {
	t.Parallel()
	p, f, direct := behind(t, 300*time.Millisecond)
	c := claim("a", time.Minute)
	r := begun(t, direct, c)
	yes(t)(direct.Park(t.Context(), termOf(r), idem.Parking{State: idem.Unknown}))
	p.Watch(redisidem.TakeHash, 2)
	list, err := f.TakeDue(t.Context(), idem.Due{Names: []string{"charge"}, States: []idem.State{idem.Unknown}, Lease: time.Minute, Limit: 1})
	if err != nil || len(list) != 1 || list[0].Epoch <= r.Epoch || list[0].Attempts != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if n := p.Count(); n != 3 {
		t.Errorf("it was sent %d times", n)
	}
	yes(t)(f.Mark(t.Context(), termOf(list[0]), nil))
}

// A request that was overtaken by its own repetition comes when the key has been made free. It must not take it for nobody.
func TestALateRepetitionTakesNothing(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	c := claim("a", time.Hour)
	r := begun(t, f, c)
	yes(t)(f.Release(t.Context(), termOf(r)))
	if late, err := f.Claim(t.Context(), c); err != nil || late.State != 0 {
		t.Fatalf("%+v, %v", late, err)
	}
	begun(t, f, claim("a", time.Hour))
}

// The release of a claim whose reply was lost can be faster than the claim.
func TestAReleaseThatOvertakesItsClaim(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	c := claim("a", time.Hour)
	no(t)(f.Release(t.Context(), idem.Term{ID: c.ID, Nonce: c.Nonce}))
	if late, err := f.Claim(t.Context(), c); err != nil || late.State != 0 {
		t.Fatalf("%+v, %v", late, err)
	}
	r := begun(t, f, claim("a", time.Hour))
	no(t)(f.Release(t.Context(), idem.Term{ID: c.ID, Nonce: c.Nonce}))
	yes(t)(f.Release(t.Context(), idem.Term{ID: r.ID, Nonce: r.Nonce}))
}

// go-redis waits for a reply as long as its ReadTimeout says. Each request ends with its context all the same.
func TestARequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p, f, direct := behind(t, time.Hour)
	r := begun(t, direct, claim("held", time.Hour))
	for name, call := range map[string]func(ctx context.Context) error{
		"renew": func(ctx context.Context) error {
			_, err := f.Renew(ctx, []idem.Term{termOf(r)}, time.Hour)
			return err
		},
		"mark":  func(ctx context.Context) error { _, err := f.Mark(ctx, termOf(r), nil); return err },
		"claim": func(ctx context.Context) error { _, err := f.Claim(ctx, claim("a", time.Hour)); return err },
		"due": func(ctx context.Context) error {
			_, err := f.TakeDue(ctx, idem.Due{Names: []string{"charge"}, States: []idem.State{idem.Running}, Lease: time.Minute, Limit: 1})
			return err
		},
		"list": func(ctx context.Context) error { _, err := f.List(ctx, idem.Filter{ID: r.ID}); return err },
	} {
		p.Watch("evalsha", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// A claim that was granted, and whose caller has gone, is given back.
func TestALostClaimIsGivenBack(t *testing.T) {
	t.Parallel()
	p, f, direct := behind(t, time.Hour)
	keys := idem.NewLeasedOn(f, &idem.LeaseOptions{Lease: time.Hour})
	key := idem.Key{Scope: "tenant", Name: "charge", Value: "a"}
	p.Watch("evalsha", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := idem.DoLeased(ctx, keys, key, func(context.Context, *idem.Run) (int, error) {
		t.Error("it ran")
		return 0, nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	for {
		c := claim("a", time.Minute)
		r, err := direct.Claim(t.Context(), c)
		must(t, err)
		if r.Nonce == c.Nonce && r.State == idem.Running {
			break
		}
	}
}

// One answer, one effect, under lost replies at every request of many calls.
func TestLostRepliesEverywhere(t *testing.T) {
	t.Parallel()
	p, f, _ := behind(t, 100*time.Millisecond)
	keys := idem.NewLeasedOn(f, &idem.LeaseOptions{Lease: time.Minute})
	for n := range 6 { // the replies from the nth request on
		done := 0
		key := idem.Key{Scope: "tenant", Name: "charge", Value: string(rune('a' + n))}
		step := idem.External[int]{Name: "call", Call: func(context.Context, string) (int, error) {
			done++
			return rand.IntN(1 << 30), nil
		}}
		first, err := idem.DoLeased(t.Context(), keys, key, func(ctx context.Context, run *idem.Run) (int, error) {
			if n%2 == 1 {
				p.Watch("evalsha", 1+n/2)
			}
			return idem.Step(ctx, run, step)
		})
		must(t, err)
		if n%2 == 0 {
			p.Watch("evalsha", 1+n/2)
		}
		second, err := idem.DoLeased(t.Context(), keys, key, func(context.Context, *idem.Run) (int, error) { return 0, errors.New("ran again") })
		if err != nil || second.Value != first.Value || done != 1 || !second.Replayed {
			t.Errorf("%d: %+v, then %+v, %v after %d calls", n, first, second, err, done)
		}
		p.Watch("", 0)
	}
}
