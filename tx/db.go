package tx

import (
	"context"

	holdfast "github.com/holdfast-go/holdfast"
)

// A Driver adapts a client library with the native transaction type T. It is implemented by adapters such as
// [github.com/holdfast-go/holdfast/tx/pgxtx], and proved by [github.com/holdfast-go/holdfast/tx/txtest]. T is a pointer,
// or an interface that holds one, so that two values can be compared.
//
// A driver may have a method Pool() any as well. Drivers that answer with equal values share a pool: a [DB.Do] over one of
// them joins the transaction of a closure over another. It may be a [Listener].
type Driver[T any] interface {
	// Begin begins a transaction and runs lead in it, in one round trip where the library can pipeline. ctx bounds the
	// begin only: its end later does not touch the transaction. If Begin fails nothing is left open.
	Begin(ctx context.Context, o Options, lead []*Stmt) (T, error)
	// Commit runs tail and commits, in one round trip where the library can pipeline, and ends the transaction in any
	// case. An error for which errors.Is reports [ErrCommitUnknown] leaves the outcome open. An error that states no
	// [holdfast.Outcome] proves that nothing was applied.
	Commit(ctx context.Context, t T, tail []*Stmt) error
	// Rollback ends the transaction without effect.
	Rollback(ctx context.Context, t T) error
	// Wrap adapts a transaction, one of the driver's own or one that the caller began.
	Wrap(t T) Tx
	// Conn runs statements outside any transaction, each committed at once.
	Conn() Conn
	// Classify sorts an error of the library. Most drivers return [Classify] of it.
	Classify(err error) Class
}

// A DB runs transactions of the native type T. It is safe for concurrent use.
type DB[T any] struct {
	driver Driver[T]
	o      Options
	obs    holdfast.Observer
	turns  turns
}

// New returns a DB over driver. Users call the New of an adapter instead, which names the types for them.
func New[T any](driver Driver[T]) *DB[T] {
	return &DB[T]{driver: driver, turns: newTurns()}
}

// With returns a DB on the same pool whose transactions run with o.
func (db *DB[T]) With(o Options) *DB[T] {
	return &DB[T]{driver: db.driver, o: o, obs: db.obs, turns: db.turns}
}

// Observed returns a DB on the same pool that tells o of its retries and unknown commits.
func (db *DB[T]) Observed(o holdfast.Observer) *DB[T] {
	return &DB[T]{driver: db.driver, o: db.o, obs: o, turns: db.turns}
}

// Wrapped returns a DB over a driver that wrap makes of this one's: one that measures, logs, or breaks things on purpose.
// The wrapper must keep what the [Driver] promises, and pass on its optional powers.
func (db *DB[T]) Wrapped(wrap func(Driver[T]) Driver[T]) *DB[T] {
	return &DB[T]{driver: wrap(db.driver), o: db.o, obs: db.obs, turns: db.turns}
}

// Tx adapts a native transaction to what patterns use. The transaction may be one that [DB.Do] handed out or one that
// the caller began.
func (db *DB[T]) Tx(t T) Tx { return db.driver.Wrap(t) }

// Conn returns the pool as something that runs statements outside a transaction, each committed at once.
func (db *DB[T]) Conn() Conn { return db.driver.Conn() }

// Dialect tells which SQL the database speaks. It panics if db is nil, which is how patterns find out when they are made.
func (db *DB[T]) Dialect() *Dialect {
	if db == nil {
		panic("tx: the DB is nil: make one with pgxtx.New or sqltx.New")
	}
	return db.driver.Conn().Dialect()
}

// Classify sorts an error that a statement or a method of db returned.
func (db *DB[T]) Classify(err error) Class { return db.driver.Classify(err) }
