package pgxtx

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/tx"
)

// batch is line for statements of which none is to be parsed under a name, at a fraction of what a pipeline of pgconn costs.
// It is not for COMMIT: when the writing of it fails, nobody knows whether anything was sent.
func (p *pipe) batch(ctx context.Context, conn *pgx.Conn, parsed *prepared, stmts []*tx.Stmt) (at int, err error) {
	b := &pgconn.Batch{}
	for i, s := range stmts {
		values, formats, err := parsed.encoder.encode(conn, s.Args)
		if err != nil {
			return i, unsentError{fmt.Errorf("%w: %w", errEncode, err)}
		}
		var results []int16
		if len(s.Dest) > 0 {
			results = allBinary
		}
		if known := parsed.known[key(s)]; known != nil {
			b.ExecStatement(known, values, formats, results)
		} else {
			b.ExecParams(text(s), values, nil, formats, results)
		}
	}
	parsed.encoder.release()
	replies := conn.PgConn().ExecBatch(ctx, b)
	for i, s := range stmts {
		if !replies.NextResult() {
			err = replies.Close()
		} else if _, err = take(conn, replies.ResultReader(), s); err != nil {
			_ = replies.Close()
		}
		if err != nil {
			if stale(err) {
				parsed.clear()
			}
			return i, s.Refused(err)
		}
	}
	return len(stmts) - 1, replies.Close()
}
