package idem_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/prove"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// A shop is a process that uses package idem.
type shop[T any] struct {
	db *tx.DB[T]
	// foreign runs fn in a transaction that package tx knows nothing of.
	foreign func(ctx context.Context, fn func(T) error) error
}

// quick are for commits whose reply never comes.
var quick = tx.Options{CommitTimeout: time.Second}

func pgxShop(db *tx.DB[pgx.Tx], pool *pgxpool.Pool) shop[pgx.Tx] {
	return shop[pgx.Tx]{db.With(quick), func(ctx context.Context, fn func(pgx.Tx) error) error {
		return pgx.BeginFunc(ctx, pool, fn)
	}}
}

func sqlShop(pool *sql.DB, dialect *tx.Dialect) shop[*sql.Tx] {
	return shop[*sql.Tx]{sqltx.New(pool, dialect, nil).With(quick), func(ctx context.Context, fn func(*sql.Tx) error) error {
		t, err := pool.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = t.Rollback() }()
		if err := fn(t); err != nil {
			return err
		}
		return t.Commit()
	}}
}

// On the wire each call has ten times the points: those that differ in what they send are enough.
func TestProvePgxOnTheWire(t *testing.T) {
	proveAll(t, []string{"Do", "DoTx", "Inbox.DoBatch", "Migrate"}, func(t *testing.T) *prove.Database[shop[pgx.Tx]] {
		url := testdb.Postgres(t)
		prepareShop(t, pgxShop(pgxtx.New(pgxdb.Pool(t, url, 8)), nil))
		return prove.Postgres(url, func(ctx context.Context, url string) (s shop[pgx.Tx], end func(), err error) {
			pool, err := pgxpool.New(ctx, url)
			if err != nil {
				return s, nil, err
			}
			return pgxShop(pgxtx.New(pool), pool), pool.Close, nil
		})
	})
}

func TestProvePgxInTheDriver(t *testing.T) {
	proveAll(t, nil, func(t *testing.T) *prove.Database[shop[pgx.Tx]] {
		pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
		db := pgxtx.New(pool)
		prepareShop(t, pgxShop(db, pool))
		return prove.Through(prove.Driver(db), func(db *tx.DB[pgx.Tx]) shop[pgx.Tx] { return pgxShop(db, pool) })
	})
}

func TestProvePostgresSQL(t *testing.T) {
	proveAll(t, nil, func(t *testing.T) *prove.Database[shop[*sql.Tx]] {
		return proveSQL(t, "pgx", testdb.Postgres(t), tx.PostgreSQL)
	})
}

func TestProveSQLite(t *testing.T) {
	const params = "?_pragma=journal_mode(wal)&_pragma=synchronous(off)&_pragma=busy_timeout(5000)&_txlock=immediate"
	proveAll(t, nil, func(t *testing.T) *prove.Database[shop[*sql.Tx]] {
		return proveSQL(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "a.db")+params, tx.SQLite)
	})
}

func proveSQL(t *testing.T, driver, dsn string, dialect *tx.Dialect) *prove.Database[shop[*sql.Tx]] {
	t.Helper()
	pool := stddb.Open(t, driver, dsn, 8)
	prepareShop(t, sqlShop(pool, dialect))
	return prove.Through(prove.SQL(driver, dsn), func(pool *sql.DB) shop[*sql.Tx] { return sqlShop(pool, dialect) })
}

func prepareShop[T any](t *testing.T, s shop[T]) {
	t.Helper()
	if err := idem.Migrate(t.Context(), s.db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	id := "integer primary key"
	if s.db.Dialect() == tx.PostgreSQL {
		id = "bigint generated always as identity"
	}
	if _, err := s.db.Conn().Exec(t.Context(), "create table effect (id "+id+", name text not null)"); err != nil {
		t.Fatal(err)
	}
}

func proveAll[T any](t *testing.T, only []string, open func(t *testing.T) *prove.Database[shop[T]]) {
	for name, h := range map[string]prove.Handler[shop[T], int64]{
		"Do":            {Call: doCall[T], Effects: effects[T]},
		"Do joined":     {Call: joinedCall[T], Effects: effects[T]},
		"Do failure":    {Call: failureCall[T], Effects: failures[T]},
		"DoTx":          {Call: doTxCall[T], Effects: effects[T]},
		"Inbox.Do":      {Call: inboxCall[T], Effects: effects[T]},
		"Inbox.DoTx":    {Call: inboxTxCall[T], Effects: effects[T]},
		"Inbox.DoBatch": {Call: batchCall[T], Effects: batchEffects[T]},
		"Migrate":       {Call: migrateCall[T], Effects: migrations[T]},
	} {
		if only != nil && !slices.Contains(only, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			prove.Twice(t, db, h)
			prove.Together(t, db, h)
			prove.CrashEverywhere(t, db, h)
		})
	}
}

func (s shop[T]) apply(ctx context.Context, t T, name string) (id int64, err error) {
	err = s.db.Tx(t).QueryRow(ctx, "insert into effect (name) values ($1) returning id", name).Scan(&id)
	return id, err
}

func (s shop[T]) key(key string) idem.Key { return idem.Key{Scope: key, Name: "charge", Value: "1"} }

func (s shop[T]) inbox() *idem.Inbox[T] { return idem.NewInbox(s.db, "mail", nil) }

func (s shop[T]) count(ctx context.Context, query string, args ...any) (n int, err error) {
	err = s.db.Conn().QueryRow(ctx, query, args...).Scan(&n)
	return n, err
}

func effects[T any](ctx context.Context, s shop[T], key string) (int, error) {
	return s.count(ctx, "select count(*) from effect where name = $1", key)
}

func doCall[T any](ctx context.Context, s shop[T], key string) (int64, error) {
	res, err := idem.Do(ctx, idem.New(s.db, nil), s.key(key), func(ctx context.Context, t T) (int64, error) {
		return s.apply(ctx, t, key)
	})
	return res.Value, err
}

// joinedCall has a savepoint inside and one outside, of which the inner one is undone.
func joinedCall[T any](ctx context.Context, s shop[T], key string) (id int64, err error) {
	keys, undo := idem.New(s.db, nil), errors.New("undo")
	err = s.db.Do(ctx, func(ctx context.Context, t T) error {
		res, err := idem.Do(ctx, keys, s.key(key), func(ctx context.Context, t T) (int64, error) {
			err := s.db.Nested(ctx, t, func(ctx context.Context, t T) error {
				if _, err := s.apply(ctx, t, key); err != nil {
					return err
				}
				return undo
			})
			if !errors.Is(err, undo) {
				return 0, err
			}
			return s.apply(ctx, t, key)
		})
		id = res.Value
		return err
	})
	return id, err
}

// failureCall is declined: the answer is stored, the writes are undone.
func failureCall[T any](ctx context.Context, s shop[T], key string) (int64, error) {
	_, err := idem.Do(ctx, idem.New(s.db, nil), s.key(key), func(ctx context.Context, t T) (int64, error) {
		id, err := s.apply(ctx, t, key)
		if err != nil {
			return 0, err
		}
		return 0, &idem.Failure{Message: fmt.Sprint(id), Status: 402}
	})
	var failure *idem.Failure
	if !errors.As(err, &failure) {
		return 0, err
	}
	var id int64
	_, err = fmt.Sscan(failure.Message, &id)
	return id, err
}

func failures[T any](ctx context.Context, s shop[T], key string) (int, error) {
	if n, err := effects(ctx, s, key); err != nil || n != 0 {
		return n, fmt.Errorf("%d effects of what failed (%w)", n, err)
	}
	return s.count(ctx, "select count(*) from idem_key where scope = $1 and state = 3", key)
}

func doTxCall[T any](ctx context.Context, s shop[T], key string) (id int64, err error) {
	err = s.foreign(ctx, func(t T) error {
		res, err := idem.DoTx(ctx, idem.New(s.db, nil), t, s.key(key), func(ctx context.Context, t T) (int64, error) {
			return s.apply(ctx, t, key)
		})
		id = res.Value
		return err
	})
	return id, err
}

func inboxCall[T any](ctx context.Context, s shop[T], key string) (int64, error) {
	_, err := s.inbox().Do(ctx, key, func(ctx context.Context, t T) error {
		_, err := s.apply(ctx, t, key)
		return err
	})
	return 0, err
}

func inboxTxCall[T any](ctx context.Context, s shop[T], key string) (int64, error) {
	return 0, s.foreign(ctx, func(t T) error {
		_, err := s.inbox().DoTx(ctx, t, key, func(ctx context.Context, t T) error {
			_, err := s.apply(ctx, t, key)
			return err
		})
		return err
	})
}

func batchCall[T any](ctx context.Context, s shop[T], key string) (int64, error) {
	_, err := s.inbox().DoBatch(ctx, []string{key + "/1", key + "/2", key + "/3"}, func(ctx context.Context, t T, fresh []string) error {
		for _, id := range fresh {
			if _, err := s.apply(ctx, t, id); err != nil {
				return err
			}
		}
		return nil
	})
	return 0, err
}

// batchEffects says 1 if all of a batch is there.
func batchEffects[T any](ctx context.Context, s shop[T], key string) (int, error) {
	n, err := s.count(ctx, "select count(*) from effect where name like $1", key+"/%")
	if err == nil && n%3 != 0 {
		return 0, fmt.Errorf("%d messages of 3 were handled", n)
	}
	return n / 3, err
}

func names(key string) idem.Names {
	sum := sha256.Sum256([]byte(key))
	name := hex.EncodeToString(sum[:8])
	return idem.Names{Keys: "key_" + name, Inbox: "inbox_" + name}
}

func migrateCall[T any](ctx context.Context, s shop[T], key string) (int64, error) {
	return 0, idem.Migrate(ctx, s.db, names(key))
}

// migrations says 1 if all steps have been applied.
func migrations[T any](ctx context.Context, s shop[T], key string) (int, error) {
	if err := forget(ctx, s, names(key)); err != nil {
		return 0, err
	}
	n, err := s.count(ctx, "select count(*) from holdfast_migration where set_name like $1", "%"+names(key).Keys+"%")
	if err != nil || n == 0 {
		return 0, err
	}
	steps, err := fs.Glob(idem.Migrations, s.db.Dialect().Name+"/*.sql")
	if err != nil {
		return 0, err
	}
	if n != len(steps) {
		return 0, fmt.Errorf("%d steps of %d were recorded", n, len(steps))
	}
	for _, table := range []string{names(key).Keys, names(key).Inbox, names(key).Keys + "_epoch"} {
		if _, err := s.count(ctx, "select count(*) from "+table); err != nil {
			return 0, err
		}
	}
	return 1, nil
}

// forget drops the tables of earlier keys on SQLite, where each new connection reads the whole schema.
func forget[T any](ctx context.Context, s shop[T], but idem.Names) error {
	if s.db.Dialect() != tx.SQLite {
		return nil
	}
	rows, err := s.db.Conn().Query(ctx, `select name from sqlite_master where type = 'table' and (name like 'key\_%' escape '\' or name like 'inbox\_%' escape '\')
		and name not in ($1, $2, $1 || '_epoch')`, but.Keys, but.Inbox)
	if err != nil {
		return err
	}
	var old []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			rows.Close()
			return err
		}
		old = append(old, name)
	}
	rows.Close()
	for _, name := range old {
		if _, err := s.db.Conn().Exec(ctx, "drop table if exists "+name); err != nil {
			return err
		}
	}
	return rows.Err()
}
