// Package idemtest is the conformance suite of package idem: what [idem.Keys] and [idem.Inbox] promise, run against a
// database adapter. An adapter of another library passes it with one call of [Run].
package idemtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

// A rule is one promise.
type rule[T any] struct {
	name string
	text string // the promise, in one sentence
	test func(s *suite[T])
}

// Run checks every promise, each on a database that open makes for it, in parallel.
func Run[T any](t *testing.T, open func(t testing.TB) txtest.Backend[T]) {
	var rules []rule[T]
	rules = append(rules, keyRules[T]()...)
	rules = append(rules, failureRules[T]()...)
	rules = append(rules, foreignRules[T]()...)
	rules = append(rules, lifetimeRules[T]()...)
	rules = append(rules, eraseRules[T]()...)
	rules = append(rules, codecRules[T]()...)
	rules = append(rules, cacheRules[T]()...)
	rules = append(rules, raceRules[T]()...)
	rules = append(rules, betweenRules[T]()...)
	rules = append(rules, hotRules[T]()...)
	rules = append(rules, processRules[T]()...)
	rules = append(rules, inboxRules[T]()...)
	rules = append(rules, edgeRules[T]()...)
	rules = append(rules, webRules[T]()...)
	rules = append(rules, leasedTxRules[T]()...)
	rules = append(rules, webLeasedRules[T]()...)
	t.Run("Leased", func(t *testing.T) {
		RunStore(t, func(t testing.TB) idem.Store {
			db := open(t).DB
			if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
				t.Fatal(err)
			}
			return idem.New(db, nil).Store()
		})
	})
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			s := &suite[T]{T: t, Backend: open(t), ctx: ctx, rule: r.text}
			s.migrate()
			r.test(s)
			if t.Failed() {
				t.Logf("the rule: %s", r.text)
			}
		})
	}
}

// suite is what a rule works with.
type suite[T any] struct {
	*testing.T
	txtest.Backend[T]
	ctx  context.Context //nolint:containedctx // it is that of the test
	rule string
}

func (s *suite[T]) migrate() {
	s.Helper()
	s.must(idem.Migrate(s.ctx, s.DB, idem.Names{}))
	s.exec("create table effect (name text not null)")
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

// effects counts the business rows of a name.
func (s *suite[T]) effects(name string) int {
	s.Helper()
	var n int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from effect where name = $1", name).Scan(&n))
	return n
}

func (s *suite[T]) wantEffects(name string, want int) {
	s.Helper()
	if got := s.effects(name); got != want {
		s.Fatalf("%d effects of %q, want %d", got, name, want)
	}
}

// apply writes one business row.
func (s *suite[T]) apply(ctx context.Context, t T, name string) error {
	_, err := s.DB.Tx(t).Exec(ctx, "insert into effect (name) values ($1)", name)
	return err
}

// work is a closure that applies name, counts its runs, and returns value.
func work[T, R any](s *suite[T], name string, runs *counter, value R) func(context.Context, T) (R, error) {
	return func(ctx context.Context, t T) (R, error) {
		runs.add()
		return value, s.apply(ctx, t, name)
	}
}

func (s *suite[T]) begin() txtest.Foreign[T] {
	s.Helper()
	f, err := s.Begin(s.ctx)
	s.must(err)
	s.Cleanup(func() { _ = f.Rollback(context.Background()) }) // a rule that fails meanwhile must not hang
	return f
}

func key(value string) idem.Key {
	return idem.Key{Scope: "tenant", Name: "charge", Value: value}
}

func (s *suite[T]) count(c *counter, want int) {
	s.Helper()
	if got := c.get(); got != want {
		s.Fatalf("the closure ran %d times, want %d", got, want)
	}
}

// counter is an int for several goroutines.
type counter struct {
	mu sync.Mutex // guards n
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
}

func (c *counter) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
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

// kinds returns the kinds in order, and fails unless each event carries the correlation ID.
func (e *events) kinds(t testing.TB, id string) string {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	text := ""
	for _, event := range e.list {
		if event.CorrelationID != id {
			t.Errorf("event %s has the correlation ID %q, want %q", event.Kind, event.CorrelationID, id)
		}
		text += fmt.Sprintf("%s ", event.Kind)
	}
	e.list = nil
	return text
}
