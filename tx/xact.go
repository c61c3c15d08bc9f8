package tx

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/jitter"
)

// A xact is what PostgreSQL knows a transaction by, and which run of which server gave it that number. After a crash the
// numbers whose transactions left nothing on the disk are given out again.
type xact struct {
	id      int64
	started int64 // when the server started, in microseconds
	began   int64 // when the transaction began, by the server's clock
}

// micros is the moment t in microseconds.
func micros(t string) string { return "(extract(epoch from " + t + ") * 1000000)::bigint" }

var (
	xactSQL = "select pg_current_xact_id()::text::bigint, " + micros("pg_postmaster_start_time()") + ", " + micros("now()")

	// A crash of one process makes the server start over without a new start time, but not without new statistics.
	xactStatusSQL = "select case when pg_is_in_recovery() then 'standby' when " + micros("pg_postmaster_start_time()") +
		" <> $2::bigint or " + micros("pg_stat_get_bgwriter_stat_reset_time()") +
		" >= $3::bigint then 'restarted' else coalesce(pg_xact_status($1::bigint::text::xid8), 'forgotten') end"
)

// lead is the statement that asks for x. Its reply must have come before COMMIT is sent.
func (x *xact) lead() *Stmt { return &Stmt{SQL: xactSQL, Dest: []any{&x.id, &x.started, &x.began}} }

// Why the status of a transaction does not tell what became of it.
var (
	errInProgress = errors.New("tx: the server has not ended the transaction yet")
	errStandby    = errors.New("tx: the server that answers is a standby: connect to the primary")
	errRestarted  = errors.New("tx: the server has restarted, or another took its place: only what the transaction wrote can tell")
	errForgotten  = errors.New("tx: the server no longer knows the transaction")
)

// status asks what became of x until it has ended, or until ctx ends.
func (db *DB[T]) status(ctx context.Context, x *xact) (holdfast.Outcome, error) {
	var last error
	for try := 1; ; try++ {
		var status string
		err := db.Conn().QueryRow(ctx, xactStatusSQL, x.id, x.started, x.began).Scan(&status)
		if err == nil {
			switch status {
			case "committed":
				return holdfast.Applied, nil
			case "aborted":
				return holdfast.NotApplied, nil
			case "standby":
				return holdfast.Unknown, errStandby
			case "restarted":
				return holdfast.Unknown, errRestarted
			case "forgotten":
				return holdfast.Unknown, errForgotten
			}
			err = errInProgress
		} else if class := db.Classify(err); class != Lost && class != NotSent {
			if ctx.Err() != nil && last != nil {
				err = last
			}
			return holdfast.Unknown, err
		}
		last = err
		timer := time.NewTimer(jitter.Full(2*time.Millisecond, 100*time.Millisecond, try))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return holdfast.Unknown, last
		}
	}
}
