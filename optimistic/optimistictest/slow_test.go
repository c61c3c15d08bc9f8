package optimistictest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

var errTooSlow = errors.New("too slow")

// A row that somebody else keeps locked makes the store slow. A caller who gives up is told what is known: that nothing was
// written where the commit was not sent, and else that it is unknown, since the server may come to it later.
func TestStoreIsSlow(t *testing.T) {
	t.Parallel()
	want := optimistic.Want{Key: "a", Version: optimistic.At(0)}
	late := func(docs *optimistic.Rows[pgx.Tx]) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, t pgx.Tx) error {
			_, err := docs.SetAtCommit(ctx, t, want, title)
			return err
		}
	}
	for name, slow := range map[string]struct {
		known bool
		call  func(ctx context.Context, db *tx.DB[pgx.Tx], docs *optimistic.Rows[pgx.Tx]) error
	}{
		"Set": {false, func(ctx context.Context, _ *tx.DB[pgx.Tx], docs *optimistic.Rows[pgx.Tx]) error {
			_, err := docs.Set(ctx, want, title)
			return err
		}},
		"Delete": {false, func(ctx context.Context, _ *tx.DB[pgx.Tx], docs *optimistic.Rows[pgx.Tx]) error {
			_, err := docs.Delete(ctx, want)
			return err
		}},
		"SetMany": {false, func(ctx context.Context, _ *tx.DB[pgx.Tx], docs *optimistic.Rows[pgx.Tx]) error {
			_, err := docs.SetMany(ctx, []optimistic.Item{{Want: want, Set: title}})
			return err
		}},
		"SetTx in Update": {true, func(ctx context.Context, _ *tx.DB[pgx.Tx], docs *optimistic.Rows[pgx.Tx]) error {
			return docs.Update(ctx, "a", func(ctx context.Context, t pgx.Tx) error {
				_, err := docs.SetTx(ctx, t, want, title)
				return err
			})
		}},
		"Update that locks": {true, func(ctx context.Context, db *tx.DB[pgx.Tx], _ *optimistic.Rows[pgx.Tx]) error {
			docs := optimistic.New(db, docTable, &optimistic.Options{LockAfter: 1})
			return docs.Update(ctx, "a", func(context.Context, pgx.Tx) error { return &optimistic.ConflictError{} })
		}},
		"Edit that locks": {true, func(ctx context.Context, db *tx.DB[pgx.Tx], _ *optimistic.Rows[pgx.Tx]) error {
			docs := optimistic.New(db, docTable, &optimistic.Options{LockAfter: 1})
			_, err := docs.Edit(ctx, optimistic.Want{Key: "a"}, nil, func(context.Context, pgx.Tx) (map[string]any, error) {
				return nil, &optimistic.ConflictError{}
			})
			return err
		}},
		"Edit": {false, func(ctx context.Context, _ *tx.DB[pgx.Tx], docs *optimistic.Rows[pgx.Tx]) error {
			_, err := docs.Edit(ctx, optimistic.Want{Key: "a"}, nil, retitle)
			return err
		}},
		"SetAtCommit in Do": {false, func(ctx context.Context, db *tx.DB[pgx.Tx], docs *optimistic.Rows[pgx.Tx]) error {
			return db.Do(ctx, late(docs))
		}},
		"SetAtCommit in Update": {false, func(ctx context.Context, _ *tx.DB[pgx.Tx], docs *optimistic.Rows[pgx.Tx]) error {
			return docs.Update(ctx, "a", late(docs))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
			db := pgxtx.New(pool).With(tx.Options{CommitTimeout: 20 * time.Millisecond}) // a commit does not end with the caller
			if _, err := pool.Exec(t.Context(), createDoc+"; insert into doc (id) values ('a')"); err != nil {
				t.Fatal(err)
			}
			other, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Rollback(context.Background()) }()
			if _, err := other.Exec(t.Context(), "select from doc for update"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			result := make(chan error, 1)
			go func() { result <- slow.call(ctx, db, optimistic.New(db, docTable, nil)) }()
			awaitWaiter(t, pool)
			cancel(errTooSlow)
			err = <-result
			outcome := holdfast.OutcomeOf(err)
			if slow.known && (outcome != holdfast.NotApplied || !errors.Is(err, errTooSlow) && !errors.Is(err, context.Canceled)) {
				t.Errorf("got %v, which is %v", err, outcome)
			}
			if !slow.known && (outcome != holdfast.Unknown || !errors.Is(err, tx.ErrCommitUnknown)) {
				t.Errorf("got %v, which is %v", err, outcome)
			}
			if errors.Is(err, optimistic.ErrNotFound) || errors.Is(err, optimistic.ErrConflict) && !errors.Is(err, optimistic.ErrContended) {
				t.Errorf("slowness is told as %v", err)
			}
		})
	}
}

// awaitWaiter waits until somebody waits for a row of doc.
func awaitWaiter(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for waits := false; !waits; {
		err := pool.QueryRow(t.Context(), "select exists (select from pg_locks where relation = 'doc'::regclass and locktype = 'tuple')").Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
	}
}
