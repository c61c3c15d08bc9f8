package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// insertEffect is what guarded work does here.
func insertEffect(db *tx.DB[pgx.Tx], name string) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, t pgx.Tx) error {
		_, err := db.Tx(t).Exec(ctx, "insert into effect values ($1)", name)
		return err
	}
}

// The server crashes and comes back, again and again, while contenders work. Each commit is what it was said to be, they are in
// the order of their tokens, and a lease that outlives the outage is still held.
func TestServerCrashes(t *testing.T) {
	t.Parallel()
	server := testdb.PostgresServer(t)
	db := pgxtx.New(openPool(t, server.URL()))
	migrateEffects(t, db)
	if _, err := db.Conn().Exec(t.Context(), "create table done (id bigserial primary key, token bigint not null, name text not null unique)"); err != nil {
		t.Fatal(err)
	}
	long, err := lease.New(lease.NewSQL(db, lease.Names{}), &lease.Options{TTL: 30 * time.Second, RenewEvery: 200 * time.Millisecond}).TryAcquire(t.Context(), "long")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	said := map[string]holdfast.Outcome{}
	var wg sync.WaitGroup
	for who := range 4 {
		leases := lease.New(lease.NewSQL(db, lease.Names{}), &lease.Options{TTL: 300 * time.Millisecond, PollEvery: 20 * time.Millisecond})
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprint(who, ".", i)
				_ = leases.Run(ctx, "a", func(_ context.Context, h *lease.Held) error {
					err := lease.Do(t.Context(), db, h, func(ctx context.Context, t pgx.Tx) error {
						_, err := db.Tx(t).Exec(ctx, "insert into done (token, name) values ($1, $2)", h.Fence().Token, name)
						return err
					})
					mu.Lock()
					defer mu.Unlock()
					said[name] = holdfast.OutcomeOf(err)
					return err
				})
			}
		})
	}
	applied := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, outcome := range said {
			if outcome == holdfast.Applied {
				n++
			}
		}
		return n
	}
	for range 3 {
		for more := applied() + 20; applied() < more; {
			time.Sleep(time.Millisecond)
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for more := applied() + 20; applied() < more; {
		time.Sleep(time.Millisecond)
	}
	stop()
	wg.Wait()
	counts := map[holdfast.Outcome]int{}
	for name, outcome := range said {
		var n int
		if err := db.Conn().QueryRow(t.Context(), "select count(*) from done where name = $1", name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if counts[outcome]++; outcome == holdfast.Applied && n != 1 || outcome == holdfast.NotApplied && n != 0 {
			t.Errorf("%s was said to be %v, and is there %d times", name, outcome, n)
		}
	}
	var inverted int
	if err := db.Conn().QueryRow(t.Context(), "select count(*) from done a join done b on a.id < b.id and a.token > b.token").Scan(&inverted); err != nil {
		t.Fatal(err)
	}
	if inverted != 0 {
		t.Errorf("%d pairs of commits are not in the order of their tokens", inverted)
	}
	t.Logf("%d applied, %d not applied, %d unknown", counts[holdfast.Applied], counts[holdfast.NotApplied], counts[holdfast.Unknown])
	if err := long.Check(); err != nil {
		t.Errorf("the lease that outlives the outages: %v", err)
	}
	if err := lease.Do(t.Context(), db, long, insertEffect(db, "long")); err != nil {
		t.Errorf("its guard: %v", err)
	}
	if got, err := long.Release(t.Context()); got != lease.ReleaseDone {
		t.Errorf("its release came to %d, %v", got, err)
	}
}

// B32: a standby is promoted that knows nothing of the last acquisitions, and gives out a token for the second time. The holder
// that the old primary had is refused in the new one, and elsewhere as soon as a later token has been there.
func TestPromotedStandby(t *testing.T) {
	t.Parallel()
	primary := testdb.PostgresServer(t)
	before := pgxtx.New(openPool(t, primary.URL()))
	migrateEffects(t, before)
	standby := testdb.PostgresStandby(t, primary)
	if err := standby.Stop(t.Context()); err != nil { // what comes now does not reach it
		t.Fatal(err)
	}
	o := &lease.Options{TTL: time.Hour}
	take := func(db *tx.DB[pgx.Tx]) *lease.Held {
		h, err := lease.New(lease.NewSQL(db, lease.Names{}), o).TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	old := take(before)
	for range 50 { // further than the numbers that a sequence logs in advance
		if _, err := old.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		old = take(before)
	}
	elsewhere := pgxtx.New(openPool(t, testdb.Postgres(t)))
	migrateEffects(t, elsewhere)
	water := lease.NewHighWater(elsewhere, lease.Names{})
	writeElsewhere := func(h *lease.Held) error {
		return elsewhere.Do(t.Context(), func(ctx context.Context, nt pgx.Tx) error {
			if err := water.Guard(ctx, nt, h.Fence()); err != nil {
				return err
			}
			return insertEffect(elsewhere, h.Fence().Nonce)(ctx, nt)
		})
	}
	if err := writeElsewhere(old); err != nil {
		t.Fatal(err)
	}
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := pgxtx.New(openPool(t, standby.URL()))
	if _, err := after.Conn().Exec(t.Context(), "select pg_promote()"); err != nil {
		t.Fatal(err)
	}
	next, behind := take(after), 0
	for next.Fence().Token < old.Fence().Token {
		if err := writeElsewhere(next); !errors.Is(err, lease.ErrFenced) {
			t.Fatalf("token %d wrote elsewhere after %d: %v", next.Fence().Token, old.Fence().Token, err)
		}
		if _, err := next.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		next = take(after)
		behind++
	}
	if next.Fence().Token != old.Fence().Token || behind == 0 {
		t.Fatalf("no token was given twice: %v, then %v", old.Fence(), next.Fence())
	}
	t.Logf("the new primary was %d tokens behind", behind)
	if err := old.Check(); err != nil {
		t.Fatalf("the old holder knows already: %v", err)
	}
	if err := lease.Do(t.Context(), after, old, insertEffect(after, "old")); !errors.Is(err, lease.ErrFenced) {
		t.Errorf("the old holder with the token of the new one: %v", err)
	}
	term := lease.Term{Name: "a", Token: old.Fence().Token, Nonce: old.Fence().Nonce, TTL: time.Hour}
	if renewals, err := lease.NewSQL(after, lease.Names{}).Renew(t.Context(), []lease.Term{term}); err != nil || renewals[0].Held {
		t.Errorf("its renewal: %+v, %v", renewals, err)
	}
	if err := lease.Do(t.Context(), after, next, insertEffect(after, "next")); err != nil {
		t.Errorf("the new holder: %v", err)
	}
	if err := writeElsewhere(next); !errors.Is(err, lease.ErrFenced) { // the twin of one who has written
		t.Errorf("the twin wrote elsewhere: %v", err)
	}
	if _, err := next.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	next = take(after)
	if err := writeElsewhere(next); err != nil {
		t.Errorf("the next holder, elsewhere: %v", err)
	}
	if err := writeElsewhere(old); !errors.Is(err, lease.ErrFenced) {
		t.Errorf("the old holder, elsewhere: %v", err)
	}
}
