package optimistic

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// deaf is a driver whose transactions nobody begins: these tests are of what stands before them.
type deaf struct{ tx.Driver[*int] }

func (deaf) Conn() tx.Conn { return speaks{} }

type speaks struct{ tx.Conn }

func (speaks) Dialect() *tx.Dialect { return tx.PostgreSQL }

func deafRows(o Options) *Rows[*int] { return New(tx.New[*int](deaf{}), Table{Name: "doc"}, &o) }

func lost(n int64) error {
	return &ConflictError{Table: "doc", Key: "a", Expected: At(n), Current: At(n + 1)}
}

var errEnough = errors.New("enough")

// A context that ends while the caller waits for its turn at a hot row is told with the conflict that made it wait.
func TestTheQueueTellsOfTheConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := deafRows(Options{LockAfter: 1})
		inside := make(chan struct{})
		for range queueRoom {
			leave, err := r.heat.of("a").queue(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error)
		tries := 0
		go func() {
			result <- r.persist(ctx, "a", func(context.Context, bool) error {
				tries++
				close(inside)
				return lost(1)
			})
		}()
		<-inside
		synctest.Wait()
		cancel(errEnough)
		err := <-result
		var gaveUp *ContendedError
		if !errors.As(err, &gaveUp) || gaveUp.Attempts != 1 || !errors.Is(gaveUp.Stop, errEnough) || !errors.Is(gaveUp.Last, ErrConflict) {
			t.Errorf("got %v", err)
		}
		if tries != 1 || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("%d tries, %v", tries, holdfast.OutcomeOf(err))
		}

		// One that has not tried yet has no conflict to tell of.
		ctx, cancel = context.WithCancelCause(t.Context())
		r.heat.of("a").mark()
		go func() { result <- r.persist(ctx, "a", func(context.Context, bool) error { tries++; return nil }) }()
		synctest.Wait()
		cancel(errEnough)
		if err := <-result; !errors.Is(err, errEnough) || errors.Is(err, ErrContended) || holdfast.OutcomeOf(err) != holdfast.NotApplied || tries != 1 {
			t.Errorf("got %v", err)
		}
	})
}

// The queue is no lock: who has waited for long goes on, and who leaves makes room.
func TestTheQueueIsNoLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p place
		var leave []func()
		for range queueRoom + 1 {
			began := time.Now()
			l, err := p.queue(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := time.Duration(0)
			if len(leave) == queueRoom {
				want = queueTimeout
			}
			if waited := time.Since(began); waited != want {
				t.Errorf("caller %d waited %v, want %v", len(leave), waited, want)
			}
			leave = append(leave, l)
		}
		leave[0]()
		began := time.Now()
		if l, err := p.queue(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("waited %v, %v", time.Since(began), err)
		} else {
			l()
		}
		for range 2 {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := p.queue(ended); !errors.Is(err, context.Canceled) { // and its room is free again
				t.Errorf("got %v", err)
			}
		}
	})
}

// O17: the pauses are random, double up to a bound, and end with Options.Attempts.
func TestPausesAreRandomAndBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const runs, attempts = 20, 12
		pauses := make([][]time.Duration, attempts) // by attempt
		for range runs {
			r := deafRows(Options{Attempts: attempts, LockAfter: -1})
			last, n := time.Now(), 0
			err := r.persist(t.Context(), "a", func(ctx context.Context, locked bool) error {
				if n == attempts {
					t.Error("there is no end")
					return nil
				}
				if locked || Attempt(ctx) != n+1 {
					t.Errorf("attempt %d, locked %t, want %d", Attempt(ctx), locked, n+1)
				}
				pauses[n] = append(pauses[n], time.Since(last))
				last = time.Now()
				n++
				return lost(int64(n))
			})
			if n != attempts || !errors.Is(err, ErrAttempts) {
				t.Fatalf("%d attempts, %v", n, err)
			}
		}
		for i, p := range pauses[1:] {
			bound := min(time.Millisecond<<i, 100*time.Millisecond)
			if longest := slices.Max(p); longest > bound {
				t.Errorf("the pause after attempt %d was %v, at most %v is allowed", i+1, longest, bound)
			}
			if slices.Max(p) == slices.Min(p) {
				t.Errorf("the pause after attempt %d was always %v", i+1, p[0])
			}
		}
		if slices.Max(pauses[attempts-1]) < 25*time.Millisecond {
			t.Errorf("the pauses do not grow: at most %v", slices.Max(pauses[attempts-1]))
		}
	})
}

// The row is locked after as many losses as are allowed, without a pause, and from the start while it is hot.
func TestFallsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := deafRows(Options{LockAfter: 2})
		try := func(losses int) (locks []bool) {
			err := r.persist(t.Context(), "a", func(_ context.Context, locked bool) error {
				if locks = append(locks, locked); len(locks) <= losses {
					return lost(int64(len(locks)))
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			return locks
		}
		for _, step := range []struct {
			losses int
			want   []bool
		}{
			{0, []bool{false}},
			{1, []bool{false, false}},
			{3, []bool{false, false, true, true}},
			{0, []bool{true}}, // hot
		} {
			if got := try(step.losses); !slices.Equal(got, step.want) {
				t.Errorf("after %d losses: locks %v, want %v", step.losses, got, step.want)
			}
		}
		time.Sleep(hotFor)
		if got := try(0); got[0] {
			t.Error("it never cools down")
		}
	})
}
