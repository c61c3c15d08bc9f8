package countertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/counter"
)

func slotRules[T any]() []rule[T] {
	return []rule[T]{
		{"Slots", "A counter in slots has one value, and is kept when their number changes.", (*suite[T]).slots},
		{"SlotsStock", "A take finds the stock of other slots.", (*suite[T]).slotsStock},
		{"SlotsNegative", "A counter in slots does not go below 0.", (*suite[T]).slotsNegative},
		{"ResizeStorm", "No unit is lost or doubled while the slots change under load.", (*suite[T]).resizeStorm},
		{"ResizeReads", "A counter reads as one value at any moment of a change of its slots.", (*suite[T]).resizeReads},
		{"SlotsSpread", "A transaction that holds a slot holds up no others.", (*suite[T]).slotsSpread},
		{"SlotsForeignStorm", "Transactions of the caller's that take once from a stock in slots do not deadlock.", (*suite[T]).slotsForeignStorm},
		{"SlotsTakeStorm", "Of a stock in 16 slots everything is sold, and no more.", (*suite[T]).slotsTakeStorm},
	}
}

func (s *suite[T]) slots() {
	c, key := counter.New(s.DB, nil), s.key("k")
	want := int64(0)
	for _, slots := range []int{1, 16, 4, 64, 1, 2} {
		s.must(c.Resize(s.ctx, key, slots))
		s.value(c, key, want)
		for i := range int64(10) {
			_, err := c.Add(s.ctx, key, i)
			s.must(err)
			want += i
		}
		s.value(counter.New(s.DB, nil), key, want)
	}
	res, err := c.Add(s.ctx, key, math.MaxInt64)
	s.want(err, counter.ErrOverflow)
	if res.Exact {
		s.Fatal("exact")
	}
}

// slotsStock is C16: sharded stock says sold out though other slots have it.
func (s *suite[T]) slotsStock() {
	c, key := counter.New(s.DB, nil), s.key("k")
	_, err := c.Add(s.ctx, key, 16)
	s.must(err)
	s.must(c.Resize(s.ctx, key, 16))
	_, err = c.Take(s.ctx, key, 10)
	s.must(err)
	_, err = counter.New(s.DB, nil).Take(s.ctx, key, 7)
	s.want(err, counter.ErrInsufficient)
	f := s.begin()
	_, err = c.TakeTx(s.ctx, f.Tx, key, 6, counter.Once("op"))
	s.must(err)
	s.must(f.Commit(s.ctx))
	s.value(c, key, 0)
}

func (s *suite[T]) slotsNegative() {
	c, key := counter.New(s.DB, nil), s.key("k")
	_, err := c.Add(s.ctx, key, -1)
	s.must(err)
	s.want(c.Resize(s.ctx, key, 2), counter.ErrInsufficient)
	_, err = c.Add(s.ctx, key, 6)
	s.must(err)
	s.must(c.Resize(s.ctx, key, 4))
	_, err = c.Add(s.ctx, key, -6)
	s.want(err, counter.ErrInsufficient)
	_, err = c.Add(s.ctx, key, -5)
	s.must(err)
	s.value(c, key, 0)
}

// resizeReads is C15: a sum over slots beside a move between them.
func (s *suite[T]) resizeReads() {
	c, key := counter.New(s.DB, nil), s.key("k")
	_, err := c.Add(s.ctx, key, 1000)
	s.must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, slots := range []int{16, 1, 8, 2, 64, 4, 32, 1} {
			if err := c.Resize(s.ctx, key, slots); err != nil {
				s.Error(err)
			}
		}
	}()
	s.crowd(4, func(int) {
		for {
			if n, err := c.Get(s.ctx, key); err != nil || n != 1000 {
				s.Errorf("got %d, %v", n, err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
}

// slotsSpread is C7: a row lock is held until the commit.
func (s *suite[T]) slotsSpread() {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		s.Logf("does not apply to %s: it has one writer at a time", s.DB.Dialect().Name)
		return
	}
	c, key := counter.New(s.DB, &counter.Options{MaxBatch: 1}), s.key("k")
	s.must(c.Resize(s.ctx, key, 16))
	f := s.begin()
	_, err := c.AddTx(s.ctx, f.Tx, key, 1)
	s.must(err)
	const calls = 32
	done := make(chan error, calls)
	for range calls {
		go func() {
			_, err := c.Add(s.ctx, key, 1)
			done <- err
		}()
	}
	s.must(<-done) // while the transaction goes on
	s.must(f.Commit(s.ctx))
	for range calls - 1 {
		s.must(<-done)
	}
	s.value(c, key, calls+1)
}

// resizeStorm is C18: counts lost with the slots that go.
func (s *suite[T]) resizeStorm() {
	key, sum := s.key("k"), atomic.Int64{}
	alone := counter.New(s.DB, &counter.Options{MaxBatch: 1})
	shared := counter.New(s.DB, nil)
	_, err := alone.Add(s.ctx, key, 1000)
	s.must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, slots := range []int{16, 4, 8, 1, 32, 2} {
			if err := alone.Resize(s.ctx, key, slots); err != nil {
				s.Error(err)
			}
		}
	}()
	s.crowd(64, func(i int) {
		for range 4 {
			var err error
			switch i % 4 {
			case 0:
				_, err = alone.Add(s.ctx, key, 1)
				sum.Add(1)
			case 1:
				_, err = shared.Add(s.ctx, key, 1)
				sum.Add(1)
			case 2:
				_, err = alone.Take(s.ctx, key, 2)
				sum.Add(-2)
			default:
				err = s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
					_, err := alone.AddTx(ctx, t, key, 1)
					return err
				})
				sum.Add(1)
			}
			if err != nil {
				s.Error(err)
			}
		}
	})
	<-done
	s.value(alone, key, 1000+sum.Load())
}

func (s *suite[T]) slotsTakeStorm() {
	c, key := counter.New(s.DB, &counter.Options{MaxBatch: 1}), s.key("k")
	const stock = 100
	_, err := c.Add(s.ctx, key, stock)
	s.must(err)
	s.must(c.Resize(s.ctx, key, 16))
	var sold atomic.Int64
	s.crowd(64, func(i int) {
		n := int64(1 + i%4)
		for {
			_, err := c.Take(s.ctx, key, n)
			var insufficient *counter.InsufficientError
			switch {
			case err == nil:
				sold.Add(n)
			case errors.As(err, &insufficient) && insufficient.Have < n:
				return
			default:
				s.Error(err)
				return
			}
		}
	})
	left, err := c.Get(s.ctx, key)
	s.must(err)
	if left != 0 || sold.Load() != stock {
		s.Fatalf("%d sold of %d, %d left", sold.Load(), stock, left)
	}
}

// slotsForeignStorm has callers who wait for a slot that then has nothing left, and go on to the others. No retry hides a deadlock.
func (s *suite[T]) slotsForeignStorm() {
	if s.repeated || !s.DB.Dialect().Capabilities.RowLocks {
		return // the levels are those of transactions of ours; one writer has no order of locks
	}
	const stock, callers = 48, 24
	for round := range 3 {
		c, key := counter.New(s.DB, nil), s.key(fmt.Sprint("k", round))
		_, err := c.Add(s.ctx, key, stock)
		s.must(err)
		s.must(c.Resize(s.ctx, key, 8))
		var sold atomic.Int64
		s.crowd(callers, func(i int) {
			for range 4 {
				f, err := s.Begin(s.ctx)
				s.must(err)
				switch _, err = c.TakeTx(s.ctx, f.Tx, key, 1); {
				case err == nil && i%4 != 0:
					s.must(f.Commit(s.ctx))
					sold.Add(1)
					continue
				case err != nil && !errors.Is(err, counter.ErrInsufficient):
					s.Error(err)
				}
				s.must(f.Rollback(s.ctx))
			}
		})
		s.value(c, key, stock-sold.Load())
	}
}
