package countertest_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// attempt calls all verbs, alone and many at once, and wants nothing counted.
func attempt(ctx context.Context, t *testing.T, db *tx.DB[pgx.Tx], target error) {
	t.Helper()
	c := counter.New(db, nil)
	errs := map[string]error{}
	_, errs["Add"] = c.Add(ctx, "k", 1)
	_, errs["Add once"] = c.Add(ctx, "k", 1, counter.Once("op"))
	_, errs["Take"] = c.Take(ctx, "k", 1)
	errs["AddMany"] = c.AddMany(ctx, []counter.Change{{Key: "a", N: 1}, {Key: "b", N: 1}})
	errs["Resize"] = c.Resize(ctx, "k", 2)
	var mu sync.Mutex // guards errs
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			var options []counter.Option
			if i%2 == 0 {
				options = append(options, counter.Once("op"))
			}
			if _, err := c.Add(ctx, "k", 1, options...); !errors.Is(err, target) {
				mu.Lock()
				defer mu.Unlock()
				errs["a batch"] = err
			}
		})
	}
	all.Wait()
	for verb, err := range errs {
		if !errors.Is(err, target) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("%s: got %v, which is %v", verb, err, holdfast.OutcomeOf(err))
		}
	}
}

func TestStoreIsDown(t *testing.T) {
	t.Parallel()
	server := testdb.PostgresServer(t)
	pool := pgxdb.Pool(t, server.URL(), 8)
	db := pgxtx.New(pool)
	if err := counter.Migrate(t.Context(), db, counter.Names{}); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	pool.Reset() // a statement that was sent on a connection which died would be unknown, rightly
	attempt(t.Context(), t, db, tx.ErrNotSent)
	c := counter.New(db, nil)
	_, err := c.Get(t.Context(), "k")
	_, swept := c.Sweep(t.Context())
	for _, err := range []error{err, swept, c.Check(t.Context())} {
		if !errors.Is(err, tx.ErrNotSent) {
			t.Errorf("got %v", err)
		}
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res, err := c.Add(t.Context(), "k", 1); err != nil || res.Value != 1 {
		t.Errorf("after the restart: got %+v, %v", res, err)
	}
}

func TestStoreIsReadOnly(t *testing.T) {
	t.Parallel()
	address := testdb.Postgres(t)
	writable := pgxtx.New(pgxdb.Pool(t, address, 8))
	if err := counter.Migrate(t.Context(), writable, counter.Names{}); err != nil {
		t.Fatal(err)
	}
	if _, err := counter.New(writable, nil).Add(t.Context(), "k", 5); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_transaction_read_only", "on")
	u.RawQuery = q.Encode()
	db := pgxtx.New(pgxdb.Pool(t, u.String(), 8))
	attempt(t.Context(), t, db, tx.ErrReadOnly)
	c := counter.New(db, nil)
	if err := c.Check(t.Context()); !errors.Is(err, tx.ErrReadOnly) {
		t.Errorf("Check: got %v", err)
	}
	if n, err := c.Get(t.Context(), "k"); err != nil || n != 5 {
		t.Errorf("Get: got %d, %v", n, err)
	}
}

func TestStoreIsNotMigrated(t *testing.T) {
	t.Parallel()
	db := pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8))
	attempt(t.Context(), t, db, tx.ErrNotMigrated)
	c := counter.New(db, nil)
	if err := c.Check(t.Context()); !errors.Is(err, tx.ErrNotMigrated) {
		t.Errorf("Check: got %v", err)
	}
	if _, err := c.Get(t.Context(), "k"); !errors.Is(err, tx.ErrNotMigrated) {
		t.Errorf("Get: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	attempt(ctx, t, db, context.Canceled)
}

func TestProcessesThatMigrateTogether(t *testing.T) {
	t.Parallel()
	db := pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8))
	o := &counter.Options{Table: `t"a`, Ops: `o"ps`}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 2 {
				if err := counter.Migrate(t.Context(), db, []counter.Names{{}, {Table: o.Table, Ops: o.Ops}}[i%2]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, o := range []*counter.Options{nil, o} {
		c := counter.New(db, o)
		if err := c.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if res, err := c.Add(t.Context(), "k", 1, counter.Once("op")); err != nil || res.Value != 1 {
			t.Errorf("got %+v, %v", res, err)
		}
	}
}

// The schema that the migrations make is the one that the code expects: every column, and none besides.
func TestSchemaDoesNotDrift(t *testing.T) {
	t.Parallel()
	pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
	if err := counter.Migrate(t.Context(), pgxtx.New(pool), counter.Names{}); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(t.Context(), `select table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable
		from information_schema.columns where table_schema = current_schema() and table_name like 'counter%'
		order by table_name, ordinal_position`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := `counter.name text NO
counter.slot integer NO
counter.slots integer NO
counter.n bigint NO
counter_op.scope text NO
counter_op.name text NO
counter_op.op text NO
counter_op.delta bigint NO
counter_op.expires_at timestamp with time zone NO`
	if strings.Join(got, "\n") != want {
		t.Errorf("the schema has drifted:\n%s", strings.Join(got, "\n"))
	}
	if _, err := pool.Exec(t.Context(), "alter table counter alter n type integer"); err != nil {
		t.Fatal(err)
	}
	if err := counter.New(pgxtx.New(pool), nil).Check(t.Context()); !errors.Is(err, tx.ErrColumn) {
		t.Errorf("a column that was made smaller: got %v", err)
	}
}
