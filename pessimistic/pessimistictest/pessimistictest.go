// Package pessimistictest is the conformance suite of package pessimistic: what its locks promise, run against a database
// adapter. An adapter of another library passes it with one call of [Run].
package pessimistictest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

// A rule is one promise.
type rule[T any] struct {
	name  string
	text  string                     // the promise, in one sentence
	needs func(tx.Capabilities) bool // nil: every engine keeps it
	test  func(s *suite[T])
}

func rowLocks(c tx.Capabilities) bool   { return c.RowLocks }
func noRowLocks(c tx.Capabilities) bool { return !c.RowLocks }

// Run checks every promise at every isolation level, each on a database that open makes for it, in parallel.
func Run[T any](t *testing.T, open func(t testing.TB) txtest.Backend[T]) {
	probe := open(t)
	levels := []tx.Isolation{tx.DefaultIsolation}
	if probe.DB.Dialect().Capabilities.IsolationLevels {
		levels = []tx.Isolation{tx.ReadCommitted, tx.RepeatableRead, tx.Serializable}
	}
	var rules []rule[T]
	rules = append(rules, lockRules[T]()...)
	rules = append(rules, waitRules[T]()...)
	rules = append(rules, claimRules[T]()...)
	rules = append(rules, advisoryRules[T]()...)
	rules = append(rules, scopeRules[T]()...)
	rules = append(rules, edgeRules[T]()...)
	rules = append(rules, swallowRules[T]()...)
	rules = append(rules, budgetRules[T]()...)
	rules = append(rules, keyRules[T]()...)
	rules = append(rules, stormRules[T]()...)
	for _, level := range levels {
		for _, r := range rules {
			if r.needs != nil && !r.needs(probe.DB.Dialect().Capabilities) {
				continue
			}
			t.Run(fmt.Sprintf("%v/%s", level, r.name), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				t.Cleanup(cancel)
				s := &suite[T]{T: t, Backend: open(t), open: open, ctx: ctx, level: level}
				s.DB = s.DB.With(tx.Options{Isolation: level})
				s.prepare()
				r.test(s)
				if t.Failed() {
					t.Logf("the rule: %s", r.text)
				}
			})
		}
	}
}

// suite is what a rule works with.
type suite[T any] struct {
	*testing.T
	txtest.Backend[T]
	open  func(t testing.TB) txtest.Backend[T]
	ctx   context.Context //nolint:containedctx // it is that of the test
	level tx.Isolation
}

var (
	accounts = pessimistic.Table{Name: "account"}
	stocks   = pessimistic.Table{Name: `st"ock`, Key: `the "key"`}
	jobs     = pessimistic.Queue{Table: pessimistic.Table{Name: "job"}, Where: "state = $1", Args: []any{"ready"}}
)

const rows = 10 // in each table

func (s *suite[T]) prepare() {
	s.Helper()
	s.exec("create table account (id bigint primary key, balance bigint not null)")
	s.exec(`create table "st""ock" ("the ""key""" varchar(20) primary key, n integer not null)`)
	s.exec("create table job (id bigint primary key, state varchar(20) not null)")
	for i := 1; i <= rows; i++ {
		s.exec("insert into account (id, balance) values ($1, 100)", i)
		s.exec(`insert into "st""ock" values ($1, 5)`, fmt.Sprintf("s%d", i))
		s.exec("insert into job values ($1, 'ready')", i)
	}
}

func (s *suite[T]) locks(o pessimistic.Options) *pessimistic.Locks[T] {
	return pessimistic.New(s.DB, &o)
}

func (s *suite[T]) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite[T]) want(err, target error) {
	s.Helper()
	if !errors.Is(err, target) {
		s.Fatalf("got error %v, want %v", err, target)
	}
}

func (s *suite[T]) exec(query string, args ...any) {
	s.Helper()
	if _, err := s.DB.Conn().Exec(s.ctx, query, args...); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
}

// number asks outside every transaction of the test.
func (s *suite[T]) number(query string, args ...any) (n int64) {
	s.Helper()
	s.must(s.DB.Conn().QueryRow(s.ctx, query, args...).Scan(&n))
	return n
}

// begin begins a transaction of the caller's, at the level of the suite.
func (s *suite[T]) begin() txtest.Foreign[T] {
	s.Helper()
	f, err := s.Begin(s.ctx)
	s.must(err)
	s.Cleanup(func() { _ = f.Rollback(context.Background()) }) // a rule that fails meanwhile must not hang
	if s.level != tx.DefaultIsolation {
		_, err := s.DB.Tx(f.Tx).Exec(s.ctx, "set transaction isolation level "+s.level.String())
		s.must(err)
	}
	return f
}

// usable fails unless the transaction takes statements.
func (s *suite[T]) usable(t T) {
	s.Helper()
	var n int
	s.must(s.DB.Tx(t).QueryRow(s.ctx, "select 1").Scan(&n))
}

// free reports whether somebody else could lock the rows now.
func (s *suite[T]) free(rows ...pessimistic.Rows) bool {
	s.Helper()
	f := s.begin()
	err := s.locks(pessimistic.Options{Wait: pessimistic.NoWait}).Lock(s.ctx, f.Tx, rows...)
	if err != nil && !errors.Is(err, pessimistic.ErrNotAvailable) {
		s.Fatal(err)
	}
	s.must(f.Rollback(s.ctx))
	return err == nil
}

func (s *suite[T]) wantFree(want bool, rows ...pessimistic.Rows) {
	s.Helper()
	if got := s.free(rows...); got != want {
		s.Fatalf("%+v are free: %v, want %v", rows, got, want)
	}
}

// pid is that of the server process of a transaction.
func (s *suite[T]) pid(t T) (pid int32) {
	s.Helper()
	s.must(s.DB.Tx(t).QueryRow(s.ctx, "select pg_backend_pid()").Scan(&pid))
	return pid
}

// waits returns once the server process waits for a lock.
func (s *suite[T]) waits(pid int32) {
	s.Helper()
	for s.number("select count(*) from pg_locks where pid = $1 and not granted", pid) == 0 {
		s.must(s.ctx.Err())
	}
}

// events is an observer that keeps what it is told.
type events struct {
	mu   sync.Mutex // guards list
	list []holdfast.Event
}

func (e *events) Observe(_ context.Context, event holdfast.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
}

// take returns the events so far, as "kind name count", and fails unless each carries the correlation ID.
func (e *events) take(t testing.TB, id string) (text string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.list {
		if event.CorrelationID != id {
			t.Errorf("event %s has the correlation ID %q, want %q", event.Kind, event.CorrelationID, id)
		}
		text += fmt.Sprintf("%s %s %d; ", event.Kind, event.Name, event.Count)
	}
	e.list = nil
	return text
}
