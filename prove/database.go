package prove

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/fault"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tx"
)

// A Database is where a handler is tried. It is opened anew for each process that a proof plays, with the faults of that
// process on the way to it. The tables must be there, and stay: each call has a key of its own.
type Database[D any] struct {
	open func(ctx context.Context, in *fault.Injector) (D, error)
	err  error
}

// SQL is a database behind database/sql, by the arguments of [sql.Open]. Each call of the driver is an operation that can
// fail: to connect, begin, prepare, execute, query, commit and roll back. A SQLite database must be a file, since a process
// of its own sees nothing of another's memory.
//
// Panic and Goexit happen in Exec alone: database/sql loses a connection whose driver panics elsewhere, since none does.
func SQL(driverName, dataSourceName string) *Database[*sql.DB] {
	pool, err := sql.Open(driverName, dataSourceName)
	if err != nil {
		return &Database[*sql.DB]{open: opening(nil), err: err}
	}
	defer func() { _ = pool.Close() }() // it has not connected
	c, err := connectorOf(pool.Driver(), dataSourceName)
	return &Database[*sql.DB]{open: opening(c), err: err}
}

// Connector is [SQL] for a driver.Connector, as pgx and others make them.
func Connector(c driver.Connector) *Database[*sql.DB] {
	return &Database[*sql.DB]{open: opening(c)}
}

func opening(c driver.Connector) func(context.Context, *fault.Injector) (*sql.DB, error) {
	return func(_ context.Context, in *fault.Injector) (*sql.DB, error) {
		db := sql.OpenDB(in.Connector(c))
		in.OnStop(func() { _ = db.Close() })
		return db, nil
	}
}

func connectorOf(d driver.Driver, name string) (driver.Connector, error) {
	if c, ok := d.(driver.DriverContext); ok {
		return c.OpenConnector(name)
	}
	return plain{d, name}, nil
}

// plain is the connector of an old driver.
type plain struct {
	d    driver.Driver
	name string
}

func (p plain) Connect(context.Context) (driver.Conn, error) { return p.d.Open(p.name) }
func (p plain) Driver() driver.Driver                        { return p.d }

// Postgres is PostgreSQL behind whatever open returns for a URL, such as a pool of pgx. The URL leads through a proxy, where
// each message of the protocol, in either direction, is an operation that can fail: the connection breaks before it or
// before its reply, it disappears, it arrives byte by byte, the process dies. The proxy speaks no TLS: url must allow for
// that, as sslmode=disable does. open must not connect before it is used. close ends what it returned; it may be nil.
func Postgres[D any](url string, open func(ctx context.Context, url string) (db D, close func(), err error)) *Database[D] {
	return &Database[D]{open: func(ctx context.Context, in *fault.Injector) (D, error) {
		var none D
		proxy, err := wire.Start(url, 0)
		if err != nil {
			return none, err
		}
		in.Script(proxy)
		db, end, err := open(ctx, proxy.URL())
		if err != nil {
			_ = proxy.Close()
			return none, fmt.Errorf("open the database: %w", err)
		}
		if end != nil {
			in.OnStop(end)
		}
		in.OnStop(func() { _ = proxy.Close() })
		return db, nil
	}}
}

// Driver is a database of package tx. Each operation of a pattern on it can fail, and panic: to begin with the statements
// that ride along, statements and batches through [tx.Tx], savepoints, commit with what was deferred, roll back. What Call
// sends through the native transaction passes by it; use [SQL] or [Postgres] to see that too.
func Driver[T any](db *tx.DB[T]) *Database[*tx.DB[T]] {
	return &Database[*tx.DB[T]]{open: func(_ context.Context, in *fault.Injector) (*tx.DB[T], error) {
		return db.Wrapped(func(d tx.Driver[T]) tx.Driver[T] { return fault.Driver(d, in) }), nil
	}}
}

// Through returns db as what make makes of it: the DB of package tx, a store, a service. It is called in each process.
func Through[D, E any](db *Database[D], make func(D) E) *Database[E] {
	return &Database[E]{err: db.err, open: func(ctx context.Context, in *fault.Injector) (E, error) {
		d, err := db.open(ctx, in)
		if err != nil {
			var none E
			return none, err
		}
		return make(d), nil
	}}
}
