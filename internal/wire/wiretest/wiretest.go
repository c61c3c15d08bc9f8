// Package wiretest pins round trips: it counts on the wire what a call costs on one pgx connection.
package wiretest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Modes are all of pgx's ways to run a statement. The first is its default.
var Modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe,
	pgx.QueryExecModeDescribeExec, pgx.QueryExecModeSimpleProtocol,
}

// A Rig is a pool of one connection, through a proxy, to a database of the test's own.
type Rig struct {
	testing.TB
	Proxy *wire.Proxy
	Pool  *pgxpool.Pool
	// Direct is a connection that the proxy does not see.
	Direct *pgx.Conn
}

// Open makes a rig whose pool runs statements in a mode.
func Open(t testing.TB, mode pgx.QueryExecMode) *Rig {
	t.Helper()
	return OpenAt(t, mode, testdb.Postgres(t))
}

// OpenAt makes a rig on the database at url.
func OpenAt(t testing.TB, mode pgx.QueryExecMode, url string) *Rig {
	t.Helper()
	ctx := context.Background()
	proxy, err := wire.Start(url, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	config, err := pgxpool.ParseConfig(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	config.ConnConfig.DefaultQueryExecMode = mode
	// A connection that was idle for a second would be pinged, which is a trip.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	direct, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Close(ctx) })
	return &Rig{TB: t, Proxy: proxy, Pool: pool, Direct: direct}
}

// Exec runs a statement that the proxy does not see.
func (r *Rig) Exec(sql string, args ...any) {
	r.Helper()
	if _, err := r.Direct.Exec(context.Background(), sql, args...); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
}

// Trips counts what call costs, with what it leaves to be done after it returned.
func (r *Rig) Trips(call func()) int {
	r.Helper()
	r.Settle()
	r.Proxy.Reset()
	call()
	r.Settle()
	return r.Proxy.Trips()
}

// Settle waits until the connection is idle.
func (r *Rig) Settle() {
	r.Helper()
	conn, err := r.Pool.Acquire(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	conn.Release()
}

// Cold makes the next call use a new connection.
func (r *Rig) Cold() {
	r.Settle()
	r.Pool.Reset()
}

// Warm returns the trips of a call that has run twice before on the connection.
func (r *Rig) Warm(call func()) int {
	r.Helper()
	call()
	call()
	return r.Trips(call)
}

// WarmAndCold returns the trips of a call on a connection that knows it, and on a new one.
func (r *Rig) WarmAndCold(call func()) [2]int {
	r.Helper()
	warm := r.Warm(call)
	r.Cold()
	return [2]int{warm, r.Trips(call)}
}
