package fault_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/fault"
	"github.com/holdfast-go/holdfast/tx"
)

// A memory is a driver of package tx over a map. It is here to see what the wrapper does with a driver: what real ones do
// with it is tested beside the patterns.
type memory struct {
	mu        sync.Mutex // guards committed and open
	committed map[string]int
	open      int
}

type memTx struct{ writes []string }

func (m *memory) Begin(context.Context, tx.Options, []*tx.Stmt) (*memTx, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
	return &memTx{}, nil
}

func (m *memory) Commit(_ context.Context, t *memTx, _ []*tx.Stmt) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
	for _, w := range t.writes {
		m.committed[w]++
	}
	return nil
}

func (m *memory) Rollback(context.Context, *memTx) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
	return nil
}

func (m *memory) count(key string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.committed[key]
}

func (m *memory) Wrap(t *memTx) tx.Tx         { return memConn{t} }
func (m *memory) Conn() tx.Conn               { return memConn{&memTx{}} }
func (m *memory) Classify(err error) tx.Class { return tx.Classify(err) }

type memConn struct{ t *memTx }

func (c memConn) Exec(_ context.Context, query string, _ ...any) (int64, error) {
	c.t.writes = append(c.t.writes, query)
	return 1, nil
}

func (c memConn) Query(context.Context, string, ...any) (tx.Rows, error) { return nil, nil }
func (c memConn) QueryRow(context.Context, string, ...any) tx.Row        { return nil }
func (c memConn) Dialect() *tx.Dialect                                   { return tx.SQLite }
func (c memConn) Batch(context.Context, ...*tx.Stmt) error               { return nil }

// once is a scenario over m: it looks and writes in one transaction, or writes without a look.
func once(m *memory, sloppy bool) fault.Scenario {
	return fault.Scenario{
		Same: func(a, b any) bool { return a == b },
		Start: func(_ context.Context, in *fault.Injector) (fault.Process, error) {
			db := tx.New(fault.Driver[*memTx](m, in))
			return fault.Process{
				Call: func(ctx context.Context, key string) (any, error) {
					err := db.With(tx.Options{Attempts: 1}).Do(ctx, func(ctx context.Context, t *memTx) error {
						if m.count(key) > 0 && !sloppy {
							return nil
						}
						_, err := db.Tx(t).Exec(ctx, key)
						return err
					})
					return "done", err
				},
				Effects: func(_ context.Context, key string) (int, error) { return m.count(key), nil },
			}, nil
		},
	}
}

type recorder struct{ failures, logs []string }

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Logf(format string, args ...any) {
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

func TestEveryPointIsBrokenInEveryMode(t *testing.T) {
	var r recorder
	m := &memory{committed: map[string]int{}}
	report := fault.Everywhere(&r, once(m, false))
	if len(r.failures) > 0 {
		t.Fatal(r.failures)
	}
	// begin, exec and commit, in ten modes each, the clean run, and the pairs.
	if report.Points != 3 || report.Runs-report.Pairs != 31 || report.Pairs < 1 || report.Missed > 0 {
		t.Errorf("%+v", report)
	}
	if m.open != 0 {
		t.Errorf("%d transactions were left open", m.open)
	}
}

func TestASecondEffectIsReported(t *testing.T) {
	var r recorder
	fault.Everywhere(&r, once(&memory{committed: map[string]int{}}, true))
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], "2 effects, want 1") {
		t.Errorf("%q", r.failures)
	}
}

// A lost reply to a commit must be unknown, a refusal must not have happened.
func TestDriverSaysWhatDriversSay(t *testing.T) {
	for mode, want := range map[fault.Mode]struct {
		outcome holdfast.Outcome
		rows    int
	}{
		fault.ErrorBefore: {holdfast.NotApplied, 0},
		fault.ErrorAfter:  {holdfast.Unknown, 1},
		fault.CutBefore:   {holdfast.Unknown, 0},
		fault.CutAfter:    {holdfast.Unknown, 1},
		fault.CrashBefore: {holdfast.Unknown, 0},
		fault.CrashAfter:  {holdfast.Unknown, 1},
		fault.CancelAfter: {holdfast.Applied, 1},
	} {
		m := &memory{committed: map[string]int{}}
		in := fault.NewInjector(fault.Plan{{Point: 3, Mode: mode}})
		p, err := once(m, false).Start(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Call(t.Context(), "key")
		if got := holdfast.OutcomeOf(err); got != want.outcome || m.count("key") != want.rows || m.open != 0 {
			t.Errorf("%v: %v (%v) with %d rows and %d open, want %v with %d", mode, got, err, m.count("key"), m.open, want.outcome, want.rows)
		}
	}
}

func TestReplay(t *testing.T) {
	plan := fault.Plan{{Point: 2, Mode: fault.CutAfter}, {Point: 3, Mode: fault.Panic}}
	back, err := fault.Parse(plan.String())
	if err != nil || back.String() != "2:cut-after,3:panic" {
		t.Errorf("%v, %v", back, err)
	}
	for _, text := range []string{"", "0:panic", "3", "3:nothing", "x:panic", "1:panic,"} {
		if _, err := fault.Parse(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
	t.Setenv(fault.PlanEnv, "2:cut-after")
	var r recorder
	if report := fault.Everywhere(&r, once(&memory{committed: map[string]int{}}, false)); report.Runs != 1 || len(r.failures) > 0 {
		t.Errorf("%+v, %q", report, r.failures)
	}
}

// What a call reports is held against what there is.
func TestFalseReports(t *testing.T) {
	m := &memory{committed: map[string]int{}}
	for name, lie := range map[string]func(error) error{
		"unknown is not applied": func(err error) error {
			if errors.Is(err, tx.ErrCommitUnknown) {
				return &tx.AbortError{Err: errors.New("lost")}
			}
			return err
		},
		"acknowledged before the commit": func(err error) error {
			if errors.Is(err, fault.ErrRefused) {
				return nil
			}
			return err
		},
	} {
		s := once(m, false)
		honest := s.Start
		s.Start = func(ctx context.Context, in *fault.Injector) (fault.Process, error) {
			p, err := honest(ctx, in)
			call := p.Call
			p.Call = func(ctx context.Context, key string) (any, error) {
				answer, err := call(ctx, key)
				return answer, lie(err)
			}
			return p, err
		}
		var r recorder
		if fault.Everywhere(&r, s); len(r.failures) == 0 {
			t.Errorf("%s: not caught", name)
		}
	}
}
