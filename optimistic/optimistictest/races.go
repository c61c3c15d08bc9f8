package optimistictest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/optimistic"
)

func raceRules[T any]() []rule[T] {
	return []rule[T]{
		{"OneWriterWins", "of writers with one version at the same moment one wins", oneWins[T]}, // O8
		{"OneInsertWins", "of inserts of one key at the same moment one wins", oneInsertWins[T]},
		{"DeleteAgainstWrite", "of a delete and a write with one version one wins", deleteAgainstWrite[T]},
	}
}

const writers = 16

// rush calls do from all writers at once, and returns how many got no error. Others must be refusals.
func (s *suite[T]) rush(do func(i int) error) int {
	s.Helper()
	var wg sync.WaitGroup
	var won atomic.Int64
	start := make(chan struct{})
	for i := range writers {
		wg.Go(func() {
			<-start
			switch err := do(i); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, optimistic.ErrConflict) && !errors.Is(err, optimistic.ErrNotFound):
				s.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	return int(won.Load())
}

func oneWins[T any](s *suite[T]) {
	for round := range int64(8) {
		id := fmt.Sprint("row ", round)
		s.make(id, round)
		won := s.rush(func(int) error { _, err := s.docs.Set(s.ctx, at(id, round), title("won")); return err })
		if won != 1 {
			s.Fatalf("%d writers won", won)
		}
		won = s.rush(func(int) error {
			return s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
				_, err := returned(ctx, s, t, at(id, round+1))
				return err
			})
		})
		if won != 1 {
			s.Fatalf("%d transactions won", won)
		}
		s.is(id, "returned", round+2)
	}
}

func oneInsertWins[T any](s *suite[T]) {
	for round := range 8 {
		id := fmt.Sprint("row ", round)
		if won := s.rush(func(int) error { _, err := s.docs.Insert(s.ctx, optimistic.Want{Key: id}, nil); return err }); won != 1 {
			s.Fatalf("%d inserts won", won)
		}
	}
}

func deleteAgainstWrite[T any](s *suite[T]) {
	for round := range 8 {
		id := fmt.Sprint("row ", round)
		s.make(id, 0)
		won := s.rush(func(i int) (err error) {
			if i%2 == 0 {
				_, err = s.docs.Delete(s.ctx, at(id, 0))
			} else {
				_, err = s.docs.Set(s.ctx, at(id, 0), nil)
			}
			return err
		})
		if won != 1 {
			s.Fatalf("%d won", won)
		}
	}
}
