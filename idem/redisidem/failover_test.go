package redisidem_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/redisidem"
)

// A provider counts what it is asked to do. One that honours keys does it once for each.
type provider struct {
	mu     sync.Mutex // guards all below
	honors bool
	asked  map[string]int
	done   map[string]int
}

func newProvider(honors bool) *provider {
	return &provider{honors: honors, asked: map[string]int{}, done: map[string]int{}}
}

func (p *provider) Charge(_ context.Context, childKey string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[childKey]++
	if !p.honors || p.asked[childKey] == 1 {
		p.done[childKey]++
	}
	return "receipt of " + childKey, nil
}

func (p *provider) Find(_ context.Context, childKey string) (string, idem.Landing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done[childKey] == 0 {
		return "", idem.Absent, nil
	}
	return "receipt of " + childKey, idem.Landed, nil
}

// twice returns how many keys had more than one effect.
func (p *provider) twice() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, times := range p.done {
		if times > 1 {
			n++
		}
	}
	return n
}

func (p *provider) charge(ctx context.Context, keys *idem.Leased[*idem.Run], value string) (idem.Result[string], error) {
	key := idem.Key{Scope: "tenant", Name: "charge", Value: value}
	return idem.DoLeased(ctx, keys, key, func(ctx context.Context, run *idem.Run) (string, error) {
		return idem.Step(ctx, run, idem.External[string]{Name: "charge", Call: p.Charge, Reconcile: p.Find})
	})
}

// What a failover to an empty replica costs, as it is documented: every operation runs again that comes again. A provider that honours
// the child key has one effect all the same.
func TestWhatAFailoverLoses(t *testing.T) {
	t.Parallel()
	const keys = 50
	for _, honors := range []bool{true, false} {
		p := newProvider(honors)
		f := failing(t)
		leased := idem.NewLeasedOn(f, nil)
		for i := range keys {
			_, err := p.charge(t.Context(), leased, fmt.Sprint(i))
			must(t, err)
		}
		f.failover()
		again := 0
		for i := range keys {
			res, err := p.charge(t.Context(), leased, fmt.Sprint(i))
			must(t, err)
			if !res.Replayed {
				again++
			}
		}
		want := map[bool]int{true: 0, false: keys}[honors]
		t.Logf("of %d answers that the replica lacked %d operations ran again; with a provider that honours keys (%v) %d had two effects",
			keys, again, honors, p.twice())
		if again != keys || p.twice() != want {
			t.Errorf("%d operations ran again and %d had two effects, want %d and %d", again, p.twice(), keys, want)
		}
	}
}

// Who is at it while the server fails over finds out at its next request, and so two are at it until then. Epochs order them.
func TestAFailoverWhileTheyRun(t *testing.T) {
	t.Parallel()
	const keys = 20
	p, f := newProvider(true), failing(t)
	leased := idem.NewLeasedOn(f, nil)
	other := idem.NewLeasedOn(redisidem.New(f.client, nil), nil)
	var begun, failed, lost sync.WaitGroup
	begun.Add(keys)
	failed.Add(1)
	var epochs [keys]int64
	for i := range keys {
		lost.Go(func() {
			key := idem.Key{Scope: "tenant", Name: "charge", Value: fmt.Sprint(i)}
			_, err := idem.DoLeased(t.Context(), leased, key, func(ctx context.Context, run *idem.Run) (string, error) {
				epochs[i] = run.Epoch()
				begun.Done()
				failed.Wait()
				if err := run.Check(); err != nil {
					t.Error(err) // it cannot know yet
				}
				return idem.Step(ctx, run, idem.External[string]{Name: "charge", Call: p.Charge})
			})
			if err == nil {
				t.Error("an execution that the server does not know has an answer")
			}
		})
	}
	begun.Wait()
	f.failover()
	for i := range keys {
		key := idem.Key{Scope: "tenant", Name: "charge", Value: fmt.Sprint(i)}
		_, err := idem.DoLeased(t.Context(), other, key, func(ctx context.Context, run *idem.Run) (string, error) {
			if run.Epoch() <= epochs[i] || run.Attempt() != 1 {
				t.Errorf("epoch %d, attempt %d came after %d", run.Epoch(), run.Attempt(), epochs[i])
			}
			return idem.Step(ctx, run, idem.External[string]{Name: "charge", Call: p.Charge})
		})
		must(t, err)
	}
	failed.Done()
	lost.Wait()
	if p.twice() != 0 || len(p.asked) != keys {
		t.Errorf("%d keys had two effects of %d", p.twice(), len(p.asked))
	}
	for key, n := range p.asked {
		if n != 1 { // the step's beginning is refused to who comes back
			t.Errorf("%s was asked for %d times", key, n)
		}
	}
}

// A clean handover to a replica that has everything loses nothing.
func TestAFailoverThatLosesNothing(t *testing.T) {
	t.Parallel()
	primary, replica := alone(t), alone(t)
	ctx, p := t.Context(), newProvider(false)
	host, port, err := net.SplitHostPort(primary.client.Options().Addr)
	must(t, err)
	must(t, primary.client.ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err())
	must(t, replica.client.ReplicaOf(ctx, host, port).Err())
	for !strings.Contains(replica.client.Info(ctx, "replication").Val(), "master_link_status:up") {
		must(t, ctx.Err())
	}
	leased := idem.NewLeasedOn(primary, nil)
	for i := range 50 {
		_, err := p.charge(ctx, leased, fmt.Sprint(i))
		must(t, err)
	}
	r := begun(t, primary, claim("running", time.Hour))
	if n, err := primary.client.Wait(ctx, 1, time.Minute).Result(); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	must(t, replica.client.ReplicaOf(ctx, "no", "one").Err())
	after := idem.NewLeasedOn(replica, nil)
	for i := range 50 {
		if res, err := p.charge(ctx, after, fmt.Sprint(i)); err != nil || !res.Replayed {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if p.twice() != 0 {
		t.Errorf("%d had two effects", p.twice())
	}
	yes(t)(replica.Mark(ctx, termOf(r), nil))
}
