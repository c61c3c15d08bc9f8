package leasetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

// A guardRule is one promise of a guard.
type guardRule[T any] struct {
	name string
	text string
	test func(s *guards[T])
}

// RunGuards checks every promise of [lease.SQL] on a database that open makes for it, in parallel, at each isolation level that
// the database has.
func RunGuards[T any](t *testing.T, open func(t testing.TB) txtest.Backend[T]) {
	for _, r := range []guardRule[T]{
		{"guarded", "the holder's guard passes, in Do, in a nested closure and in a foreign transaction", (*guards[T]).guarded},
		{"fenced", "a holder of the past is refused, and what it wrote is undone", (*guards[T]).fenced},
		{"fenced is told", "the observer is told of a refusal by the guard of Do, with the fence and the attempt", (*guards[T]).fencedIsTold},
		{"exact", "while a guarded transaction is open, nobody takes the lease, also when it has run out", (*guards[T]).exact},
		{"renewal passes", "a guarded transaction does not keep the lease from being renewed or released", (*guards[T]).renewalPasses},
		{"taken in between", "who lost the lease after the snapshot of its transaction does not commit", (*guards[T]).takenInBetween},
		{"older transaction", "a transaction that began before the acquisition is told so, and not that the lease was taken", (*guards[T]).older},
		{"token issued twice", "the nonce tells two holders apart who have one token", (*guards[T]).tokenTwice},
		{"row deleted", "tokens rise also when somebody deletes the row", (*guards[T]).rowDeleted},
		{"high water", "a database without the leases refuses who comes with a token below one that has written", (*guards[T]).highWater},
		{"no guard", "a fence of no database, and the zero value, are refused", (*guards[T]).noGuard},
		{"blocked", "an eviction cuts the holder off at once, waits for what it had begun, and names who is in the way", (*guards[T]).blocked},
		{"tables", "the table has whatever name and schema the caller wants", (*guards[T]).tables},
		{"not migrated", "a missing table is said to be missing, and how to make it", (*guards[T]).notMigrated},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			h := open(t)
			levels := []tx.Isolation{tx.DefaultIsolation}
			if h.DB.Dialect().Capabilities.IsolationLevels {
				levels = []tx.Isolation{tx.ReadCommitted, tx.RepeatableRead, tx.Serializable}
			}
			for _, level := range levels {
				s := &guards[T]{Backend: h, level: level}
				s.DB = h.DB.With(tx.Options{Isolation: level})
				s.suite = &suite{T: t, ctx: ctx, store: lease.NewSQL(s.DB, lease.Names{})}
				if r.name != "not migrated" {
					s.must(lease.Migrate(ctx, s.DB, lease.Names{}))
					s.exec(`create table if not exists done (what text not null)`)
				}
				s.leases = lease.New(s.store, &lease.Options{TTL: long})
				r.test(s)
				if t.Failed() {
					t.Fatalf("at isolation %q; the rule: %s", level, r.text)
				}
			}
		})
	}
}

// guards is what a rule of guards works with.
type guards[T any] struct {
	*suite
	txtest.Backend[T]

	level  tx.Isolation
	leases *lease.Leases[*lease.Held]
}

func (s *guards[T]) exec(query string, args ...any) {
	s.Helper()
	if _, err := s.DB.Conn().Exec(s.ctx, query, args...); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
}

// name is a lease of one rule at one level.
func (s *guards[T]) lease(what string) string { return fmt.Sprintf("%s at %q", what, s.level) }

// write is what guarded work does.
func (s *guards[T]) write(ctx context.Context, t T, what string) error {
	_, err := s.DB.Tx(t).Exec(ctx, "insert into done (what) values ($1)", what)
	return err
}

func (s *guards[T]) wrote(what string, want int) {
	s.Helper()
	var n int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from done where what = $1", what).Scan(&n))
	if n != want {
		s.Fatalf("%q was written %d times, want %d", what, n, want)
	}
}

func (s *guards[T]) hold(what string) *lease.Held {
	s.Helper()
	h, err := s.leases.Acquire(s.ctx, s.lease(what))
	s.must(err)
	return h
}

// steal lets the lease of h run out, and gives it to a contender.
func (s *guards[T]) steal(h *lease.Held) {
	s.Helper()
	s.expire(h)
	s.take(s.claim(h.Name(), long))
}

func (s *guards[T]) expire(h *lease.Held) {
	s.Helper()
	if s.DB.Dialect() == tx.SQLite {
		s.exec("update lease set expires_at = 0 where name = $1", h.Name())
		return
	}
	s.exec("update lease set expires_at = '2000-01-01' where name = $1", h.Name())
}

func (s *guards[T]) guarded() {
	h := s.hold("guarded")
	s.must(lease.Do(s.ctx, s.DB, h, func(ctx context.Context, t T) error {
		return lease.Do(ctx, s.DB, h, func(ctx context.Context, t T) error { return s.write(ctx, t, h.Name()) })
	}))
	f := s.begin()
	s.must(h.Fence().Guard(s.ctx, s.DB.Tx(f.Tx)))
	s.must(s.write(s.ctx, f.Tx, h.Name()))
	s.must(f.Commit(s.ctx))
	s.wrote(h.Name(), 2)
	s.released(h.Advisory, lease.ReleaseDone)
	s.want(lease.Do(s.ctx, s.DB, h, func(context.Context, T) error { return nil }), lease.ErrReleased)
}

func (s *guards[T]) begin() txtest.Foreign[T] {
	s.Helper()
	f, err := s.Begin(s.ctx)
	s.must(err)
	s.Cleanup(func() { _ = f.Rollback(context.Background()) }) // of a rule that is broken
	return f
}

func (s *guards[T]) fenced() {
	h := s.hold("fenced")
	s.steal(h)
	var fenced *lease.FencedError
	err := lease.Do(s.ctx, s.DB, h, func(ctx context.Context, t T) error { return s.write(ctx, t, h.Name()) })
	s.want(err, lease.ErrFenced)
	if !errors.As(err, &fenced) || fenced.Fence.Token != h.Fence().Token {
		s.Fatalf("told %+v", fenced)
	}
	f := s.begin() // the guard comes last
	s.must(s.write(s.ctx, f.Tx, h.Name()))
	s.want(h.Fence().Guard(s.ctx, s.DB.Tx(f.Tx)), lease.ErrFenced)
	s.must(f.Rollback(s.ctx))
	s.wrote(h.Name(), 0)
}

func (s *guards[T]) fencedIsTold() {
	seen := make(events, 100)
	h, err := lease.New(s.store, &lease.Options{TTL: long, Observer: seen}).Acquire(s.ctx, s.lease("told"))
	s.must(err)
	s.must(lease.Do(s.ctx, s.DB, h, func(context.Context, T) error { return nil }))
	if n := seen.count(lease.EventFenced); n != 0 {
		s.Fatalf("told %d refusals of a holder who passed", n)
	}
	s.steal(h)
	s.want(lease.Do(s.ctx, s.DB, h, func(context.Context, T) error { return nil }), lease.ErrFenced)
	told := seen.of(lease.EventFenced)
	if len(told) != 1 {
		s.Fatalf("told %d refusals", len(told))
	}
	for _, e := range told {
		var fenced *lease.FencedError
		if !errors.As(e.Err, &fenced) || fenced.Fence.Token != h.Fence().Token || e.Name != h.Name() || e.Attempt != 1 {
			s.Fatalf("told %+v", e)
		}
	}
}

func (s *guards[T]) exact() {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		return // the guarded transaction is the one writer, and the claim of another waits for its end
	}
	h := s.hold("exact")
	s.must(lease.Do(s.ctx, s.DB, h, func(ctx context.Context, t T) error {
		s.expire(h)
		for range 20 {
			g := s.refused(s.claim(h.Name(), long))
			if g.Remaining > 0 {
				return fmt.Errorf("an expired lease is said to last for %v", g.Remaining)
			}
		}
		byHand := s.DB.Do(s.ctx, func(ctx context.Context, t T) error { // the unique constraint makes the token part of a key
			if _, err := s.DB.Tx(t).Exec(ctx, "set local lock_timeout = '20ms'"); err != nil {
				return err
			}
			_, err := s.DB.Tx(t).Exec(ctx, "update lease set token = token + 1 where name = $1", h.Name())
			return err
		})
		if byHand == nil {
			s.Error("the token was changed by hand while it guards a transaction")
		}
		return s.write(ctx, t, h.Name())
	}))
	s.wrote(h.Name(), 1)
	s.take(s.claim(h.Name(), long))
}

func (s *guards[T]) renewalPasses() {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		return
	}
	h := s.hold("renewal passes")
	term := lease.Term{Name: h.Name(), Token: h.Fence().Token, Nonce: h.Fence().Nonce, TTL: long}
	s.must(lease.Do(s.ctx, s.DB, h, func(ctx context.Context, t T) error {
		s.renewed(true, term)
		if err := s.write(ctx, t, h.Name()); err != nil {
			return err
		}
		s.renewed(true, term)
		return nil
	}))
	s.must(lease.Do(s.ctx, s.DB, h, func(context.Context, T) error {
		s.release(term, true)
		return nil
	}))
	s.wrote(h.Name(), 1)
}

// takenInBetween has the guard come late, in a transaction whose snapshot is older than the take-over.
func (s *guards[T]) takenInBetween() {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		return
	}
	h := s.hold("in between")
	tries := 0
	err := s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		if err := s.write(ctx, t, h.Name()); err != nil {
			return err
		}
		if tries++; tries == 1 {
			s.steal(h)
		}
		return h.Fence().Guard(ctx, s.DB.Tx(t))
	})
	s.want(err, lease.ErrFenced)
	s.wrote(h.Name(), 0)
}

// older acquires the lease when its transaction has a snapshot already: of a lease that is new, and of one that was held before.
func (s *guards[T]) older() {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		return
	}
	sees := s.level == tx.ReadCommitted
	for _, what := range []string{"older", "older", "older and nested"} {
		var h *lease.Held
		err := s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
			if err := s.write(ctx, t, s.lease(what)); err != nil {
				return err
			}
			h = s.hold(what)
			if what == "older" {
				return h.Fence().Guard(ctx, s.DB.Tx(t))
			}
			return lease.Do(ctx, s.DB, h, func(context.Context, T) error { return nil })
		})
		var old *lease.SnapshotError
		switch {
		case sees:
			s.must(err)
		case !errors.As(err, &old) || old.Fence.Token != h.Fence().Token || errors.Is(err, lease.ErrFenced) || !errors.Is(err, lease.ErrSnapshot):
			s.Fatalf("in a transaction that is older than the acquisition the guard returned %v", err)
		}
		s.must(lease.Do(s.ctx, s.DB, h, func(context.Context, T) error { return nil })) // in one that is not
		s.released(h.Advisory, lease.ReleaseDone)
	}
	if !sees {
		s.wrote(s.lease("older"), 0)
	}
	h := s.hold("older")
	s.steal(h)
	s.want(s.DB.Do(s.ctx, func(ctx context.Context, t T) error { return h.Fence().Guard(ctx, s.DB.Tx(t)) }), lease.ErrFenced)
}

func (s *guards[T]) tokenTwice() {
	h := s.hold("twice")
	s.steal(h)
	s.exec("update lease set token = $2 where name = $1", h.Name(), h.Fence().Token) // as a restored snapshot may
	s.want(lease.Do(s.ctx, s.DB, h, func(context.Context, T) error { return nil }), lease.ErrFenced)
}

func (s *guards[T]) rowDeleted() {
	h := s.hold("deleted")
	for range 20 {
		last := h.Fence().Token
		for range 3 {
			s.released(h.Advisory, lease.ReleaseDone)
			h = s.hold("deleted")
			if h.Fence().Token <= last {
				s.Fatalf("token %d came after %d", h.Fence().Token, last)
			}
			last = h.Fence().Token
		}
		s.exec("delete from lease where name = $1", h.Name())
		next := s.take(s.claim(h.Name(), long))
		if next.Token <= last {
			s.Fatalf("token %d came after %d", next.Token, last)
		}
		s.release(next, true)
		h = s.hold("deleted")
	}
	s.exec("delete from lease where name = $1", h.Name())
	s.take(s.claim(h.Name(), long))
	s.want(lease.Do(s.ctx, s.DB, h, func(context.Context, T) error { return nil }), lease.ErrFenced)
}

func (s *guards[T]) highWater() {
	water := lease.NewHighWater(s.DB, lease.Names{})
	s.must(water.Check(s.ctx))
	pass := func(f lease.Fence, what string) error {
		return s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
			if err := s.write(ctx, t, what); err != nil {
				return err
			}
			return water.Guard(ctx, t, f)
		})
	}
	name := s.lease("high water")
	old, late := lease.Fence{Name: name, Token: 7, Nonce: "old"}, lease.Fence{Name: name, Token: 8, Nonce: "late"}
	twin := lease.Fence{Name: name, Token: 8, Nonce: "twin"}
	s.must(pass(old, name))
	s.must(pass(old, name))
	s.must(pass(late, name))
	for _, f := range []lease.Fence{old, twin} {
		err := pass(f, name)
		s.want(err, lease.ErrFenced)
		var fenced *lease.FencedError
		if !errors.As(err, &fenced) || fenced.Token != 8 {
			s.Fatalf("told %+v", fenced)
		}
	}
	s.must(pass(late, name))
	s.wrote(name, 4)
	s.want(pass(lease.Fence{}, name), lease.ErrInvalid)
}

func (s *guards[T]) noGuard() {
	s.want(s.DB.Do(s.ctx, func(ctx context.Context, t T) error { return lease.Fence{}.Guard(ctx, s.DB.Tx(t)) }), lease.ErrNoGuard)
	h := s.hold("no guard")
	f := lease.Fence{Name: h.Name(), Token: h.Fence().Token, Nonce: h.Fence().Nonce}
	s.want(s.DB.Do(s.ctx, func(ctx context.Context, t T) error { return f.Guard(ctx, s.DB.Tx(t)) }), lease.ErrNoGuard)
	s.want(lease.Do(s.ctx, s.DB, nil, func(context.Context, T) error { return nil }), lease.ErrInvalid)
	s.want(lease.Do[T](s.ctx, s.DB, h, nil), tx.ErrNilFunc)
}

// blocked evicts a holder in the middle of a guarded transaction.
func (s *guards[T]) blocked() {
	h := s.hold("blocked")
	f := s.begin()
	s.must(s.write(s.ctx, f.Tx, h.Name()))
	s.must(h.Fence().Guard(s.ctx, s.DB.Tx(f.Tx)))
	pid := 0
	several := s.DB.Dialect().Capabilities.ConcurrentWriters
	if several {
		row := s.DB.Tx(f.Tx).QueryRow(s.ctx, "select pg_backend_pid() from set_config('application_name', 'the holder', false)")
		s.must(row.Scan(&pid))
	}
	for range 2 { // the second time there is nobody left to cut off
		ctx, cancel := context.WithTimeout(s.ctx, 800*time.Millisecond)
		_, err := s.leases.Evict(ctx, h.Name())
		cancel()
		var blocked *lease.BlockedError
		if !errors.As(err, &blocked) || blocked.Cut != several || !errors.Is(err, context.DeadlineExceeded) {
			s.Fatalf("evicted with %v", err)
		}
		if several {
			if len(blocked.Blockers) != 1 || blocked.Blockers[0].PID != pid || blocked.Blockers[0].Application != "the holder" ||
				blocked.Blockers[0].State != "idle in transaction" || blocked.Blockers[0].TransactionAge < blocked.Blockers[0].QueryAge {
				s.Fatalf("in the way of an eviction are %+v, and not pid %d: %v", blocked.Blockers, pid, err)
			}
			s.want(s.DB.Do(s.ctx, func(ctx context.Context, t T) error { return h.Fence().Guard(ctx, s.DB.Tx(t)) }), lease.ErrFenced)
			s.refused(s.claim(h.Name(), long))
		}
	}
	evicted := make(chan error)
	go func() {
		_, err := s.leases.Evict(s.ctx, h.Name())
		evicted <- err
	}()
	if several {
		waits := false
		for !waits {
			s.must(s.DB.Conn().QueryRow(s.ctx, "select exists (select from pg_stat_activity where $1::int = any(pg_blocking_pids(pid)))", pid).
				Scan(&waits))
		}
	}
	s.must(f.Commit(s.ctx)) // it had passed the guard
	if err := <-evicted; err != nil && !errors.Is(err, lease.ErrFree) {
		s.Fatal(err)
	}
	s.wrote(h.Name(), 1)
	if next := s.take(s.claim(h.Name(), long)); next.Token <= h.Fence().Token+1 {
		s.Fatalf("token %d came after an eviction of %d", next.Token, h.Fence().Token)
	}
}

func (s *guards[T]) tables() {
	names := lease.Names{Table: `le'a"se`}
	if s.DB.Dialect().Capabilities.Schemas {
		names.Schema = `sch'e"ma ` + s.lease(s.T.Name())[:10]
	}
	s.must(lease.Migrate(s.ctx, s.DB, names))
	store := lease.NewSQL(s.DB, names)
	s.must(store.Check(s.ctx))
	h, err := lease.New(store, nil).Acquire(s.ctx, "a")
	s.must(err)
	s.must(lease.Do(s.ctx, s.DB, h, func(context.Context, T) error { return nil }))
	s.released(h.Advisory, lease.ReleaseDone)
}

func (s *guards[T]) notMigrated() {
	_, err := s.leases.TryAcquire(s.ctx, "a")
	s.want(err, tx.ErrNotMigrated)
	s.want(lease.NewSQL(s.DB, lease.Names{}).Check(s.ctx), tx.ErrNotMigrated)
}
