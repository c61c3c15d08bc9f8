package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jmoiron/sqlx"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// T14: users of an ORM cannot join, since the API wants a transaction of another library. An ORM's transaction holds a
// *sql.Tx: *sqlx.Tx and bun.Tx embed it.
func TestT14_TransactionOfAnotherLibrary(t *testing.T) {
	each(t, nil, func(t *testing.T, e engine) {
		pool, db := e.open(t, 2, 0)
		if _, err := pool.ExecContext(t.Context(), "create table entry (n integer)"); err != nil {
			t.Fatal(err)
		}
		theirs, err := sqlx.NewDb(pool, e.name).BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := theirs.ExecContext(t.Context(), "insert into entry values (1)"); err != nil {
			t.Fatal(err)
		}
		if err := db.Nested(t.Context(), theirs.Tx, func(ctx context.Context, nt *sql.Tx) error {
			_, err := db.Tx(nt).Exec(ctx, insertEntry, 2)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := theirs.Commit(); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := pool.QueryRowContext(t.Context(), "select count(*) from entry").Scan(&n); err != nil || n != 2 {
			t.Errorf("%d entries, %v, want 2", n, err)
		}
	})
}

// T15: a repository loses the context that carries the transaction, falls back to the pool, and its write survives the
// rollback. Here the transaction is a parameter, and what does look into the context fails without it.
func TestT15_LostContextDoesNotEscape(t *testing.T) {
	onPostgres(t, lostContext[pgx.Tx], lostContext[*sql.Tx])
}

func lostContext[T any](t *testing.T, open opener[T]) {
	s := open(t, postgres(t), 1)
	table(t, s)
	failure := errors.New("a later step fails")
	err := s.Do(t.Context(), func(_ context.Context, nt T) error {
		lost := context.Background()
		if _, err := s.Tx(nt).Exec(lost, insertEntry, 1); err != nil {
			return err
		}
		if err := s.Nested(lost, nt, func(ctx context.Context, nt T) error {
			_, err := s.Tx(nt).Exec(ctx, insertEntry, 1)
			return err
		}); err != nil {
			return err
		}
		// Without its scope a deferred statement is not forgotten: it runs at once.
		if err := s.Defer(lost, nt, &tx.Stmt{SQL: insertEntry, Args: []any{1}}); err != nil {
			return err
		}
		if err := tx.AfterCommit(lost, func(context.Context) { t.Error("the hook ran") }); !errors.Is(err, tx.ErrNoTransaction) {
			t.Errorf("AfterCommit gives %v, want %v", err, tx.ErrNoTransaction)
		}
		var n int
		if err := s.Tx(nt).QueryRow(lost, "select count(*) from entry").Scan(&n); err != nil || n != 3 {
			t.Errorf("the transaction sees %d entries, %v, want 3", n, err)
		}
		return failure
	})
	if !errors.Is(err, failure) || entries(t, s, 1) != 0 {
		t.Errorf("got %v and %d entries, want the failure and none", err, entries(t, s, 1))
	}
}

// sqlc writes code like this: an interface of its own, and a WithTx that takes the library's own transaction type.
type (
	pgxDBTX interface {
		Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
		Query(context.Context, string, ...any) (pgx.Rows, error)
		QueryRow(context.Context, string, ...any) pgx.Row
		SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
		CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
	}
	pgxQueries struct{ db pgxDBTX }
	sqlDBTX    interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
		PrepareContext(context.Context, string) (*sql.Stmt, error)
		QueryContext(context.Context, string, ...any) (*sql.Rows, error)
		QueryRowContext(context.Context, string, ...any) *sql.Row
	}
	sqlQueries struct{ db sqlDBTX }
)

func (q *pgxQueries) WithTx(nt pgx.Tx) *pgxQueries  { return &pgxQueries{nt} }
func (q *sqlQueries) WithTx(nt *sql.Tx) *sqlQueries { return &sqlQueries{nt} }

// T23: generated code takes the concrete transaction of its library, which a wrapper type is not.
func TestT23_GeneratedCodeTakesTheNativeTransaction(t *testing.T) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		pool := pgxPool(t, postgres(t), 2, pgx.QueryExecModeCacheStatement)
		s := store[pgx.Tx]{pgxtx.New(pool), nil}
		table(t, s)
		queries := &pgxQueries{pool}
		err := s.Do(t.Context(), func(ctx context.Context, nt pgx.Tx) error {
			_, err := queries.WithTx(nt).db.Exec(ctx, insertEntry, 1)
			return err
		})
		if err != nil || entries(t, s, 1) != 1 {
			t.Errorf("got %v and %d entries, want one", err, entries(t, s, 1))
		}
	})
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		pool := stddb.Open(t, "postgres", postgres(t), 8)
		s := store[*sql.Tx]{sqltx.New(pool, tx.PostgreSQL, nil), nil}
		table(t, s)
		queries := &sqlQueries{pool}
		err := s.Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
			_, err := queries.WithTx(nt).db.ExecContext(ctx, insertEntry, 1)
			return err
		})
		if err != nil || entries(t, s, 1) != 1 {
			t.Errorf("got %v and %d entries, want one", err, entries(t, s, 1))
		}
	})
}

// T22: a raw BEGIN leaks an open transaction into the pool when the code around it panics.
func TestT22_PanicLeavesNoOpenTransaction(t *testing.T) {
	each(t, nil, func(t *testing.T, e engine) {
		pool, db := e.open(t, 1, 0)
		if _, err := pool.ExecContext(t.Context(), "create table entry (n integer)"); err != nil {
			t.Fatal(err)
		}
		for _, o := range []tx.Options{{}, {ReadOnly: true}} {
			func() {
				defer func() { _ = recover() }()
				_ = db.With(o).Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
					if !o.ReadOnly {
						if _, err := db.Tx(nt).Exec(ctx, insertEntry, 1); err != nil {
							t.Error(err)
						}
					}
					panic("in the closure")
				})
			}()
			// The only connection of the pool: an open transaction would refuse the BEGIN, or keep the insert to itself.
			if err := db.Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
				_, err := db.Tx(nt).Exec(ctx, insertEntry, 2)
				return err
			}); holdfast.OutcomeOf(err) != holdfast.Applied {
				t.Error(err)
			}
		}
		var ones, twos int
		err := pool.QueryRowContext(t.Context(), "select count(case when n = 1 then 1 end), count(case when n = 2 then 1 end) from entry").
			Scan(&ones, &twos)
		if err != nil || ones != 0 || twos != 2 {
			t.Errorf("%d and %d entries, %v, want none and 2", ones, twos, err)
		}
	})
}
