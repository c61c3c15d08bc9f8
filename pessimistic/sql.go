package pessimistic

import (
	"context"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

// lockSQL locks rows by key in the order of the database. n is the number of parameters.
func (l *Locks[T]) lockSQL(t Table, columns []string, n int) string {
	d := l.db.Dialect()
	key := t.column(d, t.key())
	var b strings.Builder
	b.WriteString("select ")
	b.WriteString(key)
	for _, c := range columns {
		b.WriteString(", ")
		b.WriteString(t.column(d, c))
	}
	b.WriteString(" from ")
	b.WriteString(d.Table(t.Schema, t.Name))
	b.WriteString(" where ")
	b.WriteString(key)
	b.WriteString(" in (")
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(i + 1))
	}
	b.WriteString(") order by ")
	b.WriteString(key)
	b.WriteString(l.lockClause(l.o.Wait))
	return b.String()
}

func (l *Locks[T]) lockClause(w Wait) string {
	if !l.can().RowLocks {
		return ""
	}
	return " for " + l.o.Strength.String() + w.clause()
}

// padded repeats the last key up to a power of two, so that statement caches hold a few texts and not one for each number.
func padded(keys []any) []any {
	n := 1
	for n < len(keys) {
		n *= 2
	}
	out := append(make([]any, 0, n), keys...)
	for len(out) < n {
		out = append(out, keys[len(keys)-1])
	}
	return out
}

// writer takes SQLite's one write lock, which a transaction that began deferred does not have: a statement that could
// write asks for it, whether it finds a row or not.
func (l *Locks[T]) writer(t Table) *tx.Stmt {
	return &tx.Stmt{SQL: "delete from " + l.db.Dialect().Table(t.Schema, t.Name) + " where false"}
}

// The wait for one lock is a setting of PostgreSQL. What it was is kept beside it, in a setting of ours, and put back in the
// same round trip: the caller's own statements wait as before.
const (
	setLockTimeout = `select set_config('holdfast.lock_timeout', current_setting('lock_timeout'), true), set_config('lock_timeout', $1, true)`

	restoreLockTimeout = `select set_config('lock_timeout', current_setting('holdfast.lock_timeout'), true)`
)

// holdSQL limits what follows in the transaction. Only a stricter setting than the one that is there is set. What it was is kept
// as the lock timeout is, for a call that turns out to have locked nothing.
const (
	holdSQL = `select set_config('holdfast.' || s.name, current_setting(s.name, true), true),
	case when current_setting(s.name, true)::interval = interval '0' or current_setting(s.name, true)::interval > $1::text::interval
	then set_config(s.name, $1::text, true) end` + holdSettings

	unholdSQL = `select set_config(s.name, current_setting('holdfast.' || s.name), true)` + holdSettings

	holdSettings = ` from (values ('transaction_timeout', true), ('idle_in_transaction_session_timeout', false), ('statement_timeout', false))
	s (name, recent) where s.recent = (current_setting('server_version_num')::integer >= 170000)`
)

// around returns stmts with the settings that they need before them and after them.
func (l *Locks[T]) around(stmts []*tx.Stmt) []*tx.Stmt {
	if !l.can().RowLocks {
		return stmts
	}
	if w := l.o.Wait; w.kind == limited {
		stmts = append([]*tx.Stmt{{SQL: setLockTimeout, Args: []any{milliseconds(w.limit)}}}, stmts...)
		stmts = append(stmts, &tx.Stmt{SQL: restoreLockTimeout})
	}
	if l.o.Hold > 0 { // last: the wait is not the hold
		stmts = append(stmts, &tx.Stmt{SQL: holdSQL, Args: []any{milliseconds(l.o.Hold)}})
	}
	return stmts
}

// unhold takes back the limit of a call that locked nothing in t.
func (l *Locks[T]) unhold(ctx context.Context, t T) error {
	if l.o.Hold <= 0 || !l.can().RowLocks {
		return nil
	}
	_, err := l.db.Tx(t).Exec(ctx, unholdSQL)
	return err
}
