package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// A server that restarts leaves a pool of dead connections behind. They do not surface.
func TestSQLServerRestart(t *testing.T) {
	t.Parallel()
	server := testdb.PostgresServer(t)
	for _, driver := range []string{"pgx", "postgres"} {
		const conns = 20
		pool, err := sql.Open(driver, server.URL())
		if err != nil {
			t.Fatal(err)
		}
		pool.SetMaxOpenConns(conns)
		pool.SetMaxIdleConns(conns)
		var held []*sql.Conn
		for range conns {
			c, err := pool.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
		}
		for _, c := range held {
			_ = c.Close()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := server.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		db := sqltx.New(pool, tx.PostgreSQL, nil).With(tx.Options{Attempts: 1})
		for range conns {
			if err := db.Do(ctx, func(ctx context.Context, nt *sql.Tx) error {
				_, err := nt.ExecContext(ctx, "select 1")
				return err
			}); err != nil {
				t.Errorf("%s: %v", driver, err)
			}
		}
		cancel()
		_ = pool.Close()
	}
}

// A primary that failed over takes no writes.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx", "postgres"} {
		u, err := url.Parse(postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		s := openSQL(driver)(t, u.String(), 1)
		table(t, s)
		q := u.Query()
		q.Set("default_transaction_read_only", "on")
		u.RawQuery = q.Encode()
		replica := openSQL(driver)(t, u.String(), 1)
		err = replica.With(tx.Options{}).Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
			_, err := replica.Tx(nt).Exec(ctx, insertEntry, 1)
			return err
		})
		if driver == "postgres" && err == nil {
			continue // lib/pq asks for READ WRITE in each BEGIN, which a real standby refuses
		}
		if !errors.Is(err, tx.ErrReadOnly) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("%s: got %v, want %v", driver, err, tx.ErrReadOnly)
		}
	}
}

// A statement outside a transaction whose reply is lost is not run again by database/sql: pgx says of one without
// arguments that it was not sent.
func TestStatementWithoutReplyRunsOnce(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx", "postgres"} {
		p, proxied, direct := throughProxy(t)
		s, control := openSQL(driver)(t, proxied, 2), openSQL(driver)(t, direct, 2)
		table(t, control)
		for i, args := range [][]any{nil, {7}} {
			query := insertEntry
			if args == nil {
				query = "insert into entry (n) values (7)"
			}
			p.CutReplyTo(wire.Runs("insert"))
			if _, err := s.Conn().Exec(t.Context(), query, args...); err == nil || s.Classify(err) == tx.NotSent {
				t.Errorf("%s: a lost reply gives %v (%v), want an error that does not say that nothing was sent", driver, err, s.Classify(err))
			}
			if got := settled(t, control, 7, i+1); got != i+1 {
				t.Errorf("%s, arguments %v: %d entries, want %d", driver, args, got, i+1)
			}
		}
	}
}
