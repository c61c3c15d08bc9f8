package countertest

import (
	"errors"
	"sync/atomic"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
)

func onceRules[T any]() []rule[T] {
	return []rule[T]{
		{"Once", "A change with an operation ID is made once, and a repetition says so.", (*suite[T]).once},
		{"OnceMismatch", "An operation ID that comes with another amount is refused.", (*suite[T]).onceMismatch},
		{"OnceRefused", "A refused change does not use up its operation ID.", (*suite[T]).onceRefused},
		{"OnceStorm", "Of many calls at once with one ID, one is applied.", (*suite[T]).onceStorm},
		{"Sweep", "Operations are forgotten after their time, and not before.", (*suite[T]).sweep},
		{"Events", "Refusals and repetitions are told, with the correlation ID.", (*suite[T]).events},
	}
}

func (s *suite[T]) once() {
	c, key := counter.New(s.DB, nil), s.key("k")
	for i := range 3 {
		res, err := c.Add(s.ctx, key, 5, counter.Once("op"))
		s.must(err)
		if res.Replayed != (i > 0) {
			s.Fatalf("call %d: got %+v", i, res)
		}
	}
	for i := range 2 {
		res, err := c.Take(s.ctx, key, 2, counter.Once("take"))
		s.must(err)
		if res.Replayed != (i > 0) {
			s.Fatalf("take %d: got %+v", i, res)
		}
	}
	s.value(c, key, 3)
	_, err := c.Add(s.ctx, s.key("other"), 5, counter.Once("op"))
	s.must(err)
	s.value(c, s.key("other"), 5)
}

func (s *suite[T]) onceMismatch() {
	c, key := counter.New(s.DB, nil), s.key("k")
	_, err := c.Add(s.ctx, key, 5, counter.Once("op"))
	s.must(err)
	_, err = c.Add(s.ctx, key, 6, counter.Once("op"))
	var mismatch *counter.MismatchError
	if !errors.As(err, &mismatch) || mismatch.Had != 5 || mismatch.Got != 6 || holdfast.OutcomeOf(err) != holdfast.NotApplied {
		s.Fatalf("got %v", err)
	}
	s.value(c, key, 5)
}

func (s *suite[T]) onceRefused() {
	c, key := counter.New(s.DB, nil), s.key("k")
	for range 2 {
		_, err := c.Take(s.ctx, key, 2, counter.Once("op"))
		s.want(err, counter.ErrInsufficient)
		_, err = c.Add(s.ctx, key, 1)
		s.must(err)
	}
	res, err := c.Take(s.ctx, key, 2, counter.Once("op"))
	s.must(err)
	if res.Replayed {
		s.Fatal("a refusal used up the ID")
	}
	s.value(c, key, 0)
}

func (s *suite[T]) onceStorm() {
	key := s.key("k")
	processes := [2]*counter.Counters[T]{counter.New(s.DB, nil), counter.New(s.DB, nil)}
	var fresh atomic.Int64
	s.crowd(64, func(i int) {
		res, err := processes[i%2].Add(s.ctx, key, 3, counter.Once("op"))
		if err != nil {
			s.Error(err)
		}
		if !res.Replayed {
			fresh.Add(1)
		}
	})
	s.value(processes[0], key, 3)
	if fresh.Load() != 1 {
		s.Fatalf("%d calls were the first", fresh.Load())
	}
}

func (s *suite[T]) sweep() {
	key := s.key("k")
	gone, kept := counter.New(s.DB, &counter.Options{TTL: time.Nanosecond}), counter.New(s.DB, nil)
	for _, c := range []*counter.Counters[T]{gone, kept} {
		for _, op := range []string{"a", "b"} {
			_, err := c.Add(s.ctx, key+op, 1, counter.Once(op))
			s.must(err)
		}
		key += "+"
	}
	for swept := int64(0); swept < 2; { // the server's clock has to move on by a millisecond
		n, err := kept.Sweep(s.ctx)
		s.must(err)
		swept += n
	}
	res, err := kept.Add(s.ctx, s.key("k+a"), 1, counter.Once("a"))
	s.must(err)
	if !res.Replayed {
		s.Fatal("an operation was forgotten before its time")
	}
}

func (s *suite[T]) events() {
	var events []holdfast.Event
	c := counter.New(s.DB, &counter.Options{Observer: observe(&events)})
	ctx, key := holdfast.WithCorrelationID(s.ctx, "id-7"), s.key("k")
	_, err := c.Take(ctx, key, 1)
	s.want(err, counter.ErrInsufficient)
	for range 2 {
		_, err = c.Add(ctx, key, 1, counter.Once("op"))
		s.must(err)
	}
	s.must(c.Resize(ctx, key, 4))
	text := ""
	for _, e := range events {
		text += string(e.Kind) + " "
		if e.CorrelationID != "id-7" || e.Name != "counter" || e.Key != key {
			s.Errorf("got %+v", e)
		}
	}
	if text != "counter.insufficient counter.replayed counter.resized " {
		s.Fatalf("got %s", text)
	}
}
