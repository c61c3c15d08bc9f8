package pgxtx

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/tx"
)

// trace shows a pipeline to the pool's batch tracer, as the batch that it is.
func (p *pipe) trace(ctx context.Context, conn *pgx.Conn, stmts []*tx.Stmt) (context.Context, func(at int, err error)) {
	if p.tracer == nil {
		return ctx, func(int, error) {}
	}
	b := &pgx.Batch{}
	for _, s := range stmts {
		b.Queue(s.SQL, s.Args...)
	}
	ctx = p.tracer.TraceBatchStart(ctx, conn, pgx.TraceBatchStartData{Batch: b})
	return ctx, func(at int, err error) {
		for i, s := range stmts {
			data := pgx.TraceBatchQueryData{SQL: s.SQL, Args: s.Args}
			if i == at {
				data.Err = err
			}
			p.tracer.TraceBatchQuery(ctx, conn, data)
			if data.Err != nil {
				break
			}
		}
		p.tracer.TraceBatchEnd(ctx, conn, pgx.TraceBatchEndData{Err: err})
	}
}
