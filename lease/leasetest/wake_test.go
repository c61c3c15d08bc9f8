package leasetest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// A pair of processes share a table. Who waits in one of them would not ask again before the test has ended.
type pair struct {
	testing.TB

	ctx    context.Context //nolint:containedctx // it is that of the test
	look   *pgx.Conn
	app    string // the name of the connections
	dbs    [2]*tx.DB[pgx.Tx]
	seen   [2]*events
	stores [2]*lease.SQL[pgx.Tx]
	leases [2]*lease.Leases[*lease.Held]
}

func openPair(t *testing.T, o lease.Options) *pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	at := testdb.Postgres(t)
	look, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = look.Close(context.Background()) })
	p := &pair{TB: t, ctx: ctx, look: look, app: "pair_" + rand.Text()}
	o.TTL, o.PollEvery = time.Hour, time.Hour
	for i := range p.stores {
		p.dbs[i] = pgxtx.New(pgxdb.Pool(t, at+"&application_name="+p.app, 4))
		p.must(lease.Migrate(ctx, p.dbs[i], lease.Names{}))
		p.stores[i], p.seen[i] = lease.NewSQL(p.dbs[i], lease.Names{}), &events{}
		o.Observer = p.seen[i]
		p.leases[i] = lease.New(p.stores[i], &o)
	}
	return p
}

func (p *pair) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// until waits for what nobody is told of.
func (p *pair) until(query string, args ...any) {
	p.Helper()
	for holds := false; !holds; {
		p.must(p.look.QueryRow(p.ctx, query, args...).Scan(&holds))
	}
}

// awaited waits until the store knows that somebody waits.
func (p *pair) awaited(name string) {
	p.Helper()
	p.until("select coalesce(awaited_until > clock_timestamp(), false) from lease where name = $1", name)
}

// acquires takes a lease with what was given back to whoever waits.
func (p *pair) acquires(process int, name string) <-chan *lease.Held {
	got := make(chan *lease.Held, 1)
	go func() {
		defer close(got)
		h, err := p.leases[process].Acquire(p.ctx, name)
		if err != nil {
			p.Error(err)
			return
		}
		got <- h
	}()
	return got
}

func (p *pair) release(h *lease.Held) {
	p.Helper()
	if h == nil {
		p.FailNow()
	}
	if r, err := h.Release(p.ctx); r != lease.ReleaseDone || err != nil {
		p.Fatal(r, err)
	}
}

func TestAReleaseWakesAnotherProcess(t *testing.T) {
	t.Parallel()
	for _, fair := range []bool{false, true} {
		t.Run(fmt.Sprint("fair=", fair), func(t *testing.T) {
			t.Parallel()
			p := openPair(t, lease.Options{Fair: fair})
			for round := range 20 {
				for _, name := range []string{"plain", `'"; drop table lease; --`, "ünïcödé#0"} {
					h, err := p.leases[round%2].TryAcquire(p.ctx, name)
					p.must(err)
					got := p.acquires(1-round%2, name)
					p.awaited(name)
					p.release(h)
					p.release(<-got)
				}
			}
		})
	}
}

// Who is woken and finds the lease with another leaves word for that one, too.
func TestWokenInVain(t *testing.T) {
	t.Parallel()
	p := openPair(t, lease.Options{})
	h, err := p.leases[0].TryAcquire(p.ctx, "a")
	p.must(err)
	got := p.acquires(1, "a")
	for range 3 {
		p.awaited("a")
		// As if somebody had released it, and another had been faster.
		_, err := p.look.Exec(p.ctx, "with freed as (update lease set awaited_until = null) select pg_notify('holdfast_lease', 'a')")
		p.must(err)
	}
	p.awaited("a")
	p.release(h)
	p.release(<-got)
}

// A release that comes between the refusal and the word notifies nobody, and is seen by who leaves word.
func TestReleasedBeforeTheWord(t *testing.T) {
	t.Parallel()
	p := openPair(t, lease.Options{})
	h, err := p.leases[0].TryAcquire(p.ctx, "a")
	p.must(err)
	other, err := p.leases[0].TryAcquire(p.ctx, "other")
	p.must(err)
	waits := p.acquires(1, "other") // keeps the process listening, so that the beginning of that wakes nobody
	p.until(`select count(*) = 1 from pg_stat_activity where application_name = $1 and query ~ '^listen "holdfast_echo'`, p.app)
	db := p.dbs[1].Wrapped(func(d tx.Driver[pgx.Tx]) tx.Driver[pgx.Tx] {
		return interrupted{d, sync.OnceFunc(func() { p.release(h) })}
	})
	got, err := lease.New(lease.NewSQL(db, lease.Names{}), &lease.Options{TTL: time.Hour, PollEvery: time.Hour}).Acquire(p.ctx, "a")
	p.must(err)
	p.release(got)
	p.release(other)
	p.release(<-waits)
}

// interrupted is a driver in whose statements something happens before somebody leaves word that he waits.
type interrupted struct {
	tx.Driver[pgx.Tx]

	happens func()
}

func (d interrupted) Pool() any { return d.Driver.(interface{ Pool() any }).Pool() }

func (d interrupted) Listen(ctx context.Context) (tx.Notifications, error) {
	return d.Driver.(tx.Listener).Listen(ctx)
}

func (d interrupted) Conn() tx.Conn { return interruptedConn{d.Driver.Conn(), d.happens} }

type interruptedConn struct {
	tx.Conn

	happens func()
}

func (c interruptedConn) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	if strings.HasPrefix(query, "with told as") {
		c.happens()
	}
	return c.Conn.QueryRow(ctx, query, args...)
}

func TestAnEvictionWakesAnotherProcess(t *testing.T) {
	t.Parallel()
	p := openPair(t, lease.Options{})
	_, err := p.leases[0].TryAcquire(p.ctx, "a")
	p.must(err)
	got := p.acquires(1, "a")
	p.awaited("a")
	_, err = p.leases[0].Evict(p.ctx, "a")
	p.must(err)
	p.release(<-got)
}

func TestWatchIsWoken(t *testing.T) {
	t.Parallel()
	p := openPair(t, lease.Options{})
	h, err := p.leases[0].TryAcquire(p.ctx, "a")
	p.must(err)
	told, done := make(chan int64, 10), make(chan error, 1)
	ctx, stop := context.WithCancel(p.ctx)
	go func() {
		done <- p.leases[1].Watch(ctx, "a", func(_ context.Context, leader lease.Holding) { told <- leader.Token }, nil)
	}()
	p.awaited("a")
	p.release(h)
	for _, want := range []int64{h.Fence().Token, 0} {
		select {
		case token := <-told:
			if token != want {
				t.Errorf("told of token %d, want %d", token, want)
			}
		case <-p.ctx.Done():
			t.Fatal("not told")
		}
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Of a process that waits, one asks, on one connection beside the pool; with its last waiter that goes.
func TestOneOfAProcessAsks(t *testing.T) {
	t.Parallel()
	p := openPair(t, lease.Options{})
	h, err := p.leases[0].TryAcquire(p.ctx, "a")
	p.must(err)
	const waiters = 100
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			h, err := p.leases[1].Acquire(p.ctx, "a")
			if err != nil {
				t.Error(err)
				return
			}
			p.release(h)
		})
	}
	p.awaited("a")
	const listeners = "select count(*) = $2 from pg_stat_activity where application_name = $1 and query ~ '^(un)?listen'"
	p.until(listeners, p.app, 1)
	p.release(h)
	all.Wait()
	if n := len(p.seen[1].of(lease.EventRefused)); n > 2*waiters {
		t.Errorf("%d tries of %d who waited were refused", n, waiters)
	}
	p.until(listeners, p.app, 0)
}

// Who frees a lease that nobody waits for notifies nobody, and one word of those who wait is good for one notification.
func TestOnlyWhatIsAwaitedNotifies(t *testing.T) {
	t.Parallel()
	p := openPair(t, lease.Options{})
	_, err := p.look.Exec(p.ctx, "listen holdfast_lease")
	p.must(err)
	name := rand.Text() // others use the channel, too
	cycle := func() {
		h, err := p.leases[0].TryAcquire(p.ctx, name)
		p.must(err)
		p.release(h)
	}
	for range 20 {
		cycle()
	}
	h, err := p.leases[0].TryAcquire(p.ctx, name)
	p.must(err)
	got := p.acquires(1, name)
	p.awaited(name)
	p.release(h)
	p.release(<-got)
	for range 20 {
		cycle()
	}
	end := rand.Text()
	_, err = p.look.Exec(p.ctx, "select pg_notify('holdfast_lease', $1)", end)
	p.must(err)
	for heard := 0; ; {
		n, err := p.look.WaitForNotification(p.ctx)
		p.must(err)
		switch n.Payload {
		case name:
			heard++
		case end:
			if heard != 1 {
				t.Errorf("%d notifications, want 1", heard)
			}
			return
		}
	}
}

// To notify costs the holder nothing.
func TestReleaseOfWhatIsAwaited(t *testing.T) {
	t.Parallel()
	r := openRig(t, pgx.QueryExecModeCacheStatement)
	for _, want := range []int{2, 1, 1} { // the first is prepared
		h := r.hold()
		r.Exec("update lease set awaited_until = clock_timestamp() + interval '1 h' where name = $1", h.Name())
		if trips := r.Trips(func() { _, err := h.Release(r.ctx); r.must(err) }); trips != want {
			t.Errorf("%d round trips, want %d", trips, want)
		}
		var still bool
		r.must(r.Direct.QueryRow(r.ctx, "select awaited_until is not null from lease where name = $1", h.Name()).Scan(&still))
		if still {
			t.Error("the word is good for another notification")
		}
	}
}

// To say that somebody waits does not wait for a transaction that the lease guards, and is nothing to one who looks at the fence.
func TestWaitingBesideAGuard(t *testing.T) {
	t.Parallel()
	p := openPair(t, lease.Options{})
	h, err := p.leases[0].TryAcquire(p.ctx, "a")
	p.must(err)
	var got <-chan *lease.Held
	p.must(lease.Do(p.ctx, p.dbs[0], h, func(context.Context, pgx.Tx) error {
		got = p.acquires(1, "a")
		p.awaited("a")
		return nil
	}))
	p.release(h)
	p.release(<-got)
}
