package pessimistic

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// maxNames is how many advisory locks one call takes: PostgreSQL keeps them in memory, for all its sessions together.
const maxNames = 1 << 10

// Advisory locks names that need no row, until the end of t: in one round trip, each once, in one order. The lock is on 64
// bits of a digest of namespace and name: two names that share them, which takes billions, wait for each other without need.
// It returns an [*UnsupportedError] where the database has no advisory locks, and otherwise what [Locks.Lock] returns.
func (l *Locks[T]) Advisory(ctx context.Context, t T, namespace string, names ...string) error {
	ids, err := l.identify(namespace, names)
	if err != nil || len(ids) == 0 {
		return err
	}
	if l.o.Wait.kind == noWait || l.o.Wait.kind == skipLocked {
		begun := time.Now()
		ok, err := l.TryAdvisory(ctx, t, namespace, names...)
		if err == nil && !ok {
			return l.unavailable(ctx, namespace, begun, nil)
		}
		return err
	}
	begun := time.Now()
	stmt := &tx.Stmt{SQL: advisorySQL("pg_advisory_xact_lock", ids), Args: args(ids)}
	if err := l.run(ctx, t, namespace, l.around([]*tx.Stmt{stmt})); err != nil {
		return err
	}
	l.note(ctx, t, namespace)
	l.observe(ctx, EventLocked, namespace, len(names), time.Since(begun), nil)
	return nil
}

// TryAdvisory is [Locks.Advisory] that does not wait: it reports whether it got all the locks, and holds none of them
// otherwise. For more than one it takes a savepoint and a second round trip.
func (l *Locks[T]) TryAdvisory(ctx context.Context, t T, namespace string, names ...string) (bool, error) {
	ids, err := l.identify(namespace, names)
	if err != nil || len(ids) == 0 {
		return err == nil, err
	}
	begun, conn := time.Now(), l.db.Tx(t)
	try := &tx.Stmt{SQL: advisorySQL("pg_try_advisory_xact_lock", ids), Args: args(ids)}
	got := make([]bool, len(try.Args))
	for i := range got {
		try.Dest = append(try.Dest, &got[i])
	}
	waiting := *l
	waiting.o.Wait = Forever
	stmts := waiting.around([]*tx.Stmt{try})
	if len(ids) > 1 {
		stmts = append([]*tx.Stmt{{SQL: tx.SetSavepoint}}, stmts...)
	}
	if err := conn.Batch(ctx, stmts...); err != nil {
		return false, err
	}
	ok := !slices.Contains(got, false)
	switch {
	case len(ids) == 1 && ok:
	case len(ids) == 1:
		err = l.unhold(ctx, t)
	case ok:
		_, err = conn.Exec(ctx, tx.ReleaseSavepoint)
	default:
		err = l.back(ctx, t)
	}
	if ok && err == nil {
		l.note(ctx, t, namespace)
		l.observe(ctx, EventLocked, namespace, len(ids), time.Since(begun), nil)
	}
	return ok && err == nil, err
}

// identify returns the numbers of names, each once, in order.
func (l *Locks[T]) identify(namespace string, names []string) ([]int64, error) {
	if !l.can().AdvisoryLocks {
		return nil, &UnsupportedError{What: "advisory locks", Dialect: l.db.Dialect().Name}
	}
	if len(names) > maxNames {
		return nil, &InputError{Name: namespace, Reason: fmt.Sprintf("more than %d advisory locks in one call", maxNames)}
	}
	ids := make([]int64, len(names))
	for i, name := range names {
		ids[i] = AdvisoryID(namespace, name)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// AdvisoryID is the number that PostgreSQL locks for a name, in pg_locks the high half as classid and the low one as objid:
// the first 8 bytes of the SHA-256 of both, with the length of the first before it.
func AdvisoryID(namespace, name string) int64 {
	text := binary.BigEndian.AppendUint64(nil, uint64(len(namespace)))
	sum := sha256.Sum256(append(append(text, namespace...), name...))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// advisorySQL calls function for each number, in order.
func advisorySQL(function string, ids []int64) string {
	var b strings.Builder
	b.WriteString("select ")
	for i := range args(ids) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s($%d)", function, i+1)
	}
	return b.String()
}

// args are the numbers as arguments. A session may take a lock twice.
func args(ids []int64) []any {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return padded(args)
}
