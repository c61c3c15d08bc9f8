package pessimistic

import (
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// A request is one call for locks, as one attempt makes it.
type request struct {
	parts []*part
	stmts []*tx.Stmt // with the settings around them
	begun time.Time
}

// A part is what a request wants of one table.
type part struct {
	table Table
	keys  []any
	got   map[any]bool
}

// request makes the statements of an attempt.
func (l *Locks[T]) request(rows []Rows) (*request, error) {
	q := &request{begun: time.Now()}
	var stmts []*tx.Stmt
	for _, r := range rows {
		keys, err := r.distinct()
		if err != nil {
			return nil, err
		}
		if !l.can().RowLocks {
			stmts = append(stmts, l.writer(r.table))
		}
		p := &part{table: r.table, keys: keys, got: make(map[any]bool, len(keys))}
		q.parts = append(q.parts, p)
		args := padded(keys)
		key, each := reflect.New(reflect.TypeOf(keys[0])), r.read.rows()
		stmts = append(stmts, &tx.Stmt{
			SQL:  l.lockSQL(r.table, r.read.columns, len(args)),
			Args: args,
			Dest: append([]any{key.Interface()}, r.read.dest...),
			Each: func() error {
				value, err := valueOf(key.Elem().Interface())
				if err != nil {
					return err
				}
				p.got[identity(value)] = true
				return each()
			},
		})
	}
	q.stmts = l.around(stmts)
	return q, nil
}

// name is what the tables of a request are called in errors.
func (q *request) name() string {
	names := make([]string, len(q.parts))
	for i, p := range q.parts {
		names[i] = p.table.Name
	}
	return strings.Join(names, ", ")
}

// locked notes what a request locked, tells of it, and returns a [*MissingError] for what is not there.
func (l *Locks[T]) locked(ctx context.Context, t T, q *request) error {
	took, held := time.Since(q.begun), 0
	for _, p := range q.parts {
		if held += len(p.got); len(p.got) > 0 {
			l.note(ctx, t, p.table.Name)
		}
		l.observe(ctx, EventLocked, p.table.Name, len(p.got), took, nil)
	}
	if held == 0 {
		if err := l.unhold(ctx, t); err != nil {
			return err
		}
	}
	if l.o.Wait == SkipLocked {
		return nil
	}
	for _, p := range q.parts {
		if err := l.missing(ctx, t, p); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether the row of a key is locked. Keys without a value are refused before.
func (p *part) has(key any) bool {
	value, err := valueOf(key)
	return err == nil && p.got[identity(value)]
}

// missing compares what was locked with what was asked for. Two keys can be one to the database, of a column that ignores
// case for instance, so it is asked about those that did not come back as they were given.
func (l *Locks[T]) missing(ctx context.Context, t T, p *part) error {
	if len(p.got) == len(p.keys) {
		return nil
	}
	d := l.db.Dialect()
	key := p.table.column(d, p.table.key())
	query := "select " + key + " from " + d.Table(p.table.Schema, p.table.Name) + " where " + key + " = $1"
	var doubtful, missing []any
	var stmts []*tx.Stmt
	var found []reflect.Value
	for _, k := range p.keys {
		if !p.has(k) {
			v := reflect.New(reflect.TypeOf(k))
			doubtful, found = append(doubtful, k), append(found, v)
			stmts = append(stmts, &tx.Stmt{SQL: query, Args: []any{k}, Dest: []any{v.Interface()}})
		}
	}
	if err := l.db.Tx(t).Batch(ctx, stmts...); err != nil {
		return err
	}
	for i, k := range doubtful {
		// One that has come meanwhile is not locked, and was missing.
		if !stmts[i].Found || !p.has(found[i].Elem().Interface()) {
			missing = append(missing, k)
		}
	}
	if missing == nil {
		return nil
	}
	return &MissingError{Table: p.table.Name, Keys: missing}
}
