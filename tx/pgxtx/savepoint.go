package pgxtx

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// savepointTx is what Begin of our transaction returns: a savepoint, which the caller ends.
type savepointTx struct {
	*ownTx
	name  string
	ended bool
}

func (sp *savepointTx) closed() bool { return sp.ended || sp.ownTx.closed() }

func (sp *savepointTx) Commit(ctx context.Context) error {
	return sp.end(ctx, "release savepoint "+sp.name)
}

func (sp *savepointTx) Rollback(ctx context.Context) error {
	return sp.end(ctx, "rollback to savepoint "+sp.name)
}

func (sp *savepointTx) end(ctx context.Context, sql string) error {
	if sp.closed() {
		return pgx.ErrTxClosed
	}
	_, err := sp.ownTx.Exec(ctx, sql)
	sp.ended = true
	return err
}

func (sp *savepointTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if sp.closed() {
		return nil, pgx.ErrTxClosed
	}
	return sp.ownTx.Begin(ctx)
}

func (sp *savepointTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if sp.closed() {
		return 0, pgx.ErrTxClosed
	}
	return sp.ownTx.CopyFrom(ctx, table, columns, src)
}

func (sp *savepointTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if sp.closed() {
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed)
	}
	return sp.ownTx.SendBatch(ctx, b)
}

func (sp *savepointTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if sp.closed() {
		return nil, pgx.ErrTxClosed
	}
	return sp.ownTx.Prepare(ctx, name, sql)
}

func (sp *savepointTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if sp.closed() {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	return sp.ownTx.Exec(ctx, sql, args...)
}

func (sp *savepointTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if sp.closed() {
		return errRows{pgx.ErrTxClosed}, pgx.ErrTxClosed
	}
	return sp.ownTx.Query(ctx, sql, args...)
}

func (sp *savepointTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if sp.closed() {
		return errRows{pgx.ErrTxClosed}
	}
	return sp.ownTx.QueryRow(ctx, sql, args...)
}

// errRows are the rows of a query on a transaction that has ended.
type errRows struct{ err error }

func (r errRows) Close()                                       {}
func (r errRows) Err() error                                   { return r.err }
func (r errRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r errRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r errRows) Next() bool                                   { return false }
func (r errRows) Scan(...any) error                            { return r.err }
func (r errRows) Values() ([]any, error)                       { return nil, r.err }
func (r errRows) RawValues() [][]byte                          { return nil }
func (r errRows) Conn() *pgx.Conn                              { return nil }
func (r errRows) TypeMap() *pgtype.Map                         { return nil }
