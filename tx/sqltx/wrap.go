package sqltx

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/tx"
)

// wrapped is what patterns see of a *sql.Tx, ours or anybody's.
type wrapped struct {
	d *driver
	t *sql.Tx
}

func (w wrapped) Dialect() *tx.Dialect { return w.d.dialect }

func (w wrapped) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return exec(ctx, w.t, w.d.rebind(query), args)
}

func (w wrapped) Query(ctx context.Context, query string, args ...any) (tx.Rows, error) {
	r, err := w.t.QueryContext(ctx, w.d.rebind(query), args...)
	if err != nil {
		return nil, err
	}
	return rows{Rows: r}, nil
}

func (w wrapped) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	return row{Row: w.t.QueryRowContext(ctx, w.d.rebind(query), args...)}
}

// Batch runs one statement after the other: database/sql cannot pipeline.
func (w wrapped) Batch(ctx context.Context, stmts ...*tx.Stmt) error {
	for _, s := range stmts {
		if err := w.run(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (w wrapped) run(ctx context.Context, s *tx.Stmt) error {
	if len(s.Dest) == 0 && !s.Returns() {
		n, err := w.Exec(ctx, s.SQL, s.Args...)
		if err != nil {
			return s.Refused(err)
		}
		return s.Settle(false, n)
	}
	// Drivers for SQLite count the rows of a RETURNING clause only if somebody reads them, so they are read here.
	found, n, err := w.read(ctx, s)
	if err != nil {
		return err
	}
	if n == 0 && s.MustAffect != nil && w.d.sqlite() {
		// There may be no RETURNING clause.
		if err := w.t.QueryRowContext(ctx, "select changes()").Scan(&n); err != nil {
			return err
		}
	}
	return s.Settle(found, n)
}

// read gives the rows to s and counts them all.
func (w wrapped) read(ctx context.Context, s *tx.Stmt) (found bool, n int64, err error) {
	r, err := w.t.QueryContext(ctx, w.d.rebind(s.SQL), s.Args...)
	if err != nil {
		return false, 0, err
	}
	defer func() { _ = r.Close() }()
	counted := counting{Rows: r}
	if found, err = s.Take(&counted); err != nil {
		return false, 0, err
	}
	for counted.Next() { // the rest is counted
		continue
	}
	return found, counted.n, r.Err()
}

// counting counts the rows that were read.
type counting struct {
	*sql.Rows
	n int64
}

func (c *counting) Next() bool {
	if !c.Rows.Next() {
		return false
	}
	c.n++
	return true
}

func exec(ctx context.Context, q querier, query string, args []any) (int64, error) {
	result, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
