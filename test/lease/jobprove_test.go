package lease_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/prove"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// proveSlot is the slot of each job that is broken.
var proveSlot = time.Now().Truncate(time.Hour)

// A process that runs a slot is broken at every operation on the database, in every way; another takes the slot over.
func TestProveJobsPgx(t *testing.T) {
	t.Parallel()
	proveJobs(t, func(t *testing.T) *prove.Database[*tx.DB[pgx.Tx]] {
		db := pgxtx.New(openPool(t, testdb.Postgres(t))).With(quick)
		migrateEffects(t, db)
		return prove.Driver(db)
	})
}

func TestProveJobsPostgresSQL(t *testing.T) {
	t.Parallel()
	proveJobs(t, func(t *testing.T) *prove.Database[*tx.DB[*sql.Tx]] {
		return proveSQL(t, "pgx", testdb.Postgres(t), tx.PostgreSQL)
	})
}

func TestProveJobsSQLite(t *testing.T) {
	t.Parallel()
	const params = "?_pragma=journal_mode(wal)&_pragma=synchronous(off)&_pragma=busy_timeout(5000)"
	proveJobs(t, func(t *testing.T) *prove.Database[*tx.DB[*sql.Tx]] {
		return proveSQL(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "a.db")+params, tx.SQLite)
	})
}

func proveSQL(t *testing.T, driver, dsn string, dialect *tx.Dialect) *prove.Database[*tx.DB[*sql.Tx]] {
	t.Helper()
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	migrateEffects(t, sqltx.New(pool, dialect, nil))
	return prove.Through(prove.SQL(driver, dsn), func(pool *sql.DB) *tx.DB[*sql.Tx] { return sqltx.New(pool, dialect, nil).With(quick) })
}

func proveJobs[T any](t *testing.T, open func(t *testing.T) *prove.Database[*tx.DB[T]]) {
	for name, call := range map[string]func(ctx context.Context, db *tx.DB[T], job *lease.Job[T]) (bool, error){
		"Once": once[T], "OnceTx": onceTx[T], "Finish": finish[T],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := prove.Handler[*tx.DB[T], bool]{
				Call: func(ctx context.Context, db *tx.DB[T], key string) (bool, error) {
					db = calmed(db)
					job := lease.NewJob(lease.NewSQL(db, lease.Names{}), key, &lease.JobOptions{
						Attempts: 100, Lease: lease.Options{TTL: 500 * time.Millisecond},
					})
					ran, err := call(ctx, db, job)
					if err != nil || ran {
						return true, err
					}
					return true, ended(ctx, db, key)
				},
				Effects: effects[T],
			}
			db := open(t)
			prove.Twice(t, db, h)
			prove.Together(t, db, h)
			prove.CrashEverywhere(t, db, h)
		})
	}
}

var errRunning = errors.New("somebody else runs it")

// ended returns an error unless the slot is done.
func ended[T any](ctx context.Context, db *tx.DB[T], key string) error {
	var n int
	err := db.Conn().QueryRow(ctx, "select count(*) from lease_slot where job = $1 and state = 'done'", key).Scan(&n)
	if err == nil && n == 0 {
		err = errRunning
	}
	return err
}

// once has an effect that is idempotent, so that it shows whether a slot is lost.
func once[T any](ctx context.Context, db *tx.DB[T], job *lease.Job[T]) (bool, error) {
	return job.Once(ctx, proveSlot, func(ctx context.Context, s *lease.Slot) error {
		_, err := db.Conn().Exec(ctx, `insert into effect (name) select cast($1 as text)
			where not exists (select 1 from effect where name = cast($1 as text))`, s.Job)
		return again(err)
	})
}

func onceTx[T any](ctx context.Context, db *tx.DB[T], job *lease.Job[T]) (bool, error) {
	return job.OnceTx(ctx, proveSlot, func(ctx context.Context, t T) error { return again(effect(ctx, db, t, job)) })
}

func finish[T any](ctx context.Context, db *tx.DB[T], job *lease.Job[T]) (bool, error) {
	return job.Once(ctx, proveSlot, func(ctx context.Context, s *lease.Slot) error {
		return again(db.Do(ctx, func(ctx context.Context, t T) error {
			if err := job.Finish(ctx, t, s); err != nil {
				return err
			}
			return effect(ctx, db, t, job)
		}))
	})
}

// again leaves the slot to another run.
func again(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, lease.ErrAgain)
}

func effect[T any](ctx context.Context, db *tx.DB[T], t T, job *lease.Job[T]) error {
	_, err := db.Tx(t).Exec(ctx, "insert into effect (name) values ($1)", job.Name())
	return err
}
