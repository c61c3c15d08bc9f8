// Package optimistictest is the conformance suite of package optimistic: what [optimistic.Rows] promise, run against a database
// adapter. An adapter of another library passes it with one call of [Run].
package optimistictest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

// A rule is one promise.
type rule[T any] struct {
	name string
	text string // the promise, in one sentence
	test func(s *suite[T])
}

// Run checks every promise, each on a database that open makes for it, in parallel, and at each isolation level that the
// database has.
func Run[T any](t *testing.T, open func(t testing.TB) txtest.Backend[T]) {
	var rules []rule[T]
	rules = append(rules, guardRules[T]()...)
	rules = append(rules, foreignRules[T]()...)
	rules = append(rules, tokenRules[T]()...)
	rules = append(rules, raceRules[T]()...)
	rules = append(rules, batchRules[T]()...)
	rules = append(rules, updateRules[T]()...)
	rules = append(rules, editRules[T]()...)
	rules = append(rules, commitRules[T]()...)
	rules = append(rules, putRules[T]()...)
	rules = append(rules, edgeRules[T]()...)
	rules = append(rules, valueRules[T]()...)
	levels := []tx.Isolation{tx.DefaultIsolation}
	if open(t).DB.Dialect().Capabilities.IsolationLevels {
		levels = append(levels, tx.RepeatableRead, tx.Serializable)
	}
	for _, level := range levels {
		t.Run(strings.TrimSpace("level "+level.String()), func(t *testing.T) {
			for _, r := range rules {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					t.Cleanup(cancel)
					s := &suite[T]{T: t, Backend: open(t), ctx: ctx, level: level}
					s.DB = s.DB.With(tx.Options{Isolation: level, Attempts: 100})
					s.exec(createDoc)
					s.heard = &events{}
					s.docs = optimistic.New(s.DB, table, &optimistic.Options{Observer: s.heard})
					r.test(s)
					if t.Failed() {
						t.Logf("the rule: %s", r.text)
					}
				})
			}
		})
	}
}

const createDoc = `create table doc (id text primary key, title text not null default '', size bigint, version integer not null default 0, op text)`

var table = optimistic.Table{Name: "doc", Token: "op"}

// suite is what a rule works with.
type suite[T any] struct {
	*testing.T
	txtest.Backend[T]
	ctx   context.Context //nolint:containedctx // it is that of the test
	level tx.Isolation
	docs  *optimistic.Rows[T]
	heard *events
}

// snapshots reports whether transactions of ours see one snapshot only.
func (s *suite[T]) snapshots() bool { return s.level != tx.DefaultIsolation }

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

// make inserts a row behind the back of the package.
func (s *suite[T]) make(id string, version int64) {
	s.Helper()
	s.exec("insert into doc (id, title, version) values ($1, 'made', $2)", id, version)
}

// is checks the title and version of a row.
func (s *suite[T]) is(id, title string, version int64) {
	s.Helper()
	var gotTitle string
	var got optimistic.Version
	s.must(s.DB.Conn().QueryRow(s.ctx, "select title, version from doc where id = $1", id).Scan(&gotTitle, &got))
	if gotTitle != title || got != optimistic.At(version) {
		s.Fatalf("row %s is %q at version %v, want %q at %d", id, gotTitle, got, title, version)
	}
}

// conflict checks that err is a conflict with what it must say.
func (s *suite[T]) conflict(err error, expected, current optimistic.Version) {
	s.Helper()
	var c *optimistic.ConflictError
	if !errors.As(err, &c) || !errors.Is(err, optimistic.ErrConflict) {
		s.Fatalf("got %v, want a conflict", err)
	}
	if c.Expected != expected || c.Current != current || c.Table != "doc" || holdfast.OutcomeOf(err) != holdfast.NotApplied {
		s.Fatalf("got %+v, %v, want %v, %v", c, holdfast.OutcomeOf(err), expected, current)
	}
}

func (s *suite[T]) version(got optimistic.Version, err error) func(want int64) {
	return func(want int64) {
		s.Helper()
		s.must(err)
		if got != optimistic.At(want) {
			s.Fatalf("got version %v, want %d", got, want)
		}
	}
}

func (s *suite[T]) begin() txtest.Foreign[T] {
	s.Helper()
	f, err := s.Begin(s.ctx)
	s.must(err)
	s.Cleanup(func() { _ = f.Rollback(context.Background()) }) // a rule that fails meanwhile must not hang
	return f
}

func at(id string, n int64) optimistic.Want {
	return optimistic.Want{Key: id, Version: optimistic.At(n)}
}

func title(text string) map[string]any { return map[string]any{"title": text} }

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

// count returns how many events of a kind there were.
func (e *events) count(kind holdfast.EventKind) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.list {
		if event.Kind == kind {
			n++
		}
	}
	return n
}

// kinds returns the kinds in order, and fails unless each event carries the correlation ID and the table.
func (e *events) kinds(t testing.TB, id string) string {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	text := ""
	for _, event := range e.list {
		if event.CorrelationID != id || event.Name != "doc" || event.Key == "" {
			t.Errorf("event %+v, want the correlation ID %q", event, id)
		}
		text += fmt.Sprintf("%s ", event.Kind)
	}
	e.list = nil
	return text
}
