package sqltx

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfast-go/holdfast/tx"
)

// A session is what the driver keeps of a transaction that it began.
type session struct {
	conn *sql.Conn
	// cancel ends the context that the transaction began with. database/sql would roll back behind the closure's back
	// when that context ends, so cancel is called only once the transaction is over, or to make a driver give up on it.
	cancel context.CancelFunc
	// queryOnly is set if the connection was made read-only, which outlives the transaction.
	queryOnly bool
}

// Begin takes a connection of its own first, so that ctx bounds the wait for the pool.
func (d *driver) Begin(ctx context.Context, o tx.Options, lead []*tx.Stmt) (*sql.Tx, error) {
	t, err := d.begin(ctx, o)
	if d.dead(err) {
		// After a restart of the server every idle connection of the pool is dead, and each is found out by its BEGIN.
		for idle := d.db.Stats().OpenConnections; d.dead(err) && idle >= 0; idle-- {
			t, err = d.begin(ctx, o)
		}
	}
	if err != nil {
		return nil, err
	}
	done := false
	defer func() {
		if done {
			return
		}
		if s, ok := d.take(t); ok { // also when what takes the rows of a statement panics
			d.giveUp(ctx, s, t)
		}
	}()
	if err := d.Wrap(t).Batch(ctx, lead...); err != nil {
		return nil, err
	}
	done = true
	return t, nil
}

func (d *driver) dead(err error) bool {
	return err != nil && !d.sqlite() && tx.Classify(err) == tx.Lost
}

func (d *driver) begin(ctx context.Context, o tx.Options) (*sql.Tx, error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, cancel: func() {}}
	t, err := d.beginOn(ctx, s, o)
	switch {
	case err == nil:
		d.sessions.Store(t, s)
		return t, nil
	case t != nil:
		d.giveUp(ctx, s, t)
	default:
		d.release(context.WithoutCancel(ctx), s, nil)
	}
	return nil, err
}

// beginOn begins a transaction that ctx can cancel only while it begins. It may return one with an error.
func (d *driver) beginOn(ctx context.Context, s *session, o tx.Options) (t *sql.Tx, err error) {
	if d.sqlite() {
		return d.beginSQLite(ctx, s, o.ReadOnly)
	}
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	stop := context.AfterFunc(ctx, cancel)
	t, err = s.conn.BeginTx(detached, &sql.TxOptions{Isolation: level(o.Isolation), ReadOnly: o.ReadOnly})
	if !stop() { // ctx has ended and taken the transaction along
		err = context.Cause(ctx)
	}
	return t, err
}

func level(i tx.Isolation) sql.IsolationLevel {
	switch i {
	case tx.ReadCommitted:
		return sql.LevelReadCommitted
	case tx.RepeatableRead:
		return sql.LevelRepeatableRead
	case tx.Serializable:
		return sql.LevelSerializable
	default:
		return sql.LevelDefault
	}
}

// acquire takes a connection of the pool.
func (d *driver) acquire(ctx context.Context) (*sql.Conn, error) {
	conn, err := d.db.Conn(ctx)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case tx.Classify(err) == tx.Retryable: // SQLite drivers run pragmas of the data source name
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", tx.ErrNotSent, err)
}
