package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/history"
	"github.com/holdfast-go/holdfast/tx"
)

// T1: the reply of a COMMIT is lost; the caller takes it for a failure, tries again and does the work twice.
func TestT01_CommitReplyLost(t *testing.T) {
	onPostgres(t, commitReplyLost[pgx.Tx], commitReplyLost[*sql.Tx])
}

func commitReplyLost[T any](t *testing.T, open opener[T]) {
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			damage  int
			applied int
		}{{cutReply, 1}, {cutRequest, 0}, {holdReply, 1}} {
			p, proxied, direct := throughProxy(t)
			s, control := open(t, proxied, 2), open(t, direct, 2)
			table(t, control)
			runs := 0
			db := s.With(tx.Options{CommitTimeout: time.Second})
			err := db.Do(t.Context(), func(ctx context.Context, nt T) error {
				runs++
				if err := tx.AfterCommit(ctx, func(context.Context) { t.Error("a hook ran though the outcome is unknown") }); err != nil {
					return err
				}
				arm(p, c.damage)
				_, err := db.Tx(nt).Exec(ctx, insertEntry, 1)
				return err
			})
			var unknown *tx.CommitUnknownError
			if !errors.As(err, &unknown) || holdfast.OutcomeOf(err) != holdfast.Unknown || runs != 1 {
				t.Errorf("damage %d: ran %d times and got %v (%T), want one run and a *tx.CommitUnknownError", c.damage, runs, err, err)
			}
			if got := settled(t, control, 1, c.applied); got != c.applied {
				t.Errorf("damage %d: %d entries, want %d", c.damage, got, c.applied)
			}
		}
	})
	t.Run("resolved", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			damage int
			runs   int
		}{{cutReply, 1}, {cutRequest, 2}} {
			p, proxied, direct := throughProxy(t)
			s, control := open(t, proxied, 2), open(t, direct, 2)
			table(t, control)
			runs, hooks := 0, 0
			err := s.Run(t.Context(), tx.Plan[T]{
				Work: func(ctx context.Context, nt T) error {
					runs++
					if runs == 1 {
						arm(p, c.damage)
					}
					if err := tx.AfterCommit(ctx, func(context.Context) { hooks++ }); err != nil {
						return err
					}
					_, err := s.Tx(nt).Exec(ctx, insertEntry, 1)
					return err
				},
				// The table lock waits for a transaction that may still be under way.
				Resolve: func(ctx context.Context) (holdfast.Outcome, error) { return look(ctx, control) },
			})
			if err != nil || runs != c.runs || hooks != 1 {
				t.Errorf("damage %d: ran %d times with %d hooks and got %v, want %d runs, one hook and nil", c.damage, runs, hooks, err, c.runs)
			}
			if got := entries(t, control, 1); got != 1 {
				t.Errorf("damage %d: %d entries, want 1", c.damage, got)
			}
		}
	})
}

func look[T any](ctx context.Context, control store[T]) (outcome holdfast.Outcome, err error) {
	err = control.Do(ctx, func(ctx context.Context, nt T) error {
		if _, err := control.Tx(nt).Exec(ctx, "lock table entry in share mode"); err != nil {
			return err
		}
		var n int
		if err := control.Tx(nt).QueryRow(ctx, "select count(*) from entry where n = 1").Scan(&n); err != nil {
			return err
		}
		outcome = holdfast.NotApplied
		if n > 0 {
			outcome = holdfast.Applied
		}
		return nil
	})
	return outcome, err
}

// settled counts entries until there are want of them or the server had time enough: a commit may still be under way.
func settled[T any](t *testing.T, control store[T], n, want int) (got int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if got = entries(t, control, n); got == want {
			return got
		}
	}
	return got
}

// T5: a rollback after a cancellation fails on a closed connection, and its noise hides the cause.
func TestT05_CancellationIsNotHiddenByRollback(t *testing.T) {
	onPostgres(t, cancellationNotHidden[pgx.Tx], cancellationNotHidden[*sql.Tx])
}

func cancellationNotHidden[T any](t *testing.T, open opener[T]) {
	s := open(t, postgres(t), 1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err := s.Do(ctx, func(ctx context.Context, nt T) error {
		_, err := s.Tx(nt).Exec(ctx, "select pg_sleep(600)")
		return err
	})
	if err == nil || holdfast.OutcomeOf(err) != holdfast.NotApplied {
		t.Fatalf("got %v, want an error that says not applied", err)
	}
	for _, noise := range []string{"conn closed", "bad connection", "rollback"} {
		if strings.Contains(err.Error(), noise) {
			t.Errorf("the error %q tells of the rollback", err)
		}
	}
}

// T6: a context that ends during the commit; the reported outcome differs from what is stored.
func TestT06_CommitRacesCancellationCampaign(t *testing.T) {
	onPostgres(t, commitRacesCancellation[pgx.Tx], commitRacesCancellation[*sql.Tx])
}

func commitRacesCancellation[T any](t *testing.T, open opener[T]) {
	s := open(t, postgres(t), 4)
	table(t, s)
	n := history.Rounds(t, 100)
	reported := make([]error, n)
	var done sync.WaitGroup
	next := make(chan int)
	for range 4 {
		done.Go(func() {
			for i := range next {
				ctx, cancel := context.WithCancel(context.Background())
				reported[i] = s.Do(ctx, func(ctx context.Context, nt T) error {
					_, err := s.Tx(nt).Exec(ctx, insertEntry, i)
					time.AfterFunc(time.Duration(rand.IntN(1000))*time.Microsecond, cancel)
					return err
				})
				cancel()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	done.Wait()
	unknown := 0
	for i, err := range reported {
		got := entries(t, s, i)
		switch outcome := holdfast.OutcomeOf(err); {
		case outcome == holdfast.Unknown:
			unknown++
		case (outcome == holdfast.Applied) != (got == 1):
			t.Errorf("round %d reported %v (%v), and there are %d entries", i, outcome, err, got)
		}
	}
	if unknown > 0 {
		t.Errorf("%d of %d outcomes are unknown, want none: nothing was lost", unknown, n)
	}
}

// T7: committing a transaction that is dead already is reported as success.
func TestT07_CommitOfDeadTransaction(t *testing.T) {
	onPostgres(t, commitOfDead[pgx.Tx], commitOfDead[*sql.Tx])
}

func commitOfDead[T any](t *testing.T, open opener[T]) {
	s := open(t, postgres(t), 2)
	table(t, s)
	for _, deferred := range [][]*tx.Stmt{nil, {{SQL: insertEntry, Args: []any{2}}}} {
		err := s.With(tx.Options{Attempts: 1}).Do(t.Context(), func(ctx context.Context, nt T) error {
			if _, err := s.Tx(nt).Exec(ctx, insertEntry, 1); err != nil {
				return err
			}
			if err := s.Defer(ctx, nt, deferred...); err != nil {
				return err
			}
			// The server ends the session, and the closure does not look.
			_, _ = s.Tx(nt).Exec(ctx, "select pg_terminate_backend(pg_backend_pid())")
			return nil
		})
		if err == nil {
			t.Error("the commit of a dead transaction returned nil")
		}
	}
	if entries(t, s, 1)+entries(t, s, 2) != 0 {
		t.Error("a dead transaction was applied")
	}
}

// T19: a context that has ended before the COMMIT is sent looks like a lost reply.
func TestT19_CommitNotSent(t *testing.T) {
	onPostgres(t, commitNotSent[pgx.Tx], commitNotSent[*sql.Tx])
}

func commitNotSent[T any](t *testing.T, open opener[T]) {
	s := open(t, postgres(t), 1)
	table(t, s)
	// No time at all is left for the commit.
	err := s.With(tx.Options{CommitTimeout: 1}).Do(t.Context(), func(ctx context.Context, nt T) error {
		_, err := s.Tx(nt).Exec(ctx, insertEntry, 1)
		return err
	})
	if got := holdfast.OutcomeOf(err); got != holdfast.NotApplied {
		t.Errorf("got %v, outcome %v, want %v", err, got, holdfast.NotApplied)
	}
	if got := entries(t, s, 1); got != 0 {
		t.Errorf("%d entries, want none", got)
	}
}

// T20: an insert without a natural key is done again after a commit with an unknown outcome.
func TestT20_AmbiguousCommitIsNotRepeated(t *testing.T) {
	onPostgres(t, ambiguousCommit[pgx.Tx], ambiguousCommit[*sql.Tx])
}

func ambiguousCommit[T any](t *testing.T, open opener[T]) {
	p, proxied, direct := throughProxy(t)
	s, control := open(t, proxied, 2), open(t, direct, 2)
	table(t, control)
	noAnswer := errors.New("the standby does not know")
	err := s.Run(t.Context(), tx.Plan[T]{
		Work: func(ctx context.Context, nt T) error {
			arm(p, cutReply)
			_, err := s.Tx(nt).Exec(ctx, insertEntry, 1)
			return err
		},
		Resolve: func(context.Context) (holdfast.Outcome, error) { return holdfast.Unknown, noAnswer },
	})
	if !errors.Is(err, tx.ErrCommitUnknown) || !errors.Is(err, noAnswer) {
		t.Errorf("got %v, want it unknown, and why it could not be found out", err)
	}
	if got := settled(t, control, 1, 1); got != 1 {
		t.Errorf("%d entries, want 1", got)
	}
}
