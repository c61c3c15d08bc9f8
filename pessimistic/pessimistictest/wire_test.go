package pessimistictest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// The connection breaks before or after what locks, and before or after the commit. What is reported as applied is there
// once, what is reported as not applied is not, and nobody is left with the locks.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	address := testdb.Postgres(t)
	direct := pgxdb.Pool(t, address, 12)
	if _, err := direct.Exec(t.Context(), "create table account (id bigint primary key, balance bigint not null); create table job (id bigint primary key)"); err != nil {
		t.Fatal(err)
	}
	proxy, err := wire.Start(address, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	pool := pgxdb.Pool(t, proxy.URL(), 12)
	db := pgxtx.New(pool)
	locks, jobs := pessimistic.New(db, nil), pessimistic.Queue{Table: pessimistic.Table{Name: "job"}}
	spend := func(ctx context.Context, t pgx.Tx) error {
		_, err := t.Exec(ctx, "update account set balance = balance - 1; delete from job")
		return err
	}
	both := func(ctx context.Context, t pgx.Tx) error {
		if err := locks.Lock(ctx, t, accounts.Rows(int64(1))); err != nil {
			return err
		}
		if _, err := locks.Claim(ctx, t, jobs); err != nil {
			return err
		}
		if err := locks.Advisory(ctx, t, "cuts", "a"); err != nil {
			return err
		}
		return spend(ctx, t)
	}
	const lockRows, claimJobs, advisory, commit = `select "account"."id"`, `select 1 from "job"`, `select pg_advisory_xact_lock`, `commit`
	for name, c := range map[string]struct {
		at   []string
		call func(ctx context.Context) error
	}{
		"Do": {[]string{lockRows, commit}, func(ctx context.Context) error {
			return locks.Do(ctx, []pessimistic.Rows{accounts.Rows(int64(1))}, spend)
		}},
		"Work": {[]string{claimJobs, commit}, func(ctx context.Context) error {
			_, err := locks.Work(ctx, jobs, spend)
			return err
		}},
		"a closure": {[]string{lockRows, claimJobs, advisory, commit}, func(ctx context.Context) error { return db.Do(ctx, both) }},
		"the callers": {[]string{lockRows, claimJobs, advisory}, func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, pool, func(t pgx.Tx) error { return both(ctx, t) })
		}},
	} {
		for _, at := range c.at {
			for cut, hook := range map[string]func(wire.Match) *wire.Hook{"reply": proxy.CutReplyTo, "request": proxy.CutBefore} {
				where := name + ", " + cut + " of " + at
				if _, err := direct.Exec(t.Context(), "delete from account; delete from job; insert into account values (1, 100); insert into job values (1)"); err != nil {
					t.Fatal(err)
				}
				armed := hook(wire.Runs(at))
				err := c.call(t.Context())
				if armed.Disarm(); armed.Hits() != 1 {
					t.Fatalf("%s: %d cuts, %v", where, armed.Hits(), err)
				}
				var balance, jobs int
				// It waits for the server process that was cut off, if that one still has the row.
				if err := direct.QueryRow(t.Context(), "select balance, (select count(*) from job) from account where id = 1 for update").Scan(&balance, &jobs); err != nil {
					t.Fatal(err)
				}
				outcome := holdfast.OutcomeOf(err)
				switch applied := balance == 99 && jobs == 0; {
				case !applied && (balance != 100 || jobs != 1), outcome == holdfast.Applied && !applied, outcome == holdfast.NotApplied && applied:
					t.Errorf("%s: got %v, which is %v, with balance %d and %d jobs", where, err, outcome, balance, jobs)
				case at != commit && name != "the callers" && outcome == holdfast.Unknown, at == commit && cut == "reply" && !applied:
					t.Errorf("%s: got %v, which is %v; applied: %v", where, err, outcome, applied)
				}
				again(t, locks, where)
			}
		}
	}
}

// again takes all the locks, without waiting for more than a server process needs to notice that its client is gone.
func again(t *testing.T, locks *pessimistic.Locks[pgx.Tx], where string) {
	t.Helper()
	soon := locks.With(pessimistic.Options{Wait: pessimistic.For(20 * time.Second)})
	if err := soon.Do(t.Context(), []pessimistic.Rows{accounts.Rows(int64(1))}, func(ctx context.Context, tx pgx.Tx) error {
		return soon.Advisory(ctx, tx, "cuts", "a")
	}); err != nil {
		t.Errorf("%s: a lock was left: %v", where, err)
	}
}
