package pessimistictest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/pessimistic"
)

// No connection goes back to its pool with a lock, whatever ended the session (B37a).
func TestSessionNeverReturnsALock(t *testing.T) {
	t.Parallel()
	address := testdb.Postgres(t)
	watch := connect(t, address)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	lock := func(ctx context.Context, conn *pgx.Conn) (*pessimistic.Session, error) {
		return pessimistic.LockSession(ctx, conn, address, "a", "b")
	}
	for name, end := range map[string]func(t *testing.T, conn *pgx.Conn) error{
		"unlocked": func(t *testing.T, conn *pgx.Conn) error {
			s, err := lock(t.Context(), conn)
			if err != nil {
				return err
			}
			return s.Unlock(t.Context())
		},
		"cancelled before the lock": func(_ *testing.T, conn *pgx.Conn) error {
			_, err := lock(cancelled, conn)
			return err
		},
		"cancelled while it waits for the second": func(t *testing.T, conn *pgx.Conn) error {
			second := "b"
			if pessimistic.AdvisoryID(address, "a") > pessimistic.AdvisoryID(address, "b") {
				second = "a"
			}
			other, err := pessimistic.LockSession(t.Context(), connect(t, address), address, second)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				defer cancel()
				for waiting := 0; waiting == 0 && ctx.Err() == nil; {
					_ = watch.QueryRow(ctx, "select count(*) from pg_locks where pid = $1 and not granted", conn.PgConn().PID()).Scan(&waiting)
				}
			}()
			_, err = lock(ctx, conn)
			<-ctx.Done()
			return errors.Join(err, other.Unlock(t.Context()))
		},
		"cancelled before the release": func(t *testing.T, conn *pgx.Conn) error {
			s, err := lock(t.Context(), conn)
			if err != nil {
				return err
			}
			return s.Unlock(cancelled)
		},
		"in a transaction that is aborted": func(t *testing.T, conn *pgx.Conn) error {
			s, err := lock(t.Context(), conn)
			if err != nil {
				return err
			}
			_, _ = conn.Exec(t.Context(), "begin; select 1/0")
			return s.Unlock(t.Context())
		},
		"killed by the server": func(t *testing.T, conn *pgx.Conn) error {
			s, err := lock(t.Context(), conn)
			if err != nil {
				return err
			}
			if _, err := watch.Exec(t.Context(), "select pg_terminate_backend($1, 10000)", conn.PgConn().PID()); err != nil {
				t.Error(err)
			}
			return s.Unlock(t.Context())
		},
		"released by somebody else": func(t *testing.T, conn *pgx.Conn) error {
			s, err := lock(t.Context(), conn)
			if err != nil {
				return err
			}
			_, _ = conn.Exec(t.Context(), "select pg_advisory_unlock_all()")
			return s.Unlock(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) { // in turn: they want the same names
			one := onePool(t, address)
			conn, err := one.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			pid := conn.Conn().PgConn().PID()
			err = end(t, conn.Conn())
			if (err == nil) != (name == "unlocked") {
				t.Errorf("got %v", err)
			}
			conn.Release()
			var next uint32
			if err := one.QueryRow(t.Context(), "select pg_backend_pid()").Scan(&next); err != nil {
				t.Fatal(err)
			}
			if kept := next == pid; kept != (name == "unlocked") {
				t.Errorf("the pool kept the connection: %v", kept)
			}
			// A server process frees what it had when it notices that its client is gone.
			for held(t, watch, address, "a")+held(t, watch, address, "b") > 0 {
				if next == pid || t.Context().Err() != nil {
					t.Fatal("a lock is left")
				}
			}
		})
	}
}

// onePool is a pool of one connection.
func onePool(t *testing.T, address string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
