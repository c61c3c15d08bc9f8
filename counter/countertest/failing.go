package countertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/tx"
)

// A gate is a driver that asks before each transaction and each statement beside one.
type gate[T any] struct {
	tx.Driver[T]
	ask *atomic.Pointer[func() error] // nil lets all pass
}

func (s *suite[T]) gated() (*tx.DB[T], *atomic.Pointer[func() error]) {
	ask := &atomic.Pointer[func() error]{}
	return s.DB.Wrapped(func(d tx.Driver[T]) tx.Driver[T] { return gate[T]{d, ask} }), ask
}

func (g gate[T]) pass() error {
	if ask := g.ask.Load(); ask != nil {
		return (*ask)()
	}
	return nil
}

func (g gate[T]) Begin(ctx context.Context, o tx.Options, lead []*tx.Stmt) (T, error) {
	if err := g.pass(); err != nil {
		var none T
		return none, err
	}
	return g.Driver.Begin(ctx, o, lead)
}

func (g gate[T]) Conn() tx.Conn { return gateConn[T]{g.Driver.Conn(), g} }

type gateConn[T any] struct {
	tx.Conn
	gate gate[T]
}

func (c gateConn[T]) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	if err := c.gate.pass(); err != nil {
		return failedRow{err}
	}
	return c.Conn.QueryRow(ctx, query, args...)
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// closeWaits stops each verb at the database.
func (s *suite[T]) closeWaits() {
	for name, call := range map[string]func(c *counter.Counters[T], key string) error{
		"Add": func(c *counter.Counters[T], key string) error { _, err := c.Add(s.ctx, key, 1); return err },
		"Take": func(c *counter.Counters[T], key string) error {
			_, err := c.Add(s.ctx, key, 1, counter.Once("op"))
			return err
		},
		"AddMany": func(c *counter.Counters[T], key string) error {
			return c.AddMany(s.ctx, []counter.Change{{Key: key, N: 1}})
		},
		"Resize": func(c *counter.Counters[T], key string) error {
			if err := c.Resize(s.ctx, key, 4); err != nil {
				return err
			}
			return s.DB.Do(s.ctx, func(ctx context.Context, t T) error { _, err := c.AddTx(ctx, t, key, 1); return err })
		},
	} {
		for _, batch := range []int{0, 1} {
			db, ask := s.gated()
			c, key := counter.New(db, &counter.Options{MaxBatch: batch}), s.key(fmt.Sprint(name, batch))
			arrived, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			stop := func() error { ask.Store(nil); close(arrived); <-release; return nil }
			ask.Store(&stop)
			go func() { done <- call(c, key) }()
			<-arrived
			over, cancel := context.WithCancel(s.ctx)
			cancel()
			for range 100 { // whoever does not wait may notice either first
				s.want(c.Close(over), context.Canceled)
			}
			close(release)
			s.must(c.Close(s.ctx))
			if name == "Resize" {
				s.must(<-done) // a call in a transaction of the caller's goes on
				s.value(c, key, 1)
			} else {
				s.value(c, key, 1)
				s.must(<-done)
			}
			s.want(call(c, key), counter.ErrClosed)
		}
	}
}

// batchFailed is C10: amounts that are cleared before they are written.
func (s *suite[T]) batchFailed() {
	db, ask := s.gated()
	var failed atomic.Int64
	c, key := counter.New(db, &counter.Options{Observer: holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
		if e.Kind == counter.EventBatch && e.Err != nil {
			failed.Add(1)
		}
	})}), s.key("k")
	_, err := c.Add(s.ctx, key, 1)
	s.must(err)
	var coming atomic.Int64
	down := func() error {
		for coming.Load() < 64 { // so that the first does not fail before the others are there
			runtime.Gosched()
		}
		return tx.ErrNotSent
	}
	ask.Store(&down)
	s.crowd(64, func(int) {
		coming.Add(1)
		_, err := c.Add(s.ctx, key, 1)
		if !errors.Is(err, tx.ErrNotSent) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Errorf("got %v", err)
		}
	})
	if failed.Load() == 0 {
		s.Error("no batch failed")
	}
	ask.Store(nil)
	s.value(c, key, 1)
	s.crowd(64, func(int) {
		_, err := c.Add(s.ctx, key, 1)
		s.must(err)
	})
	s.value(c, key, 65)
}

// batchPanics has a driver that works for the first call only.
func (s *suite[T]) batchPanics() {
	for name, fail := range map[string]func(){"panics": func() { panic("broken") }, "exits": runtime.Goexit} {
		db, ask := s.gated()
		c, key := counter.New(db, &counter.Options{BatchTimeout: 10 * time.Second}), s.key(name)
		var coming, calls, unknown atomic.Int64
		broken := func() error {
			for coming.Load() < 64 {
				runtime.Gosched()
			}
			if calls.Add(1) > 1 {
				fail()
			}
			return nil
		}
		ask.Store(&broken)
		s.crowd(64, func(i int) {
			defer func() { _ = recover() }() // of a call that came alone
			coming.Add(1)
			_, err := c.Add(s.ctx, key, 1)
			switch {
			case errors.Is(err, counter.ErrOutcomeUnknown) && holdfast.OutcomeOf(err) == holdfast.Unknown:
				unknown.Add(1)
			case err != nil:
				s.Error(err)
			}
		})
		if unknown.Load() == 0 {
			s.Errorf("%s: no batch was broken", name)
		}
		ask.Store(nil)
		_, err := c.Add(s.ctx, key, 1)
		s.must(err)
		s.value(c, key, 2)
		s.must(c.Close(s.ctx))
	}
}

// batchConstraint has a rule of the table's own, which the database alone knows. No eight amounts of 100 keep it together.
func (s *suite[T]) batchConstraint() {
	s.exec(`create table if not exists shelf (id varchar(50) primary key, n integer not null, check (n % 1000 = 400))`)
	key := s.key("k")
	s.exec(`insert into shelf values ($1, 400)`, key)
	c := counter.NewColumn(s.DB, counter.Column{Table: "shelf", Key: "id", Column: "n", Max: math.MaxInt32}, nil)
	var sum atomic.Int64
	sum.Store(400)
	s.crowd(64, func(i int) {
		delta := int64(1000)
		if i%8 == 0 {
			delta = 100
		}
		_, err := c.Add(s.ctx, key, delta)
		_, refused := tx.CheckViolation(err)
		switch {
		case err == nil:
			sum.Add(delta)
		case delta == 1000 || !refused || holdfast.OutcomeOf(err) != holdfast.NotApplied:
			s.Errorf("%d: got %v", delta, err)
		}
	})
	s.value(c, key, sum.Load())
}

// batchEnds has a counter at each end, and amounts that come back from it.
func (s *suite[T]) batchEnds() {
	for _, end := range []int64{math.MaxInt64, math.MinInt64} {
		c, key := counter.New(s.DB, nil), s.key(fmt.Sprint("k", end))
		_, err := c.Add(s.ctx, key, end)
		s.must(err)
		away := int64(-1)
		if end < 0 {
			away = 1
		}
		var sum atomic.Int64
		s.crowd(64, func(i int) {
			delta := away
			if i%2 == 0 {
				delta = -away
			}
			res, err := c.Add(s.ctx, key, delta)
			switch {
			case err == nil:
				sum.Add(delta)
				if (res.Value < 0) != (end < 0) {
					s.Errorf("%d gave %+v", delta, res)
				}
			case delta == away || !errors.Is(err, counter.ErrOverflow):
				s.Errorf("%d: got %v", delta, err)
			}
		})
		s.value(c, key, end+sum.Load())
	}
}

// batchBounds has amounts that exceed what the column holds, and undo each other.
func (s *suite[T]) batchBounds() {
	key := s.key("k")
	s.stock(key, 5)
	db, ask := s.gated()
	c := counter.NewColumn(db, stockColumn, nil)
	refused := func(delta int64) func(ctx context.Context) {
		return func(ctx context.Context) {
			if _, err := c.Add(ctx, key, delta); !errors.Is(err, counter.ErrOverflow) {
				s.Errorf("%d: got %v", delta, err)
			}
		}
	}
	s.inBatch(ask, func() {
		_, err := c.Add(s.ctx, key, 1)
		s.must(err)
	}, refused(1<<40), refused(-1<<40), refused(math.MaxInt64), refused(-math.MaxInt64))
	s.value(c, key, 6)
}
