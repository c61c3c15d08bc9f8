package pessimistic

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

// A Pinned is one connection to PostgreSQL that nobody else uses meanwhile, such as a *pgx.Conn, or what [Pin] makes of a
// *sql.Conn. R is what its QueryRow returns.
type Pinned[R tx.Row] interface {
	QueryRow(ctx context.Context, query string, args ...any) R
	// Close closes the connection to the server. It does not go back to a pool.
	Close(ctx context.Context) error
}

// A Session holds advisory locks on a connection, over any number of transactions. Prefer [Locks.Advisory], which cannot be
// left behind. A Session is for one goroutine at a time, and so is its connection. [Guard] knows nothing of it. A connection
// that came from a pool must not go back before Unlock, which is to be deferred: the pool would hand it out with the locks.
type Session struct {
	row   func(ctx context.Context, query string, dest []any, args ...any) error
	close func(ctx context.Context) error
	ids   []int64
	pid   int32
}

// LockSession locks names, as [Locks.Advisory] does, until [Session.Unlock] or the end of the connection, and waits for as
// long as ctx allows. The connection must not be in a transaction.
//
// Behind a pooler that hands out another server connection for each transaction the lock would be lost, and left to a
// stranger. So two statements first ask for the server process and for a setting that the first one made: if they do not
// agree the result is [ErrPooled]. A pooler that happens to give the same server connection to all of them, as an idle one
// does, is not found out then; Unlock looks again. On any error the connection is closed.
func LockSession[R tx.Row](ctx context.Context, conn Pinned[R], namespace string, names ...string) (*Session, error) {
	s := &Session{close: conn.Close}
	s.row = func(ctx context.Context, query string, dest []any, args ...any) error {
		return conn.QueryRow(ctx, query, args...).Scan(dest...)
	}
	if len(names) == 0 || len(names) > maxNames {
		return nil, s.abandon(ctx, &InputError{Name: namespace, Reason: fmt.Sprintf("a session locks 1 to %d names", maxNames)})
	}
	for _, name := range names {
		s.ids = append(s.ids, AdvisoryID(namespace, name))
	}
	slices.Sort(s.ids)
	s.ids = slices.Compact(s.ids)
	if err := s.probe(ctx, namespace); err != nil {
		return nil, s.abandon(ctx, err)
	}
	got := make([]string, len(s.ids))
	if err := s.each(ctx, "pg_advisory_lock", got); err != nil {
		return nil, s.abandon(ctx, err)
	}
	return s, nil
}

const (
	markSQL = `select pg_backend_pid(), set_config('holdfast.session', $1, false), now()::text`

	markedSQL = `select pg_backend_pid(), coalesce(current_setting('holdfast.session', true), ''), now()::text`
)

// probe finds out whether two transactions of the connection are on one server connection.
func (s *Session) probe(ctx context.Context, namespace string) error {
	var pid int32
	var marker, set, begun, now string
	marker = rand.Text()
	if err := s.row(ctx, markSQL, []any{&s.pid, &set, &begun}, marker); err != nil {
		return err
	}
	if err := s.row(ctx, markedSQL, []any{&pid, &set, &now}); err != nil {
		return err
	}
	switch {
	case pid != s.pid || set != marker:
		return ErrPooled
	case begun == now:
		return &InputError{Name: namespace, Reason: "the connection is in a transaction: lock with Locks.Advisory there"}
	}
	return nil
}

// each calls function for each number, and fails if another process than that of the session has answered.
func (s *Session) each(ctx context.Context, function string, got []string) error {
	var b strings.Builder
	dest := make([]any, 0, len(s.ids)+1)
	args := make([]any, len(s.ids))
	for i, id := range s.ids {
		fmt.Fprintf(&b, "%s($%d)::text, ", function, i+1)
		dest, args[i] = append(dest, &got[i]), id
	}
	var pid int32
	if err := s.row(ctx, "select "+b.String()+"pg_backend_pid()", append(dest, &pid), args...); err != nil {
		return err
	}
	if pid != s.pid {
		return ErrPooled
	}
	return nil
}

// Unlock releases the locks, and leaves the connection to its owner if the server says that they were held. Otherwise, and
// on every error, it closes the connection, which releases whatever is left, and returns [ErrNotHeld], [ErrPooled] or the
// error of the connection.
func (s *Session) Unlock(ctx context.Context) error {
	got := make([]string, len(s.ids))
	err := s.each(ctx, "pg_advisory_unlock", got)
	if err == nil && slices.ContainsFunc(got, func(held string) bool { return held != "true" }) {
		err = ErrNotHeld
	}
	if err != nil {
		return s.abandon(ctx, err)
	}
	return nil
}

// abandon closes the connection. ctx may have ended.
func (s *Session) abandon(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTimeout)
	defer cancel()
	_ = s.close(ctx)
	return err
}

// Pin makes a [Pinned] of a connection of database/sql. Its Close takes the connection out of the pool.
func Pin(conn *sql.Conn) Pinned[*sql.Row] { return pinned{conn} }

type pinned struct{ conn *sql.Conn }

func (p pinned) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return p.conn.QueryRowContext(ctx, query, args...)
}

func (p pinned) Close(context.Context) error {
	if err := p.conn.Raw(func(any) error { return driver.ErrBadConn }); !errors.Is(err, driver.ErrBadConn) {
		return err
	}
	return nil
}
