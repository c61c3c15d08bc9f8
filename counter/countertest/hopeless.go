package countertest

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/tx"
)

func (s *suite[T]) batchObserver() {
	for name, fail := range map[string]func(){"panics": func() { panic("broken") }, "exits": runtime.Goexit} {
		var told atomic.Int64
		db, ask := s.gated()
		c, key := counter.New(db, &counter.Options{Observer: holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
			if e.Kind == counter.EventBatch {
				told.Add(1)
				fail()
			}
		})}), s.key(name)
		add := func(ctx context.Context) {
			_, err := c.Add(ctx, key, 1)
			s.must(err)
		}
		s.inBatch(ask, func() { add(s.ctx) }, add, add, add)
		s.value(c, key, 4)
		down := func(ctx context.Context) {
			if _, err := c.Add(ctx, key, 1); !errors.Is(err, tx.ErrNotSent) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
				s.Errorf("%s: got %v", name, err)
			}
		}
		refuse := func() error { return tx.ErrNotSent }
		s.inBatchThen(ask, &refuse, func() { add(s.ctx) }, down, down)
		ask.Store(nil)
		s.value(c, key, 5)
		if told.Load() != 2 {
			s.Errorf("%s: told of %d batches", name, told.Load())
		}
		s.must(c.Close(s.ctx))
	}
}

// coded is an error of a server.
type coded string

func (c coded) Error() string { return "SQLSTATE " + string(c) }

func (c coded) SQLState() string { return string(c) }

// batchHopeless counts what a batch of eight asks for: at most the one statement and the one transaction. A batch that is taken
// apart asks for each of the halves.
func (s *suite[T]) batchHopeless() {
	for name, c := range map[string]struct {
		err   error
		whole bool
	}{
		"a lock that times out":      {coded("55P03"), true},
		"a statement that times out": {coded("57014"), true},
		"too many connections":       {coded("53300"), true},
		"a full disk":                {coded("53100"), true},
		"no memory":                  {coded("53200"), true},
		"a server that is read-only": {coded("25006"), true},
		"a password":                 {coded("28P01"), true},
		"a privilege":                {coded("42501"), true},
		"a table that is not there":  {coded("42P01"), true},
		"an internal error":          {coded("XX000"), true},
		"a disk that fails":          {coded("58030"), true},
		"no connection":              {tx.ErrNotSent, true},
		"a constraint":               {coded("23514"), false},
		"a value out of range":       {coded("22003"), false},
		"an exception of a trigger":  {coded("P0001"), false},
	} {
		db, ask := s.gated()
		counters, key := counter.New(db, &counter.Options{BatchTimeout: 10 * time.Second}), s.key(name)
		var asked atomic.Int64
		refuse := func() error { asked.Add(1); return c.err }
		refused := func(ctx context.Context) {
			if _, err := counters.Add(ctx, key, 1); !errors.Is(err, c.err) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
				s.Errorf("%s: got %v, which is %v", name, err, holdfast.OutcomeOf(err))
			}
		}
		s.inBatchThen(ask, &refuse, func() {
			_, err := counters.Add(s.ctx, key, 1)
			s.must(err)
		}, refused, refused, refused, refused, refused, refused, refused, refused)
		ask.Store(nil)
		if whole := asked.Load() <= 2; whole != c.whole {
			s.Errorf("%s: the database was asked %d times", name, asked.Load())
		}
		s.value(counters, key, 1)
	}
}
