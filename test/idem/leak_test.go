package idem_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
)

// After each of these cases no connection is taken from the pool, no session is in a transaction or holds an advisory lock,
// and no goroutine has stayed. The tests count what the process and the server hold, so they run beside no other.

func TestNothingIsLeftPgx(t *testing.T) { //nolint:paralleltest // see above
	nothingIsLeft(t, openPgx, func(t testing.TB) string { return postgresNamed(t, "holdfast_left") })
}

func TestNothingIsLeftDatabaseSQL(t *testing.T) { //nolint:paralleltest // see above
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) { //nolint:paralleltest // see above
			nothingIsLeft(t, openSQL(driver, tx.PostgreSQL), func(t testing.TB) string { return postgresNamed(t, "holdfast_left") })
		})
	}
}

func TestNothingIsLeftSQLite(t *testing.T) { //nolint:paralleltest // see above
	nothingIsLeft(t, openSQL("sqlite", tx.SQLite), sqliteFile)
}

var errPlain = errors.New("no answer")

// A verb is one way to run a closure once.
type verb[T any] func(ctx context.Context, key string, fn func(ctx context.Context, t T) error) error

// leaks is what the cases work with.
type leaks[T any] struct {
	*testing.T
	store[T]
	keys  *idem.Keys[T]
	inbox *idem.Inbox[T]
	proxy *wire.Proxy // nil on SQLite
	watch *sql.DB     // a pool of its own to look from
}

func nothingIsLeft[T any](t *testing.T, open opener[T], address func(testing.TB) string) {
	direct := address(t)
	l := &leaks[T]{T: t}
	target := direct
	if strings.HasPrefix(direct, "postgres") {
		proxy, err := wire.Start(direct, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		l.proxy, target = proxy, proxy.URL()
		l.watch = pool(t, "pgx", withName(t, direct, "holdfast_watch"))
	} else {
		l.watch = pool(t, "sqlite", direct+"&_pragma=busy_timeout(0)")
	}
	if err := l.watch.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	l.store = open(t, target)
	prepare(t, l.store)
	l.keys, l.inbox = idem.New(l.DB, nil), idem.NewInbox(l.DB, "consumer", nil)
	verbs := map[string]verb[T]{"Do": l.do, "DoTx": l.doTx, "Inbox.Do": l.receive, "Inbox.DoTx": l.receiveTx}
	for name, v := range verbs {
		for _, c := range endCases[T]() {
			c.run(l, v, name+" "+c.name)
			l.settled(name + ", " + c.name)
		}
	}
	l.busy()
	l.settled("a refusal, and a follower that leaves")
	l.leased()
	l.settled("a duplicate of leased work that waits, and one that leaves")
	l.close()
	l.alone(before)
}

func pool(t testing.TB, driver, address string) *sql.DB {
	t.Helper()
	db := stddb.Open(t, driver, address, 1)
	return db
}

// settled fails unless soon nothing is held. What was discarded is rolled back on a goroutine, and a server takes a moment
// to see that a connection is gone.
func (l *leaks[T]) settled(what string) {
	l.Helper()
	held := ""
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		if held = l.held(); held == "" {
			return
		}
	}
	l.Fatalf("%s: left behind: %s", what, held) // and with every case that follows
}

func (l *leaks[T]) held() string {
	l.Helper()
	if l.inUse() != 0 {
		return "a connection"
	}
	if l.proxy == nil {
		if _, err := l.watch.ExecContext(context.Background(), "begin immediate; rollback"); err != nil {
			return "the writer's lock"
		}
		return ""
	}
	var sessions, locks, listeners int
	err := l.watch.QueryRowContext(context.Background(), `select
		(select count(*) from pg_stat_activity where application_name = 'holdfast_left' and state like '%in transaction%'),
		(select count(*) from pg_locks join pg_stat_activity using (pid) where application_name = 'holdfast_left' and locktype = 'advisory'),
		(select count(*) from pg_stat_activity where application_name = 'holdfast_left' and query ~ '^(un)?listen')`).
		Scan(&sessions, &locks, &listeners)
	switch {
	case err != nil:
		l.Fatal(err)
	case sessions > 0:
		return "a session in a transaction"
	case locks > 0:
		return "an advisory lock"
	case listeners > 0:
		return "a connection that listens"
	}
	return ""
}

// alone fails unless soon no goroutine is left besides those of before. Connections to the proxy take theirs along.
func (l *leaks[T]) alone(before goleak.Option) {
	l.Helper()
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if err = goleak.Find(before, goleak.IgnoreAnyFunction("github.com/holdfast-go/holdfast/internal/wire.(*session).run")); err == nil {
			return
		}
	}
	l.Error(err)
}

func (l *leaks[T]) do(ctx context.Context, key string, fn func(ctx context.Context, t T) error) error {
	_, err := idem.Do(ctx, l.keys, leftKey(key), value(fn))
	return err
}

// doTx commits after an error too, where the transaction allows it.
func (l *leaks[T]) doTx(ctx context.Context, key string, fn func(ctx context.Context, t T) error) error {
	f, err := l.begin(context.Background(), tx.DefaultIsolation)
	if err != nil {
		return err
	}
	defer func() { _ = f.Rollback(context.Background()) }()
	_, err = idem.DoTx(ctx, l.keys, f.Tx, leftKey(key), value(fn))
	return errors.Join(err, f.Commit(context.Background()))
}

func (l *leaks[T]) receive(ctx context.Context, key string, fn func(ctx context.Context, t T) error) error {
	_, err := l.inbox.Do(ctx, key, fn)
	return err
}

// receiveTx rolls back after an error: what the handler wrote is the caller's to undo.
func (l *leaks[T]) receiveTx(ctx context.Context, key string, fn func(ctx context.Context, t T) error) error {
	f, err := l.begin(context.Background(), tx.DefaultIsolation)
	if err != nil {
		return err
	}
	defer func() { _ = f.Rollback(context.Background()) }()
	if _, err = l.inbox.DoTx(ctx, f.Tx, key, fn); err != nil {
		return err
	}
	return f.Commit(context.Background())
}

func leftKey(value string) idem.Key {
	return idem.Key{Scope: "tenant", Name: "charge", Value: value, Fingerprint: idem.FingerprintOf("request")}
}

func value[T any](fn func(ctx context.Context, t T) error) func(context.Context, T) (int, error) {
	return func(ctx context.Context, t T) (int, error) { return 1, fn(ctx, t) }
}

// busy holds a key, and has it asked for by another process, which is refused, and in the same process by followers of
// which one waits until its context ends.
func (l *leaks[T]) busy() {
	if l.proxy == nil {
		return // there a duplicate waits for the writer, in the same process too unless it follows
	}
	waiting := idem.New(l.DB, &idem.Options{Wait: time.Minute})
	inside, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := idem.Do(l.Context(), waiting, leftKey("hot"), value(func(context.Context, T) error {
			close(inside)
			<-leave
			return nil
		})); err != nil {
			l.Error(err)
		}
	})
	<-inside
	never := func(context.Context, T) error { l.Error("a duplicate ran"); return nil }
	if err := l.do(l.Context(), "hot", never); !errors.Is(err, idem.ErrInFlight) {
		l.Errorf("another process: got %v", err)
	}
	if err := l.doTx(l.Context(), "hot", never); !errors.Is(err, idem.ErrInFlight) {
		l.Errorf("another process, in a transaction: got %v", err)
	}
	ctx, cancel := context.WithTimeout(l.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := idem.Do(ctx, waiting, leftKey("hot"), value(never)); !errors.Is(err, context.DeadlineExceeded) {
		l.Errorf("a follower that leaves: got %v", err)
	}
	wg.Go(func() {
		if res, err := idem.Do(l.Context(), waiting, leftKey("hot"), value(never)); err != nil || !res.Replayed {
			l.Errorf("a follower that stays: got %+v, %v", res, err)
		}
	})
	close(leave)
	wg.Wait()
}

// leased has work that leaves the database asked for by another process, of which one call waits until its context ends, and one for
// the answer.
func (l *leaks[T]) leased() {
	other := idem.NewLeased(idem.New(l.DB, nil), &idem.LeaseOptions{Wait: time.Minute})
	never := func(context.Context, *idem.RunTx[T]) (int, error) { l.Error("a duplicate ran"); return 1, nil }
	var wg sync.WaitGroup
	_, err := idem.DoLeased(l.Context(), idem.NewLeased(l.keys, nil), leftKey("leased"), func(context.Context, *idem.RunTx[T]) (int, error) {
		ctx, cancel := context.WithTimeout(l.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := idem.DoLeased(ctx, other, leftKey("leased"), never); !errors.Is(err, context.DeadlineExceeded) {
			l.Errorf("a duplicate that leaves: got %v", err)
		}
		wg.Go(func() {
			if res, err := idem.DoLeased(l.Context(), other, leftKey("leased"), never); err != nil || !res.Replayed {
				l.Errorf("a duplicate that stays: got %+v, %v", res, err)
			}
		})
		return 1, nil
	})
	wg.Wait()
	if err != nil {
		l.Error(err)
	}
}
