package pessimistic

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// A Queue is a table of jobs. A worker claims some of those that wait by locking them, and changes or deletes them in the
// same transaction; if it dies they are free again.
type Queue struct {
	// Table is where the jobs are.
	Table Table
	// Where is the condition of a job that waits, as SQL with the placeholders $1, $2, … of Args: text of the program, never
	// of its users. Default: every row.
	Where string
	// Args are the arguments of Where.
	Args []any
	// Order is the order of the jobs, as SQL. Default: the key.
	Order string
	// Limit is how many jobs one claim takes at most. Default: 1.
	Limit int

	read reading
}

// Read returns the queue with columns that are read with the claim: for each job, in order, they are scanned into dest, and
// each is called with the number of the job, from 0. The transaction may run again, so what each collects begins anew with
// job 0.
func (q Queue) Read(columns []string, dest []any, each func(row int) error) Queue {
	q.read = reading{columns, dest, each}
	return q
}

// Claim locks jobs of q that nobody else has claimed, in t, and returns how many: 0 when there is nothing to do. Nobody is
// waited for. The claim lasts as long as the transaction. It can be less than the limit while jobs are left, when others
// finish theirs in that moment.
//
// At REPEATABLE READ and SERIALIZABLE a job that was done since the transaction began is a serialization failure. On SQLite
// the one writer claims: another worker's Claim waits for its commit, as long as the busy timeout says.
func (l *Locks[T]) Claim(ctx context.Context, t T, q Queue) (int, error) {
	if err := l.checkQueue(q); err != nil {
		return 0, err
	}
	begun := time.Now()
	claim, stmts := l.claim(q)
	if err := l.db.Tx(t).Batch(ctx, stmts...); err != nil {
		return 0, err
	}
	if n := l.claimed(ctx, t, q, claim, begun); n > 0 {
		return n, nil
	}
	return 0, l.unhold(ctx, t)
}

// Work claims jobs and calls fn in a transaction of its own, as [Locks.Do] does, and returns how many it claimed. The claim
// rides with BEGIN on pgx. fn is not called if there is nothing to do.
func (l *Locks[T]) Work(ctx context.Context, q Queue, fn func(ctx context.Context, t T) error) (n int, err error) {
	if fn == nil {
		return 0, refused(tx.ErrNilFunc)
	}
	if err := l.checkQueue(q); err != nil {
		return 0, refused(err)
	}
	var claim *tx.Stmt
	var begun time.Time
	err = l.begin(ctx, attempt[T]{
		name: func() string { return q.Table.Name },
		lead: func() (stmts []*tx.Stmt) {
			begun = time.Now()
			claim, stmts = l.claim(q)
			return stmts
		},
		work: func(ctx context.Context, t T) error {
			if n = l.claimed(ctx, t, q, claim, begun); n == 0 {
				return tx.ErrDiscard
			}
			return l.within(ctx, t, q.Table.Name, fn)
		},
	})
	if err != nil {
		n = 0
	}
	return n, err
}

func (l *Locks[T]) checkQueue(q Queue) error {
	if err := q.Table.check(q.read.columns...); err != nil {
		return err
	}
	if q.Limit < 0 {
		return &InputError{Name: q.Table.Name, Reason: "Limit is negative"}
	}
	return q.read.check(q.Table.Name)
}

// claim returns the statement that claims, and all that go with it.
func (l *Locks[T]) claim(q Queue) (claim *tx.Stmt, stmts []*tx.Stmt) {
	claimer := *l
	claimer.o.Wait = SkipLocked
	if s := claimer.o.Strength; s == Share || s == KeyShare { // two may share a row, and not a job
		claimer.o.Strength = NoKeyUpdate
	}
	claim = &tx.Stmt{SQL: claimer.claimSQL(q), Args: slices.Clone(q.Args)}
	claim.Dest, claim.Each = q.read.dest, q.read.rows()
	if len(claim.Dest) == 0 {
		claim.Dest = []any{new(int64)}
	}
	if !l.can().RowLocks {
		stmts = append(stmts, l.writer(q.Table))
	}
	return claim, claimer.around(append(stmts, claim))
}

func (l *Locks[T]) claimSQL(q Queue) string {
	d := l.db.Dialect()
	columns := make([]string, len(q.read.columns))
	for i, c := range q.read.columns {
		columns[i] = q.Table.column(d, c)
	}
	if len(columns) == 0 {
		columns = []string{"1"}
	}
	query := "select " + strings.Join(columns, ", ") + " from " + d.Table(q.Table.Schema, q.Table.Name)
	if q.Where != "" {
		query += " where (" + q.Where + ")"
	}
	order := q.Order
	if order == "" {
		order = q.Table.column(d, q.Table.key())
	}
	// The limit is no parameter: a placeholder too many in Where would take it.
	return query + " order by " + order + " limit " + strconv.Itoa(max(1, q.Limit)) + l.lockClause(SkipLocked)
}

func (l *Locks[T]) claimed(ctx context.Context, t T, q Queue, claim *tx.Stmt, begun time.Time) int {
	n := int(claim.Affected)
	if n > 0 {
		l.note(ctx, t, q.Table.Name)
		l.observe(ctx, EventClaimed, q.Table.Name, n, time.Since(begun), nil)
	}
	return n
}
