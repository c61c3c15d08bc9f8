package pessimistictest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/wire/wiretest"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// trips are warm and cold, in the order of wiretest.Modes: default, exec, cache_describe, describe_exec and simple protocol.
type trips [5][2]int

type rig struct {
	*wiretest.Rig
	db  *tx.DB[pgx.Tx]
	ctx context.Context //nolint:containedctx // it is that of the test
}

var (
	accounts = pessimistic.Table{Name: "account"}
	stocks   = pessimistic.Table{Name: "stock"}
	queue    = pessimistic.Queue{Table: accounts, Limit: 5}
)

func nothing(context.Context, pgx.Tx) error { return nil }

func (r *rig) locks(o pessimistic.Options) *pessimistic.Locks[pgx.Tx] {
	return pessimistic.New(r.db, &o)
}

func (r *rig) want(err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("got %v, want %v", err, want)
	}
}

// foreign calls fn in a transaction that pgx alone begins, which costs two trips.
func (r *rig) foreign(fn func(t pgx.Tx)) {
	r.Helper()
	r.want(pgx.BeginFunc(r.ctx, r.Pool, func(t pgx.Tx) error {
		fn(t)
		return nil
	}), nil)
}

func (r *rig) lock(o pessimistic.Options, want error, rows ...pessimistic.Rows) {
	r.Helper()
	r.foreign(func(t pgx.Tx) { r.want(r.locks(o).Lock(r.ctx, t, rows...), want) })
}

// joined calls fn in a transaction of Do, which costs two trips.
func (r *rig) joined(fn func(ctx context.Context, t pgx.Tx) error) {
	r.Helper()
	r.want(r.db.Do(r.ctx, fn), nil)
}

func (r *rig) transfer() {
	r.Helper()
	var id, balance int64
	balances := map[int64]int64{}
	both := accounts.Rows(int64(2), int64(1)).Read([]string{"id", "balance"}, []any{&id, &balance}, func(int) error {
		balances[id] = balance
		return nil
	})
	r.want(r.locks(pessimistic.Options{}).Do(r.ctx, []pessimistic.Rows{both}, func(ctx context.Context, t pgx.Tx) error {
		const set = "update account set balance = $2 where id = $1"
		return r.db.Defer(ctx, t,
			&tx.Stmt{SQL: set, Args: []any{1, balances[1] - 1}}, &tx.Stmt{SQL: set, Args: []any{2, balances[2] + 1}})
	}), nil)
}

var pins = []struct {
	name string
	want trips
	call func(r *rig)
}{
	{"a transfer is two", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {5, 5}}, func(r *rig) { r.transfer() }},
	{"a lock of k rows is one", trips{{3, 3}, {3, 3}, {3, 3}, {3, 3}, {3, 3}}, func(r *rig) {
		r.joined(func(ctx context.Context, t pgx.Tx) error {
			return r.locks(pessimistic.Options{}).Lock(ctx, t, accounts.Rows(1, 2, 3, 4, 5))
		})
	}},
	{"of two tables too", trips{{3, 3}, {3, 3}, {3, 3}, {3, 3}, {4, 4}}, func(r *rig) {
		r.joined(func(ctx context.Context, t pgx.Tx) error {
			return r.locks(pessimistic.Options{}).Lock(ctx, t, accounts.Rows(1, 2, 3), stocks.Rows(1))
		})
	}},
	{"and with the savepoint of NoWait", trips{{3, 3}, {3, 3}, {3, 3}, {3, 3}, {5, 5}}, func(r *rig) {
		r.joined(func(ctx context.Context, t pgx.Tx) error {
			return r.locks(pessimistic.Options{Wait: pessimistic.NoWait}).Lock(ctx, t, accounts.Rows(1, 2))
		})
	}},
	{"with all settings", trips{{3, 3}, {3, 3}, {3, 3}, {3, 3}, {8, 8}}, func(r *rig) {
		r.joined(func(ctx context.Context, t pgx.Tx) error {
			return r.locks(pessimistic.Options{Wait: pessimistic.For(time.Second), Hold: time.Minute}).Lock(ctx, t, accounts.Rows(1, 2))
		})
	}},
	{"a missing row is one more", trips{{4, 4}, {4, 4}, {4, 4}, {4, 4}, {4, 4}}, func(r *rig) {
		r.joined(func(ctx context.Context, t pgx.Tx) error {
			r.want(r.locks(pessimistic.Options{}).Lock(ctx, t, accounts.Rows(1, 99)), pessimistic.ErrMissing)
			return nil
		})
	}},
	{"a claim rides with BEGIN", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {3, 3}}, func(r *rig) {
		_, err := r.locks(pessimistic.Options{}).Work(r.ctx, queue, nothing)
		r.want(err, nil)
	}},
	{"advisory locks are one", trips{{3, 3}, {3, 3}, {3, 3}, {3, 3}, {3, 3}}, func(r *rig) {
		r.joined(func(ctx context.Context, t pgx.Tx) error {
			return r.locks(pessimistic.Options{}).Advisory(ctx, t, "roundtrips", "a", "b", "c")
		})
	}},
	{"not available", trips{{4, 4}, {4, 4}, {4, 4}, {4, 4}, {6, 6}}, func(r *rig) {
		r.joined(func(ctx context.Context, t pgx.Tx) error {
			r.want(r.locks(pessimistic.Options{Wait: pessimistic.NoWait}).Lock(ctx, t, accounts.Rows(7)), pessimistic.ErrNotAvailable)
			return nil
		})
	}},
	// pgx describes a statement that it does not know, which is one trip more when cold, and in describe_exec always.
	{"in the caller's transaction", trips{{3, 4}, {3, 3}, {3, 4}, {4, 4}, {3, 3}}, func(r *rig) {
		r.lock(pessimistic.Options{}, nil, accounts.Rows(1, 2, 3))
	}},
	// pgx also forgets what it knew of a batch that failed, and tells the server so.
	{"not available there", trips{{8, 9}, {5, 5}, {7, 8}, {8, 8}, {5, 5}}, func(r *rig) {
		r.lock(pessimistic.Options{Wait: pessimistic.NoWait}, pessimistic.ErrNotAvailable, accounts.Rows(7))
	}},
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for i, mode := range wiretest.Modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r := &rig{Rig: wiretest.Open(t, mode), ctx: t.Context()}
			r.db = pgxtx.New(r.Pool)
			for _, table := range []string{"account", "stock"} {
				r.Exec("create table " + table + " (id bigint primary key, balance bigint not null)")
				r.Exec("insert into " + table + " select i, 100 from generate_series(1, 9) i")
			}
			r.Exec("begin; select from account where id = 7 for update") // somebody else
			for _, p := range pins {
				if got := r.WarmAndCold(func() { p.call(r) }); got != p.want[i] {
					t.Errorf("%s: %v trips warm and cold, want %v", p.name, got, p.want[i])
				}
			}
		})
	}
}
