// Package countertest is the conformance suite of package counter: what [counter.Counters] promise, run against a database
// adapter. An adapter of another library passes it with one call of [Run].
package countertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

// A rule is one promise.
type rule[T any] struct {
	name string
	text string // the promise, in one sentence
	test func(s *suite[T])
}

// Run checks every promise, each on a database that open makes for it, in parallel: on a table of ours and on a column, and
// at each isolation level that the database has.
func Run[T any](t *testing.T, open func(t testing.TB) txtest.Backend[T]) {
	var rules []rule[T]
	rules = append(rules, countRules[T]()...)
	rules = append(rules, columnRules[T]()...)
	rules = append(rules, onceRules[T]()...)
	rules = append(rules, slotRules[T]()...)
	rules = append(rules, batchRules[T]()...)
	rules = append(rules, upsertRules[T]()...)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			h := open(t)
			for i, level := range levels(h.DB.Dialect()) {
				name := level.String()
				if name == "" {
					name = "default"
				}
				s := &suite[T]{T: t, Backend: h, ctx: ctx, prefix: name + "/", repeated: i > 0}
				s.DB = h.DB.With(tx.Options{Isolation: level, Attempts: 100})
				s.migrate()
				r.test(s)
				if t.Failed() {
					t.Fatalf("at isolation %s; the rule: %s", name, r.text)
				}
			}
		})
	}
}

func levels(d *tx.Dialect) []tx.Isolation {
	if !d.Capabilities.IsolationLevels {
		return []tx.Isolation{tx.DefaultIsolation}
	}
	return []tx.Isolation{tx.ReadCommitted, tx.RepeatableRead, tx.Serializable}
}

// suite is what a rule works with.
type suite[T any] struct {
	*testing.T
	txtest.Backend[T]
	ctx    context.Context //nolint:containedctx // it is that of the test
	prefix string          // of keys
	// repeated tells that the rule has been checked at another isolation level.
	repeated bool
}

func (s *suite[T]) migrate() {
	s.Helper()
	s.must(counter.Migrate(s.ctx, s.DB, counter.Names{}))
	s.exec(`create table if not exists "it""em" ("sk'u" varchar(200) primary key, "st""ock" integer, note text)`)
}

func (s *suite[T]) key(name string) string { return s.prefix + name }

// stock is a column of a table that somebody made who likes quotes, with a row of that value.
func (s *suite[T]) stock(key string, n any) *counter.Counters[T] {
	s.Helper()
	s.exec(`insert into "it""em" ("sk'u", "st""ock") values ($1, $2)`, key, n)
	return counter.NewColumn(s.DB, stockColumn, nil)
}

var stockColumn = counter.Column{Table: `it"em`, Key: "sk'u", Column: `st"ock`, Max: 1<<31 - 1}

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

func (s *suite[T]) value(c *counter.Counters[T], key string, want int64) {
	s.Helper()
	got, err := c.Get(s.ctx, key)
	s.must(err)
	if got != want {
		s.Fatalf("%s is %d, want %d", key, got, want)
	}
}

func (s *suite[T]) exact(res counter.Result, err error, want int64) {
	s.Helper()
	s.must(err)
	if res != (counter.Result{Value: want, Exact: true}) {
		s.Fatalf("got %+v, want %d", res, want)
	}
}

func (s *suite[T]) begin() txtest.Foreign[T] {
	s.Helper()
	f, err := s.Begin(s.ctx)
	s.must(err)
	s.Cleanup(func() { _ = f.Rollback(context.Background()) }) // a rule that fails meanwhile must not hang
	return f
}
