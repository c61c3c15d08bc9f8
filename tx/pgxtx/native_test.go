package pgxtx_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// inEachMode runs fn as a parallel subtest with each of pgx's ways to run a statement, on a pool of one connection.
func inEachMode(t *testing.T, fn func(t *testing.T, pool *pgxpool.Pool, db *tx.DB[pgx.Tx])) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			pool := open(t, testdb.Postgres(t), func(c *pgxpool.Config) {
				c.MaxConns = 1
				c.ConnConfig.DefaultQueryExecMode = mode
			})
			exec(t, pool, "create table entry (n bigint primary key, note text)")
			fn(t, pool, pgxtx.New(pool))
		})
	}
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func count(t testing.TB, pool *pgxpool.Pool, want int) {
	t.Helper()
	var got int
	if err := pool.QueryRow(context.Background(), "select count(*) from entry").Scan(&got); err != nil || got != want {
		t.Errorf("%d entries, %v, want %d", got, err, want)
	}
}

const insertEntry = "insert into entry (n) values ($1)"

// Everything that a pgx.Tx can do works in the transaction that Do hands out.
func TestNativeTransaction(t *testing.T) {
	inEachMode(t, func(t *testing.T, pool *pgxpool.Pool, db *tx.DB[pgx.Tx]) {
		err := db.Do(t.Context(), func(ctx context.Context, nt pgx.Tx) error {
			if _, err := nt.Exec(ctx, insertEntry, 1); err != nil {
				return err
			}
			batch := &pgx.Batch{}
			batch.Queue(insertEntry, 2)
			batch.Queue("select count(*) from entry").QueryRow(func(row pgx.Row) error {
				var n int
				if err := row.Scan(&n); err != nil || n != 2 {
					t.Errorf("the batch counts %d, %v, want 2", n, err)
				}
				return nil
			})
			if err := nt.SendBatch(ctx, batch).Close(); err != nil {
				return err
			}
			copied, err := nt.CopyFrom(ctx, pgx.Identifier{"entry"}, []string{"n", "note"}, pgx.CopyFromRows([][]any{{3, "a"}, {4, "b"}}))
			if err != nil || copied != 2 {
				t.Errorf("copied %d rows, %v, want 2", copied, err)
			}
			prepared, err := nt.Prepare(ctx, "by_number", "select note from entry where n = $1")
			if err != nil {
				return err
			}
			var note string
			if err := nt.QueryRow(ctx, prepared.Name, 3).Scan(&note); err != nil || note != "a" {
				t.Errorf("the prepared statement reads %q, %v, want a", note, err)
			}
			rows, err := nt.Query(ctx, "select n from entry order by n")
			if err != nil {
				return err
			}
			numbers, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if err != nil || len(numbers) != 4 {
				t.Errorf("read %v, %v, want 4 numbers", numbers, err)
			}
			if nt.Conn() == nil {
				t.Error("the transaction has no connection")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		count(t, pool, 4)
	})
}

func TestLargeObjects(t *testing.T) {
	inEachMode(t, func(t *testing.T, _ *pgxpool.Pool, db *tx.DB[pgx.Tx]) {
		err := db.Do(t.Context(), func(ctx context.Context, nt pgx.Tx) error {
			large := nt.LargeObjects()
			oid, err := large.Create(ctx, 0)
			if err != nil {
				return err
			}
			object, err := large.Open(ctx, oid, pgx.LargeObjectModeRead|pgx.LargeObjectModeWrite)
			if err != nil {
				return err
			}
			if _, err := object.Write([]byte("large")); err != nil {
				return err
			}
			if _, err := object.Seek(0, io.SeekStart); err != nil {
				return err
			}
			content, err := io.ReadAll(object)
			if err != nil || string(content) != "large" {
				t.Errorf("read %q, %v", content, err)
			}
			return large.Unlink(ctx, oid)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// pgx's own savepoints: Begin, BeginFunc, and both ends.
func TestNativeSavepoints(t *testing.T) {
	failure := errors.New("refused")
	inEachMode(t, func(t *testing.T, pool *pgxpool.Pool, db *tx.DB[pgx.Tx]) {
		insert := func(ctx context.Context, n int) func(pgx.Tx) error {
			return func(nt pgx.Tx) error {
				_, err := nt.Exec(ctx, insertEntry, n)
				return err
			}
		}
		err := db.Do(t.Context(), func(ctx context.Context, nt pgx.Tx) error {
			if err := pgx.BeginFunc(ctx, nt, insert(ctx, 1)); err != nil {
				return err
			}
			if err := pgx.BeginFunc(ctx, nt, func(inner pgx.Tx) error {
				if err := insert(ctx, 2)(inner); err != nil {
					return err
				}
				// Depth two is kept with its parent alone.
				if err := pgx.BeginFunc(ctx, inner, insert(ctx, 3)); err != nil {
					return err
				}
				return failure
			}); !errors.Is(err, failure) {
				t.Errorf("BeginFunc gives %v, want %v", err, failure)
			}
			sp, err := nt.Begin(ctx)
			if err != nil {
				return err
			}
			// Patterns join a savepoint of pgx as they join a transaction, and an error in it stays in it.
			if err := db.Nested(ctx, sp, func(ctx context.Context, inner pgx.Tx) error { return insert(ctx, 1)(inner) }); db.Classify(err) != tx.Unique {
				t.Errorf("Nested in a savepoint of pgx gives %v, want a unique violation", err)
			}
			if err := db.Tx(sp).Batch(ctx, &tx.Stmt{SQL: insertEntry, Args: []any{4}}); err != nil {
				return err
			}
			if err := sp.Commit(ctx); err != nil {
				return err
			}
			for name, use := range uses(ctx, sp) {
				if err := use(); !errors.Is(err, pgx.ErrTxClosed) {
					t.Errorf("%s on a savepoint that has ended gives %v, want %v", name, err, pgx.ErrTxClosed)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		count(t, pool, 2)
	})
}

// uses are all the ways to use a transaction.
func uses(ctx context.Context, nt pgx.Tx) map[string]func() error {
	var n int
	return map[string]func() error{
		"Begin":    func() error { _, err := nt.Begin(ctx); return err },
		"Exec":     func() error { _, err := nt.Exec(ctx, insertEntry, 99); return err },
		"QueryRow": func() error { return nt.QueryRow(ctx, "select 1").Scan(&n) },
		"Query": func() error {
			rows, err := nt.Query(ctx, "select 1")
			if rows.Err() == nil || rows.Next() {
				return errors.New("the rows know no error")
			}
			return err
		},
		"SendBatch": func() error {
			b := &pgx.Batch{}
			b.Queue(insertEntry, 99)
			return nt.SendBatch(ctx, b).Close()
		},
		"CopyFrom": func() error {
			_, err := nt.CopyFrom(ctx, pgx.Identifier{"entry"}, []string{"n"}, pgx.CopyFromRows([][]any{{99}}))
			return err
		},
		"Prepare": func() error { _, err := nt.Prepare(ctx, "late", "select 1"); return err },
	}
}

func TestUseAfterEnd(t *testing.T) {
	inEachMode(t, func(t *testing.T, pool *pgxpool.Pool, db *tx.DB[pgx.Tx]) {
		for _, end := range []error{nil, errors.New("refused")} {
			var kept pgx.Tx
			_ = db.Do(t.Context(), func(_ context.Context, nt pgx.Tx) error {
				kept = nt
				return end
			})
			for name, use := range uses(t.Context(), kept) {
				if err := use(); !errors.Is(err, pgx.ErrTxClosed) {
					t.Errorf("%s gives %v, want %v", name, err, pgx.ErrTxClosed)
				}
			}
			if kept.Conn() != nil {
				t.Error("a transaction that has ended still hands out its connection")
			}
			if err := db.Tx(kept).Batch(t.Context(), &tx.Stmt{SQL: insertEntry, Args: []any{99}}); !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("Batch gives %v, want %v", err, pgx.ErrTxClosed)
			}
		}
		count(t, pool, 0)
	})
}

func TestCommitAndRollbackAreOwned(t *testing.T) {
	inEachMode(t, func(t *testing.T, pool *pgxpool.Pool, db *tx.DB[pgx.Tx]) {
		err := db.Do(t.Context(), func(ctx context.Context, nt pgx.Tx) error {
			if _, err := nt.Exec(ctx, insertEntry, 1); err != nil {
				return err
			}
			for _, err := range []error{nt.Commit(ctx), nt.Rollback(ctx)} {
				if !errors.Is(err, tx.ErrOwned) {
					t.Errorf("got %v, want %v", err, tx.ErrOwned)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		count(t, pool, 1)
	})
}

// A batch that begins a transaction of its own would end ours.
func TestBatchCannotBegin(t *testing.T) {
	inEachMode(t, func(t *testing.T, pool *pgxpool.Pool, db *tx.DB[pgx.Tx]) {
		err := db.Do(t.Context(), func(ctx context.Context, nt pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue("begin")
			b.Queue("commit")
			if err := nt.SendBatch(ctx, b).Close(); err == nil {
				t.Error("the batch was sent")
			}
			_, err := nt.Exec(ctx, insertEntry, 1)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		count(t, pool, 1)
	})
}

// A tracer sees the statements that travel together, with the error at its place.
func TestTracer(t *testing.T) {
	t.Parallel()
	tracer := &batchTracer{}
	pool := open(t, testdb.Postgres(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
	db := pgxtx.New(pool)
	failure := errors.New("nothing matched")
	err := db.Do(t.Context(), func(ctx context.Context, nt pgx.Tx) error {
		return db.Defer(ctx, nt, &tx.Stmt{SQL: "select 1"}, &tx.Stmt{SQL: "select 1 where false", MustAffect: failure})
	})
	if !errors.Is(err, failure) {
		t.Errorf("got %v, want %v", err, failure)
	}
	var pgErr *pgconn.PgError
	if len(tracer.seen) != 3 || tracer.seen[0].SQL != "begin" || tracer.seen[1].Err != nil || tracer.seen[2].Err == nil || errors.As(tracer.seen[2].Err, &pgErr) {
		t.Errorf("traced %+v", tracer.seen)
	}
}

type batchTracer struct{ seen []pgx.TraceBatchQueryData }

func (b *batchTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (b *batchTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (b *batchTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (b *batchTracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	b.seen = append(b.seen, data)
}
func (b *batchTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
