package tx_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/tx"
)

// However many callers there are, and whatever their attempts, they run again as often as the budget says and no oftener.
func TestBudget(t *testing.T) {
	t.Parallel()
	const callers, attempts = 20, 10
	for _, c := range []struct {
		ratio   float64
		burst   int
		commits int // before the storm
		extra   int // runs beyond the first
	}{
		{0, 0, 100, 0},
		{-1, -1, 100, 0},
		{math.NaN(), 0, 100, 0},
		{0.5, 7, 0, 7},
		{0.5, 7, 100, 7}, // what is not used is not saved up
	} {
		budget := tx.NewBudget(c.ratio, c.burst)
		db := tx.New(&fakes{}).With(tx.Options{RetryBudget: budget, Attempts: attempts})
		for range c.commits {
			if err := db.Do(t.Context(), succeed); err != nil {
				t.Fatal(err)
			}
		}
		var runs, stopped atomic.Int64
		var storm sync.WaitGroup
		for range callers {
			storm.Go(func() {
				err := db.Do(t.Context(), func(context.Context, *int) error { runs.Add(1); return errConflict })
				var aborted *tx.AbortError
				if !errors.As(err, &aborted) || !errors.Is(err, errConflict) {
					t.Errorf("got %v, want the conflict", err)
				}
				if errors.Is(err, tx.ErrBudget) {
					stopped.Add(1)
				}
			})
		}
		storm.Wait()
		if got := runs.Load(); got != int64(callers+c.extra) || stopped.Load() == 0 {
			t.Errorf("%+v: %d runs of %d callers, %d stopped by the budget, want %d runs", c, got, callers, stopped.Load(), callers+c.extra)
		}
	}
}

// Commits earn runs again at the ratio.
func TestBudgetIsEarnedByCommits(t *testing.T) {
	t.Parallel()
	db := tx.New(&fakes{}).With(tx.Options{RetryBudget: tx.NewBudget(0.25, 2)})
	again := func() (runs int) {
		_ = db.Do(t.Context(), func(context.Context, *int) error { runs++; return errConflict })
		return runs - 1
	}
	if got := again(); got != 2 {
		t.Errorf("ran %d times again, want the burst of 2", got)
	}
	for range 3 {
		_ = db.Do(t.Context(), succeed)
	}
	if got := again(); got != 0 {
		t.Errorf("ran %d times again after 3 commits, want none", got)
	}
	_ = db.Do(t.Context(), succeed)
	if got := again(); got != 1 {
		t.Errorf("ran %d times again after 4 commits, want 1", got)
	}
}

// fakes is a driver for many goroutines at once.
type fakes struct{ tx.Driver[*int] }

func (*fakes) Begin(context.Context, tx.Options, []*tx.Stmt) (*int, error) { return new(int), nil }
func (*fakes) Commit(context.Context, *int, []*tx.Stmt) error              { return nil }
func (*fakes) Rollback(context.Context, *int) error                        { return nil }
func (*fakes) Conn() tx.Conn                                               { return fakeConn{} }
func (*fakes) Classify(err error) tx.Class                                 { return tx.Classify(err) }
