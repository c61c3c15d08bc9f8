package leasetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// A network is between a holder and the database; a contender has none.
type network struct {
	testing.TB
	proxy             *wire.Proxy
	holder, contender *tx.DB[pgx.Tx]
	events            *events
	o                 lease.Options // of the holder
}

// Statements on the wire.
var (
	acquires = wire.Runs("with own")
	renews   = wire.Runs(`update "lease" t set`)
	releases = wire.Runs(`update "lease" set`)
)

func openNetwork(t testing.TB) *network {
	t.Helper()
	direct := testdb.Postgres(t)
	proxy, err := wire.Start(direct, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := &network{
		TB: t, proxy: proxy, holder: pgxtx.New(pgxdb.Pool(t, proxy.URL(), 8)), contender: pgxtx.New(pgxdb.Pool(t, direct, 8)), events: &events{},
	}
	t.Cleanup(func() { _ = proxy.Close() }) // before the pools, which wait for connections that hang
	n.o = lease.Options{TTL: 3 * time.Second, Margin: time.Second, PollEvery: 20 * time.Millisecond, Observer: n.events}
	n.must(lease.Migrate(t.Context(), n.contender, lease.Names{}))
	return n
}

func (n *network) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func (n *network) leases(db *tx.DB[pgx.Tx]) *lease.Leases[*lease.Held] {
	return lease.New(lease.NewSQL(db, lease.Names{}), &n.o)
}

func (n *network) hold(ctx context.Context) *lease.Held {
	n.Helper()
	h, err := n.leases(n.holder).TryAcquire(ctx, "a")
	n.must(err)
	return h
}

// passOn waits until the contender has the lease, and checks that by then h had ended, and why.
func (n *network) passOn(h *lease.Held) {
	n.Helper()
	o := n.o
	o.Observer = nil
	next, err := lease.New(lease.NewSQL(n.contender, lease.Names{}), &o).Acquire(n.Context(), "a")
	n.must(err)
	var lost *lease.LostError
	if cause := context.Cause(h.Context()); !errors.As(cause, &lost) || lost.Reason != lease.Unreachable || lost.Err == nil {
		n.Errorf("the contender has the lease, and the holder's context says: %v", cause)
	}
	if next.Fence().Token <= h.Fence().Token {
		n.Errorf("token %v came after %v", next.Fence(), h.Fence())
	}
	n.must(next.Check())
	_, err = next.Release(n.Context())
	n.must(err)
}

// Events are what an observer was told.
type events struct {
	mu  sync.Mutex
	all []holdfast.Event
}

func (e *events) Observe(_ context.Context, event holdfast.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func (e *events) of(kind holdfast.EventKind) (found []holdfast.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.all {
		if event.Kind == kind {
			found = append(found, event)
		}
	}
	return found
}

// B1: the server cannot be reached any more.
func TestServerGone(t *testing.T) {
	t.Parallel()
	n := openNetwork(t)
	h := n.hold(t.Context())
	n.proxy.Refuse()
	n.passOn(h)
	if failed := n.events.of(lease.EventRenewFailed); len(failed) < 2 || failed[1].Attempt != 2 {
		t.Errorf("it was renewed %d times: %+v", len(failed), failed)
	}
}

// B2: the connection of one renewal breaks, before it or before its reply.
func TestOneRenewalIsCut(t *testing.T) {
	t.Parallel()
	n := openNetwork(t)
	for _, cut := range []func(wire.Match) *wire.Hook{n.proxy.CutBefore, n.proxy.CutReplyTo} {
		h := n.hold(t.Context())
		cut(renews)
		seen := n.proxy.Watch(renews)
		for seen.Hits() < 4 {
			n.must(h.Check())
			time.Sleep(time.Millisecond)
		}
		n.must(h.Context().Err())
		if got, err := h.Release(t.Context()); got != lease.ReleaseDone {
			t.Errorf("the release came to %d, %v", got, err)
		}
	}
	if failed := n.events.of(lease.EventRenewFailed); len(failed) != 2 || failed[0].Attempt != 1 || failed[1].Attempt != 1 {
		t.Errorf("failed renewals: %+v", failed)
	}
}

// B3: the context of the acquisition ends while the answer to a renewal is on its way.
func TestAnswerOfARenewalIsLate(t *testing.T) {
	t.Parallel()
	n := openNetwork(t)
	ctx, cancel := context.WithCancel(t.Context())
	h := n.hold(ctx)
	held := n.proxy.HoldReplyTo(renews)
	<-held.Hit()
	cancel()
	n.must(h.Check())
	if got, err := h.Release(ctx); got != lease.ReleaseDone {
		t.Errorf("the release came to %d, %v", got, err)
	}
	held.Release()
	n.must(n.leases(n.contender).Run(t.Context(), "a", func(context.Context, *lease.Held) error { return nil }))
}

// B9, B11: packets disappear, and no connection breaks. The holder gives up while its renewals hang.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	n := openNetwork(t)
	h := n.hold(t.Context())
	n.proxy.Swallow(renews).Always()
	n.proxy.LoseCancels()
	n.passOn(h)
	if late := time.Since(h.Deadline()); late < 0 {
		t.Errorf("the deadline is in %v", -late)
	}
}

// B20: the network is gone when the lease is released. The release ends, and says that nobody knows.
func TestReleaseIntoABlackHole(t *testing.T) {
	t.Parallel()
	n := openNetwork(t)
	h := n.hold(t.Context())
	n.proxy.Swallow(releases).Always()
	n.proxy.LoseCancels()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // a release has 5 s without it
	defer cancel()
	if got, err := h.Release(ctx); got != lease.ReleaseUnknown || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %d, %v", got, err)
	}
	n.must(n.leases(n.contender).Run(t.Context(), "a", func(context.Context, *lease.Held) error { return nil }))
}

// B21: the reply to an acquisition is lost, or late, or the request arrives when the caller has gone. What it took is given back.
func TestReplyIsLost(t *testing.T) {
	t.Parallel()
	for name, break1 := range map[string]func(*wire.Proxy) *wire.Hook{
		"cut":          func(p *wire.Proxy) *wire.Hook { return p.CutReplyTo(acquires) },
		"held":         func(p *wire.Proxy) *wire.Hook { return p.HoldReplyTo(acquires) },
		"late request": func(p *wire.Proxy) *wire.Hook { return p.Delay(acquires, 300*time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := openNetwork(t)
			n.o.TTL = time.Hour
			n.proxy.LoseCancels()
			hook := break1(n.proxy)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { // the caller leaves when the request is on its way, or was served
				for name == "late request" && hook.Hits() == 0 {
					time.Sleep(time.Millisecond)
				}
				if name != "late request" {
					<-hook.Hit()
				}
				cancel()
			}()
			_, err := n.leases(n.holder).TryAcquire(ctx, "a")
			if err == nil || holdfast.OutcomeOf(err) != holdfast.Unknown {
				t.Fatalf("got %v, which says %v", err, holdfast.OutcomeOf(err))
			}
			<-hook.Hit()
			patience, end := context.WithTimeout(t.Context(), 20*time.Second)
			defer end()
			taken := func() (taken bool) {
				n.must(n.contender.Conn().QueryRow(patience, "select exists (select from lease where nonce is not null)").Scan(&taken))
				return taken
			}
			if name == "late request" { // it does not arrive after the last release
				for at := time.Now(); !taken() && time.Since(at) < time.Second; {
					time.Sleep(time.Millisecond)
				}
			}
			for taken() {
				time.Sleep(time.Millisecond)
			}
			n.must(n.leases(n.contender).Run(t.Context(), "a", func(context.Context, *lease.Held) error { return nil }))
		})
	}
}

// inside is a database all of whose statements run in one open transaction.
type inside struct {
	tx.Driver[pgx.Tx]

	t pgx.Tx
}

func (d inside) Conn() tx.Conn { return d.Wrap(d.t) }

// B15: in a transaction that has been open for a while, a lease that ran out is seen to have, and what is acquired and renewed
// runs from now on.
func TestTheStatementReadsTheClock(t *testing.T) {
	t.Parallel()
	n := openNetwork(t)
	ctx := t.Context()
	err := n.contender.Do(ctx, func(ctx context.Context, old pgx.Tx) error {
		store := lease.NewSQL(n.contender.Wrapped(func(d tx.Driver[pgx.Tx]) tx.Driver[pgx.Tx] { return inside{d, old} }), lease.Names{})
		claim := lease.Claim{Name: "a", Nonce: "mine", TTL: time.Minute, AtLeast: time.Second}
		for _, sql := range []string{
			"insert into lease (name, token, nonce, acquired_at, expires_at) values ('a', 1, 'dead', clock_timestamp(), clock_timestamp() + interval '1 second')",
			"select pg_sleep(2)",
		} {
			if _, err := old.Exec(ctx, sql); err != nil {
				return err
			}
		}
		left := func(what, column string, least time.Duration) {
			var left float64
			n.must(old.QueryRow(ctx, "select extract(epoch from "+column+" - clock_timestamp())::float8 from lease").Scan(&left))
			if left < least.Seconds() {
				t.Errorf("%s leaves %v s of %s", what, left, column)
			}
		}
		g, err := store.TryAcquire(ctx, claim)
		if err != nil || !g.Held {
			t.Errorf("a lease that ran out is not seen to: %+v, %v", g, err)
		}
		left("an acquisition", "expires_at", 59*time.Second)
		left("an acquisition", "keep_until", 0)
		term := lease.Term{Name: "a", Token: g.Token, Nonce: "mine", TTL: time.Minute}
		if _, err := store.Renew(ctx, []lease.Term{term}); err != nil {
			return err
		}
		left("a renewal", "expires_at", 59*time.Second)
		if _, err := store.Release(ctx, term); err != nil {
			return err
		}
		left("a release", "expires_at", 0) // for the rest of AtLeast
		if again, err := store.TryAcquire(ctx, lease.Claim{Name: "a", Nonce: "next", TTL: time.Minute}); err != nil || again.Held {
			t.Errorf("before the end of AtLeast it was taken: %+v, %v", again, err)
		}
		return nil
	})
	n.must(err)
}

// B30: who asks first and is served last has the higher token: it is drawn when the lease is taken.
func TestTokenIsDrawnLate(t *testing.T) {
	t.Parallel()
	n := openNetwork(t)
	n.o.TTL = time.Hour
	first := n.hold(t.Context())
	_, err := first.Release(t.Context())
	n.must(err)
	late := n.proxy.Delay(acquires, 300*time.Millisecond)
	got := make(chan *lease.Held, 1)
	go func() {
		h, err := n.leases(n.holder).TryAcquire(t.Context(), "a")
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	for late.Hits() == 0 {
		time.Sleep(time.Millisecond)
	}
	var between int64
	n.must(n.leases(n.contender).Run(t.Context(), "a", func(_ context.Context, h *lease.Held) error {
		between = h.Fence().Token
		return nil
	}))
	if h := <-got; h != nil && (between <= first.Fence().Token || h.Fence().Token <= between) {
		t.Errorf("tokens %d, %d, %d", first.Fence().Token, between, h.Fence().Token)
	}
}
