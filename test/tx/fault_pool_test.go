package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/history"
	"github.com/holdfast-go/holdfast/tx"
)

// T2: the context ends, nobody rolls back, and the connection stays taken.
func TestT02_PoolIsFreeAfterCancellation(t *testing.T) {
	onPostgres(t, poolFreeAfterCancellation[pgx.Tx], poolFreeAfterCancellation[*sql.Tx])
}

func poolFreeAfterCancellation[T any](t *testing.T, open opener[T]) {
	s := open(t, postgres(t), 1)
	table(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Do(ctx, func(ctx context.Context, nt T) error {
		if _, err := s.Tx(nt).Exec(ctx, insertEntry, 1); err != nil {
			return err
		}
		cancel()
		return ctx.Err() // work that takes longer than the context lasts
	})
	if !errors.Is(err, context.Canceled) || s.inUse() != 0 {
		t.Errorf("got %v with %d connections taken, want the cancellation and none", err, s.inUse())
	}
	// The only connection of the pool serves the next.
	next, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Do(next, func(ctx context.Context, nt T) error {
		_, err := s.Tx(nt).Exec(ctx, insertEntry, 2)
		return err
	}); err != nil {
		t.Error(err)
	}
	if entries(t, s, 1) != 0 || entries(t, s, 2) != 1 {
		t.Error("the cancelled work was applied, or the next was not")
	}
}

// T3: a rollback in the background races the query that was cancelled, and a driver panics.
func TestT03_NobodyRollsBackInTheBackgroundCampaign(t *testing.T) {
	onPostgres(t, nobodyInTheBackground[pgx.Tx], nobodyInTheBackground[*sql.Tx])
}

func nobodyInTheBackground[T any](t *testing.T, open opener[T]) {
	s := open(t, postgres(t), 2)
	table(t, s)
	for i := range history.Rounds(t, 50) {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, cancel)
		ended := false
		err := s.Do(ctx, func(ctx context.Context, nt T) error {
			_, err := s.Tx(nt).Exec(ctx, insertEntry, i)
			for n := 0; err == nil && n < 5; n++ {
				_, err = s.Tx(nt).Exec(ctx, "select pg_sleep(0.0005)")
			}
			// Nobody but Do ends the transaction: with a context of its own a statement meets no ended transaction.
			if _, late := s.Tx(nt).Exec(context.Background(), "select 1"); errors.Is(late, sql.ErrTxDone) {
				ended = true
			}
			return err
		})
		timer.Stop()
		cancel()
		if ended {
			t.Fatalf("round %d: the transaction was ended behind the closure's back", i)
		}
		if applied := entries(t, s, i) == 1; applied != (holdfast.OutcomeOf(err) == holdfast.Applied) {
			t.Errorf("round %d: reported %v, applied %v", i, err, applied)
		}
	}
}

// T4: each transaction under a long-lived context leaves a goroutine behind. The test counts the goroutines of the
// process, so it runs beside no other.
func TestT04_NoGoroutineIsLeft(t *testing.T) { //nolint:paralleltest // see above
	t.Run("pgxtx", func(t *testing.T) { noGoroutineLeft(t, openPgx(pgx.QueryExecModeCacheStatement)) })
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run("sqltx "+driver, func(t *testing.T) { noGoroutineLeft(t, openSQL(driver)) })
	}
}

func noGoroutineLeft[T any](t *testing.T, open opener[T]) {
	s := open(t, postgres(t), 2)
	table(t, s)
	ctx, cancel := context.WithCancel(t.Context()) // lives as long as the process would
	defer cancel()
	run := func(n int) {
		for i := range n {
			err := s.Do(ctx, func(ctx context.Context, nt T) error {
				if i%2 == 0 {
					return tx.ErrNoRows // rolls back
				}
				return nil
			})
			if i%2 == 1 && err != nil {
				t.Fatal(err)
			}
		}
	}
	run(10)
	before := runtime.NumGoroutine()
	run(1000)
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+5 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if after := runtime.NumGoroutine(); after > before+5 {
		t.Errorf("%d goroutines before and %d after 1000 transactions", before, after)
	}
}

// T16: a nested call takes a second connection: a pool of one hangs, and its work survives the rollback of the outer.
func TestT16_NestedTakesNoSecondConnection(t *testing.T) {
	onPostgres(t, nestedTakesNone[pgx.Tx], nestedTakesNone[*sql.Tx])
}

// A transaction on another pool in between hides nothing.
func TestT16_JoinsAcrossAnotherPool(t *testing.T) {
	onPostgres(t, joinsAcross[pgx.Tx], joinsAcross[*sql.Tx])
}

func joinsAcross[T any](t *testing.T, open opener[T]) {
	s, other := open(t, postgres(t), 1), open(t, postgres(t), 1)
	table(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	failure := errors.New("the outer fails")
	err := s.Do(ctx, func(ctx context.Context, _ T) error {
		if err := other.Do(ctx, func(ctx context.Context, _ T) error {
			return s.Do(ctx, func(ctx context.Context, nt T) error {
				_, err := s.Tx(nt).Exec(ctx, insertEntry, 1)
				return err
			})
		}); err != nil {
			t.Errorf("the call in between gives %v", err)
		}
		return failure
	})
	if !errors.Is(err, failure) || entries(t, s, 1) != 0 {
		t.Errorf("got %v and %d entries, want the failure and none", err, entries(t, s, 1))
	}
}

// A hook belongs to the transaction of the closure that it is registered in, and not to one on another pool in between, which
// commits by itself.
func TestT16_HooksAcrossAnotherPool(t *testing.T) {
	onPostgres(t, hooksAcross[pgx.Tx], hooksAcross[*sql.Tx])
}

func hooksAcross[T any](t *testing.T, open opener[T]) {
	s, other := open(t, postgres(t), 1), open(t, postgres(t), 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, failure := range []error{errors.New("the outer fails"), nil} {
		var order []string
		hook := func(ctx context.Context, name string) error {
			return tx.AfterCommit(ctx, func(context.Context) { order = append(order, name) })
		}
		err := s.Do(ctx, func(ctx context.Context, outer T) error {
			err := other.Do(ctx, func(ctx context.Context, _ T) error {
				return errors.Join(
					hook(ctx, "other"),
					s.Do(ctx, func(ctx context.Context, _ T) error {
						return errors.Join(hook(ctx, "joined"), other.Do(ctx, func(ctx context.Context, _ T) error { return hook(ctx, "other") }))
					}),
					s.Nested(ctx, outer, func(ctx context.Context, _ T) error { return hook(ctx, "nested") }),
					hook(s.Within(ctx, outer), "within"),
					hook(ctx, "other"),
				)
			})
			order = append(order, "end")
			return errors.Join(err, failure)
		})
		want := "[other other other end joined nested within]"
		if failure != nil {
			want = "[other other other end]"
		}
		if got := fmt.Sprint(order); !errors.Is(err, failure) || got != want {
			t.Errorf("got %v and the hooks %s, want %v and %s", err, got, failure, want)
		}
	}
}

func nestedTakesNone[T any](t *testing.T, open opener[T]) {
	s := open(t, postgres(t), 1)
	table(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := s.Do(ctx, func(ctx context.Context, _ T) error {
		if err := s.Do(ctx, func(ctx context.Context, nt T) error {
			_, err := s.Tx(nt).Exec(ctx, insertEntry, 1)
			return err
		}); err != nil {
			t.Errorf("the nested call gives %v", err)
		}
		return errors.New("the outer fails")
	})
	if holdfast.OutcomeOf(err) != holdfast.NotApplied || entries(t, s, 1) != 0 {
		t.Errorf("got %v and %d entries, want not applied and none", err, entries(t, s, 1))
	}
}
