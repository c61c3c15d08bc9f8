package pgxtx

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/tx"
)

const rollbackTimeout = 5 * time.Second

// errEncode marks an error of an argument.
var errEncode = errors.New("pgxtx: cannot encode an argument")

// An unsentError is one that came before anything of the last statement was sent. Of the errors that come later none
// proves that: pgx says of a connection which it has closed that it is safe to retry, whatever was under way.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// A pipe sends statements as one pipeline: one flush, one Sync, one round trip. It is pgx's SendBatch but for two things.
// A statement that is new to the connection is parsed in the same round trip that runs it, so that a cold connection
// costs no extra one. And an error does not make pgx forget its cached statements.
type pipe struct {
	mode     pgx.QueryExecMode
	capacity int
	tracer   pgx.BatchTracer
}

// run runs stmts in order and returns the index of the one that failed.
func (p *pipe) run(ctx context.Context, conn *pgx.Conn, stmts []*tx.Stmt) (at int, err error) {
	ctx, done := p.trace(ctx, conn, stmts)
	defer func() { done(at, err) }()
	parsed := preparedOn(conn, p)
	if p.mode != pgx.QueryExecModeSimpleProtocol && parsed.knows(stmts) {
		return p.batch(ctx, conn, parsed, stmts)
	}
	_, at, err = p.line(ctx, conn, parsed, stmts)
	return at, err
}

// commit is run for a pipeline whose last statement is COMMIT. It returns the command tag of the last statement, since a
// COMMIT can succeed as ROLLBACK.
func (p *pipe) commit(ctx context.Context, conn *pgx.Conn, stmts []*tx.Stmt) (tag string, at int, err error) {
	ctx, done := p.trace(ctx, conn, stmts)
	defer func() { done(at, err) }()
	return p.line(ctx, conn, preparedOn(conn, p), stmts)
}

// line runs stmts as a pipeline of pgconn.
func (p *pipe) line(ctx context.Context, conn *pgx.Conn, parsed *prepared, stmts []*tx.Stmt) (tag string, at int, err error) {
	if p.mode == pgx.QueryExecModeSimpleProtocol {
		return oneByOne(ctx, conn, stmts)
	}
	line := conn.PgConn().StartPipeline(ctx)
	fresh := make([]bool, len(stmts))
	for i, s := range stmts {
		if fresh[i], err = p.send(line, conn, parsed, s, len(stmts) == 1); err != nil {
			parsed.forget(stmts[:i+1], fresh)
			_ = line.Close() // closes the connection, which holds half a pipeline
			return "", i, unsentError{fmt.Errorf("%w: %w", errEncode, err)}
		}
	}
	parsed.encoder.release()
	if err := line.Sync(); err != nil {
		parsed.forget(stmts, fresh)
		if pgconn.SafeToRetry(err) {
			err = unsentError{err}
		}
		return "", 0, err
	}
	for i, s := range stmts {
		if tag, err = receive(line, conn, parsed, s, &fresh[i]); err != nil {
			parsed.forget(stmts[i:], fresh[i:])
			if stale(err) {
				parsed.clear()
			}
			_ = line.Close()
			return "", i, s.Refused(err)
		}
	}
	return tag, len(stmts) - 1, line.Close()
}

// send puts s into the pipeline, and its parsing if it is new to the connection.
func (p *pipe) send(line *pgconn.Pipeline, conn *pgx.Conn, parsed *prepared, s *tx.Stmt, alone bool) (fresh bool, err error) {
	values, formats, err := parsed.encoder.encode(conn, s.Args)
	if err != nil {
		return false, err
	}
	var results []int16
	if len(s.Dest) > 0 {
		results = allBinary
	}
	var known *pgconn.StatementDescription
	if parsed.lasting(s, alone) {
		known, fresh = parsed.find(s)
	}
	switch {
	case known == nil:
		line.SendQueryParams(text(s), values, nil, formats, results)
	case fresh:
		line.SendPrepare(known.Name, text(s), nil)
		line.SendQueryPrepared(known.Name, values, formats, results)
	default:
		line.SendQueryStatement(known, values, formats, results) // without asking what its rows look like
	}
	return fresh, nil
}

// text returns the SQL of s. A statement that must affect a row is made to fail when it affects none, so that the server
// does not go on to the COMMIT behind it.
func text(s *tx.Stmt) string {
	if !s.Returns() {
		return s.SQL
	}
	return "with affected as (" + s.SQL + ") select 1/count(*) from affected"
}

func stale(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "26000" || pgErr.Code == "0A000")
}

// receive reads the replies to one statement.
func receive(line *pgconn.Pipeline, conn *pgx.Conn, parsed *prepared, s *tx.Stmt, fresh *bool) (tag string, err error) {
	if *fresh {
		described, err := line.GetResults()
		if err != nil {
			return "", err
		}
		if d, ok := described.(*pgconn.StatementDescription); ok {
			parsed.learn(s, d)
		}
		*fresh = false // the server knows it now, whatever becomes of its execution
	}
	result, err := line.GetResults()
	if err != nil {
		return "", err
	}
	reader, ok := result.(*pgconn.ResultReader)
	if !ok {
		return "", fmt.Errorf("pgxtx: the reply to %q is a %T", s.SQL, result)
	}
	return take(conn, reader, s)
}

// take takes what a statement returned.
func take(conn *pgx.Conn, reader *pgconn.ResultReader, s *tx.Stmt) (tag string, err error) {
	found := false
	if len(s.Dest) > 0 {
		found, err = s.Take(reply{reader, conn.TypeMap()})
	}
	ct, closeErr := reader.Close()
	if closeErr != nil {
		return "", closeErr
	}
	if err != nil {
		return "", err
	}
	return ct.String(), s.Settle(found, ct.RowsAffected())
}

// A reply is the rows of one statement, without what those of pgx keep from row to row: most have one.
type reply struct {
	*pgconn.ResultReader
	types *pgtype.Map
}

func (r reply) Next() bool { return r.NextRow() }

func (r reply) Scan(dest ...any) error {
	return pgx.ScanRow(r.types, r.FieldDescriptions(), r.Values(), dest...)
}

// settle gives the rows to s and stores their count.
func settle(rows pgx.Rows, s *tx.Stmt) (tag string, err error) {
	found, err := s.Take(rows)
	rows.Close()
	if rowsErr := rows.Err(); rowsErr != nil {
		return "", rowsErr
	}
	if err != nil {
		return "", err
	}
	ct := rows.CommandTag()
	return ct.String(), s.Settle(found, ct.RowsAffected())
}

// oneByOne does without a pipeline: simple protocol mode has none.
func oneByOne(ctx context.Context, q querier, stmts []*tx.Stmt) (tag string, at int, err error) {
	last := len(stmts) - 1
	for i, s := range stmts {
		if err := context.Cause(ctx); err != nil {
			return "", i, unsentError{err}
		}
		rows, err := q.Query(ctx, text(s), s.Args...)
		if err == nil {
			tag, err = settle(rows, s)
		}
		if err != nil && i < last {
			err = unsentError{err}
		}
		if err != nil {
			return "", i, s.Refused(err)
		}
	}
	return tag, last, nil
}

// querier is a *pgx.Conn or a pgx.Tx.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}
