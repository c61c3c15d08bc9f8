package redisidem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/redisidem"
)

// setEpoch has a key say that its epoch was given by a server whose clock was ahead.
func (f *fixture) setEpoch(t *testing.T, id idem.ID, epoch int64) {
	t.Helper()
	must(t, f.client.HSet(t.Context(), f.KeyOf(id), "epoch", epoch).Err())
}

// A number of 16 digits is not what tostring makes of it.
func TestEpochsAreTheServersMicrosecondsToTheLastDigit(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	ends := map[int64]bool{}
	for range 200 {
		before, err := f.client.Time(t.Context()).Result()
		must(t, err)
		r := begun(t, f, claim("a", time.Minute))
		after, err := f.client.Time(t.Context()).Result()
		must(t, err)
		if r.Epoch < before.UnixMicro() || r.Epoch > after.UnixMicro()+200 {
			t.Fatalf("epoch %d is not between %d and %d", r.Epoch, before.UnixMicro(), after.UnixMicro())
		}
		if at := r.Created.UnixMicro(); at < before.UnixMicro() || at > after.UnixMicro() {
			t.Fatalf("it was claimed at %d, not between %d and %d", at, before.UnixMicro(), after.UnixMicro())
		}
		if r.Left != time.Minute {
			t.Fatalf("%v are left", r.Left)
		}
		ends[r.Epoch%10] = true
		yes(t)(f.Release(t.Context(), termOf(r)))
	}
	if len(ends) < 5 {
		t.Errorf("epochs end in %v", ends)
	}
}

// B46, and a clock that is set back: the last epoch counts, across takeover, release and a new claim.
func TestEpochsRiseWhenTheClockIsBehind(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	last := begun(t, f, claim("a", time.Minute))
	last.Epoch = time.Now().Add(time.Hour).UnixMicro()
	f.setEpoch(t, last.ID, last.Epoch)
	another := func() idem.Store { // another process, which has seen no epoch
		return redisidem.New(f.client, &redisidem.Options{Prefix: f.prefix})
	}
	for range 10 {
		yes(t)(f.Park(t.Context(), termOf(last), idem.Parking{State: idem.Pending}))
		next, ok, err := another().Take(t.Context(), idem.Taking{Claim: claim("a", time.Minute), Was: last})
		if err != nil || !ok || next.Epoch != last.Epoch+1 {
			t.Fatalf("epoch %d came after %d: %v, %v", next.Epoch, last.Epoch, ok, err)
		}
		yes(t)(f.Release(t.Context(), termOf(next)))
		if last = begun(t, another(), claim("a", time.Minute)); last.Epoch != next.Epoch+1 {
			t.Fatalf("epoch %d came after %d", last.Epoch, next.Epoch)
		}
	}
	yes(t)(f.Complete(t.Context(), termOf(last), idem.Answer{State: idem.Completed}, time.Millisecond))
	for {
		next, ok, err := another().Take(t.Context(), idem.Taking{Claim: claim("a", time.Minute), Was: last, Reuse: true})
		must(t, err)
		if ok {
			if next.Epoch != last.Epoch+1 || next.Attempts != 1 {
				t.Fatalf("epoch %d came after %d", next.Epoch, last.Epoch)
			}
			break
		}
	}
}

// A server that has lost everything, and whose clock is behind, is told by who has seen the last epoch.
func TestEpochsRiseAfterALossAndAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	last := begun(t, f, claim("a", time.Minute))
	last.Epoch = time.Now().Add(time.Hour).UnixMicro()
	f.setEpoch(t, last.ID, last.Epoch)
	if r, err := f.Claim(t.Context(), claim("a", time.Minute)); err != nil || r.Epoch != last.Epoch {
		t.Fatalf("%+v, %v", r, err)
	}
	must(t, f.client.Del(t.Context(), f.KeyOf(last.ID)).Err())
	next := begun(t, f, claim("a", time.Minute))
	if next.Epoch != last.Epoch+1 {
		t.Errorf("epoch %d came after %d", next.Epoch, last.Epoch)
	}
	no(t)(f.Mark(t.Context(), termOf(last), nil))
	no(t)(f.Complete(t.Context(), termOf(last), idem.Answer{State: idem.Completed}, time.Hour))
	no(t)(f.Release(t.Context(), termOf(last)))
}

// FLUSHALL: who was at it is told, and can neither answer nor free the key of who comes next.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	f := alone(t)
	keys := idem.NewLeasedOn(f, &idem.LeaseOptions{Lease: 300 * time.Millisecond})
	key := idem.Key{Scope: "tenant", Name: "charge", Value: "a"}
	var next idem.Record
	var epoch int64
	_, err := idem.DoLeased(t.Context(), keys, key, func(ctx context.Context, run *idem.Run) (string, error) {
		epoch = run.Epoch()
		must(t, f.client.FlushAll(t.Context()).Err())
		next = begun(t, redisidem.New(f.client, nil), claim("a", time.Minute))
		<-ctx.Done()
		var lost *idem.LeaseLostError
		if !errors.As(context.Cause(ctx), &lost) || lost.Reason != idem.TakenOver {
			t.Errorf("the context ends with %v", context.Cause(ctx))
		}
		return "a", nil
	})
	if !errors.Is(err, idem.ErrLeaseLost) {
		t.Error(err)
	}
	if next.Epoch <= epoch {
		t.Errorf("epoch %d came after %d", next.Epoch, epoch)
	}
	yes(t)(f.Mark(t.Context(), termOf(next), nil))
}

// An open key stays, an answer goes, and the key itself some time after it.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	base, ctx := shared(t, nil), t.Context()
	left := func(key string) time.Duration {
		d, err := base.client.PTTL(ctx, key).Result()
		must(t, err)
		return d
	}
	within := func(d, most time.Duration) {
		t.Helper()
		if d <= most-time.Minute || d > most {
			t.Errorf("it stays for %v, want %v", d, most)
		}
	}
	for _, tombstone := range []time.Duration{0, time.Hour, -1} {
		s := redisidem.New(base.client, &redisidem.Options{Prefix: base.prefix, Tombstone: tombstone, Retention: 2 * time.Hour})
		c := claim(tombstone.String(), time.Millisecond)
		key := s.KeyOf(c.ID)
		r := begun(t, s, c)
		if left(key) != -1 {
			t.Error("an open key would go")
		}
		yes(t)(s.Release(ctx, termOf(r)))
		within(left(key), 2*time.Hour)
		r = begun(t, s, claim(tombstone.String(), time.Millisecond))
		if left(key) != -1 {
			t.Error("an open key would go")
		}
		yes(t)(s.Complete(ctx, termOf(r), idem.Answer{State: idem.Completed, Body: []byte("b")}, 10*time.Hour))
		within(left(key+":body"), 10*time.Hour)
		want := map[time.Duration]time.Duration{0: 34 * time.Hour, time.Hour: 11 * time.Hour, -1: 10 * time.Hour}[tombstone]
		within(left(key), want)
	}
}

// B42: an answer that is over is refused as long as the key is remembered, and a new operation after that.
func TestAnAnswerThatIsOver(t *testing.T) {
	t.Parallel()
	base := shared(t, nil)
	s := redisidem.New(base.client, &redisidem.Options{Prefix: base.prefix, Tombstone: time.Second})
	keys := idem.NewLeasedOn(s, &idem.LeaseOptions{TTL: 200 * time.Millisecond})
	key := idem.Key{Scope: "tenant", Name: "charge", Value: "a"}
	call := func() (idem.Result[string], error) {
		return idem.DoLeased(t.Context(), keys, key, func(context.Context, *idem.Run) (string, error) { return "paid", nil })
	}
	_, err := call()
	must(t, err)
	expired := 0
	for {
		res, err := call()
		switch {
		case errors.Is(err, idem.ErrKeyExpired):
			expired++
			list, err := s.List(t.Context(), idem.Filter{States: []idem.State{idem.Expired}})
			must(t, err)
			if len(list) == 1 && (!list[0].Over || list[0].Answer.Body != nil) {
				t.Fatalf("%+v", list)
			}
		case err != nil:
			t.Fatal(err)
		case !res.Replayed:
			if expired == 0 {
				t.Error("it ran again, and was never refused")
			}
			return
		}
	}
}
