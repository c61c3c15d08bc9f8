package sqltx

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/tx"
)

// A session is what the driver keeps of a transaction that it began.
type session struct {
	conn *sql.Conn
	// cancel ends the context that the transaction began with. database/sql would roll back behind the closure's back
	// when it ends, so it is called only once the transaction is over.
	cancel context.CancelFunc
	// queryOnly is set if the connection was made read-only, which outlives the transaction.
	queryOnly bool
}

func (d *driver) Begin(ctx context.Context, o tx.Options, lead []*tx.Stmt) (*sql.Tx, error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn}
	t, err := d.begin(ctx, s, o)
	if err != nil {
		return nil, err
	}
	d.sessions.Store(t, s)
	if err := d.Wrap(t).Batch(ctx, lead...); err != nil {
		_ = d.Rollback(context.WithoutCancel(ctx), t)
		return nil, err
	}
	return t, nil
}

// begin begins a transaction that ctx can cancel only while it begins. If it fails the connection has been given back.
func (d *driver) begin(ctx context.Context, s *session, o tx.Options) (*sql.Tx, error) {
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	stop := context.AfterFunc(ctx, cancel)
	t, err := s.conn.BeginTx(detached, d.beginOptions(o))
	if err == nil && d.sqlite() {
		err = beginSQLite(ctx, s, t, o.ReadOnly)
	}
	if !stop() && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		d.giveUp(ctx, s, t)
		return nil, err
	}
	return t, nil
}

func (d *driver) beginOptions(o tx.Options) *sql.TxOptions {
	if d.sqlite() {
		return nil // drivers differ in what they make of options; beginSQLite sets what it needs
	}
	levels := map[tx.Isolation]sql.IsolationLevel{
		tx.ReadCommitted:  sql.LevelReadCommitted,
		tx.RepeatableRead: sql.LevelRepeatableRead,
		tx.Serializable:   sql.LevelSerializable,
	}
	return &sql.TxOptions{Isolation: levels[o.Isolation], ReadOnly: o.ReadOnly}
}

// giveUp ends a transaction that did not begin well. t is nil if it did not begin at all.
func (d *driver) giveUp(ctx context.Context, s *session, t *sql.Tx) {
	var err error
	if t != nil {
		err = t.Rollback()
	}
	d.release(context.WithoutCancel(ctx), s, err)
}
