package pgxtx

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/tx"
)

// ownTx is the transaction that Do hands out. It is a pgx.Tx whose Commit and Rollback are refused, since Do ends it.
// It is a type of our own because pgx cannot wrap a connection on which BEGIN was sent together with other statements.
type ownTx struct {
	pooled *pgxpool.Conn // nil once the transaction has ended
	conn   *pgx.Conn
	pipe   *pipe
	nested int64
}

func (t *ownTx) closed() bool { return t.pooled == nil }

// release hands the connection back. The pool destroys it unless it is idle.
func (t *ownTx) release() {
	t.pooled.Release()
	t.pooled = nil
}

// abandon rolls back whatever is still open and releases the connection. If it cannot roll back, the connection dies and
// the server rolls back.
func (t *ownTx) abandon(ctx context.Context) {
	if !t.conn.IsClosed() && t.conn.PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		if _, err := t.conn.Exec(ctx, "rollback"); err != nil {
			_ = t.conn.Close(ctx)
		}
	}
	t.release()
}

// kill closes the connection, whatever is under way on it, and gives it up.
func (t *ownTx) kill(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = t.conn.Close(ctx)
	t.release()
}

func (t *ownTx) Commit(context.Context) error   { return tx.ErrOwned }
func (t *ownTx) Rollback(context.Context) error { return tx.ErrOwned }

func (t *ownTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if t.closed() {
		return nil, pgx.ErrTxClosed
	}
	t.nested++
	sp := &savepointTx{ownTx: t, name: "sp_" + strconv.FormatInt(t.nested, 10)}
	if _, err := t.conn.Exec(ctx, "savepoint "+sp.name); err != nil {
		return nil, err
	}
	return sp, nil
}

func (t *ownTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if t.closed() {
		return 0, pgx.ErrTxClosed
	}
	return t.conn.CopyFrom(ctx, table, columns, src)
}

func (t *ownTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if t.closed() {
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed)
	}
	if b.Len() > 0 && strings.HasPrefix(strings.ToLower(b.QueuedQueries[0].SQL), "begin") {
		return pgx.FailedBatchResults(b, errors.New("pgxtx: a batch cannot begin a transaction within one"))
	}
	return t.conn.SendBatch(ctx, b)
}

// LargeObjects costs a round trip, unlike that of pgx: only a transaction of pgx's own can make the value, and it is
// made by an empty query in place of BEGIN.
func (t *ownTx) LargeObjects() pgx.LargeObjects {
	if t.closed() {
		return pgx.LargeObjects{}
	}
	native, err := t.conn.BeginTx(context.Background(), pgx.TxOptions{BeginQuery: ";"})
	if err != nil {
		return pgx.LargeObjects{}
	}
	return native.LargeObjects()
}

func (t *ownTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if t.closed() {
		return nil, pgx.ErrTxClosed
	}
	return t.conn.Prepare(ctx, name, sql)
}

func (t *ownTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if t.closed() {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	return t.conn.Exec(ctx, sql, args...)
}

func (t *ownTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if t.closed() {
		return errRows{pgx.ErrTxClosed}, pgx.ErrTxClosed
	}
	return t.conn.Query(ctx, sql, args...)
}

func (t *ownTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if t.closed() {
		return errRows{pgx.ErrTxClosed}
	}
	return t.conn.QueryRow(ctx, sql, args...)
}

// Conn returns the connection, or nil once the transaction has ended.
func (t *ownTx) Conn() *pgx.Conn {
	if t.closed() {
		return nil
	}
	return t.conn
}
