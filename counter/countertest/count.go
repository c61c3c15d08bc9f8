package countertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
)

func countRules[T any]() []rule[T] {
	return []rule[T]{
		{"AddAndGet", "What is added is there, 0 and negative amounts too.", (*suite[T]).addAndGet},
		{"Take", "A take that exceeds what is there is refused whole, and says what there is.", (*suite[T]).take},
		{"Column", "A column of the caller's counts by the same rules; a row that is missing is told apart.", (*suite[T]).column},
		{"Overflow", "An amount that does not fit is refused and changes nothing.", (*suite[T]).overflow},
		{"Foreign", "In the caller's transaction a change takes effect with it, and a refusal leaves it usable.", (*suite[T]).foreign},
		{"Joined", "A verb in a closure of the same DB joins its transaction.", (*suite[T]).joined},
		{"Arguments", "An argument that cannot be used is named, and nothing is done.", (*suite[T]).arguments},
		{"AddMany", "Several changes are made together, or none of them.", (*suite[T]).addMany},
		{"AddManyStorm", "Calls with the same counters in any order do not deadlock.", (*suite[T]).addManyStorm},
		{"TakeStorm", "Of a stock of 100, 200 callers get exactly 100.", (*suite[T]).takeStorm},
		{"FirstStorm", "Calls that all make one counter do not deadlock, and none is lost.", (*suite[T]).firstStorm},
		{"Cancelled", "A context that has ended changes nothing.", (*suite[T]).cancelled},
	}
}

// addAndGet is C6 too: an amount of 0 changes no value, and is no refusal.
func (s *suite[T]) addAndGet() {
	c, key := counter.New(s.DB, nil), s.key("a")
	s.must(c.Check(s.ctx))
	s.value(c, key, 0)
	want := int64(0)
	for _, n := range []int64{5, 0, -7, 2} {
		want += n
		res, err := c.Add(s.ctx, key, n)
		s.exact(res, err, want)
	}
	s.value(c, key, want)
}

func (s *suite[T]) take() {
	c, key := counter.New(s.DB, nil), s.key("t")
	for have := range int64(2) {
		_, err := c.Take(s.ctx, key, 2)
		var insufficient *counter.InsufficientError
		if !errors.As(err, &insufficient) || insufficient.Have != have || insufficient.Want != 2 || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("got %v", err)
		}
		_, err = c.Add(s.ctx, key, 1)
		s.must(err)
	}
	res, err := c.Take(s.ctx, key, 2)
	s.exact(res, err, 0)
}

func (s *suite[T]) column() {
	key := s.key("k'ey")
	c := s.stock(key, 10)
	s.must(c.Check(s.ctx))
	res, err := c.Take(s.ctx, key, 4)
	s.exact(res, err, 6)
	_, err = c.Take(s.ctx, key, 7)
	s.want(err, counter.ErrInsufficient)
	res, err = c.Add(s.ctx, key, 1, counter.Once("op"))
	s.exact(res, err, 7)
	null := s.key("null")
	s.stock(null, nil)
	res, err = c.Add(s.ctx, null, 3)
	s.exact(res, err, 3)
	for _, o := range [][]counter.Option{nil, {counter.Once("op")}} {
		_, err = c.Add(s.ctx, s.key("nobody"), 1, o...)
		s.want(err, counter.ErrNotFound)
		_, err = c.Take(s.ctx, s.key("nobody"), 1, o...)
		s.want(err, counter.ErrNotFound)
	}
	_, err = c.Get(s.ctx, s.key("nobody"))
	s.want(err, counter.ErrNotFound)
	_, err = c.Add(s.ctx, key, math.MaxInt32)
	s.want(err, counter.ErrOverflow)
	s.value(c, key, 7)
	s.want(c.Resize(s.ctx, key, 2), counter.ErrInvalid)
	res, err = c.Add(s.ctx, key, 0) // C6
	s.exact(res, err, 7)
}

func (s *suite[T]) overflow() {
	c, key := counter.New(s.DB, nil), s.key("o")
	for _, end := range []int64{math.MaxInt64, math.MinInt64} {
		key += "+"
		res, err := c.Add(s.ctx, key, end)
		s.exact(res, err, end)
		step := int64(1)
		if end < 0 {
			step = -1
		}
		f := s.begin()
		_, err = c.AddTx(s.ctx, f.Tx, key, step)
		s.want(err, counter.ErrOverflow)
		_, err = c.AddTx(s.ctx, f.Tx, key, step, counter.Once("op"))
		s.want(err, counter.ErrOverflow)
		s.must(f.Commit(s.ctx))
		_, err = c.Add(s.ctx, key, end)
		s.want(err, counter.ErrOverflow)
		s.value(c, key, end)
	}
}

func (s *suite[T]) foreign() {
	c, key := counter.New(s.DB, nil), s.key("f")
	f := s.begin()
	_, err := c.AddTx(s.ctx, f.Tx, key, 5)
	s.must(err)
	_, err = c.TakeTx(s.ctx, f.Tx, key, 6)
	s.want(err, counter.ErrInsufficient)
	_, err = c.TakeTx(s.ctx, f.Tx, key, 6, counter.Once("op"))
	s.want(err, counter.ErrInsufficient)
	s.want(c.AddManyTx(s.ctx, f.Tx, []counter.Change{{Key: key, N: 1}, {Key: s.key("g"), N: math.MaxInt64}, {Key: s.key("g"), N: 1}}), counter.ErrOverflow)
	res, err := c.TakeTx(s.ctx, f.Tx, key, 2, counter.Once("op"))
	s.exact(res, err, 3)
	n, err := c.GetTx(s.ctx, f.Tx, key)
	s.must(err)
	if n != 3 {
		s.Fatalf("the transaction sees %d", n)
	}
	s.must(f.Rollback(s.ctx))
	s.value(c, key, 0)
	f = s.begin()
	_, err = c.AddTx(s.ctx, f.Tx, key, 5, counter.Once("op"))
	s.must(err)
	s.must(f.Commit(s.ctx))
	s.value(c, key, 5)
}

func (s *suite[T]) joined() {
	c, key, undo := counter.New(s.DB, nil), s.key("j"), errors.New("undo")
	s.want(s.DB.Do(s.ctx, func(ctx context.Context, _ T) error {
		if _, err := c.Add(ctx, key, 5); err != nil {
			return err
		}
		if n, err := c.Get(ctx, key); err != nil || n != 5 {
			s.Errorf("the closure sees %d, %v", n, err)
		}
		if _, err := c.Take(ctx, key, 9); !errors.Is(err, counter.ErrInsufficient) {
			return err
		}
		if err := c.AddMany(ctx, []counter.Change{{Key: key, N: 1}}); err != nil {
			return err
		}
		return undo
	}), undo)
	s.value(c, key, 0)
}

func (s *suite[T]) arguments() {
	c := counter.New(s.DB, nil)
	for _, bad := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 10<<20)} {
		_, err := c.Add(s.ctx, bad, 1)
		_, err2 := c.Take(s.ctx, "k", 1, counter.Once(bad))
		_, err3 := c.Get(s.ctx, bad)
		for _, err := range []error{err, err2, err3, c.AddMany(s.ctx, []counter.Change{{Key: bad}}), c.Resize(s.ctx, bad, 2)} {
			var arg *counter.InputError
			if !errors.As(err, &arg) || len(err.Error()) > 200 || holdfast.OutcomeOf(err) != holdfast.NotApplied {
				s.Fatalf("got %v", err)
			}
		}
	}
	for _, n := range []int64{0, -1, math.MinInt64} {
		_, err := c.Take(s.ctx, "k", n)
		s.want(err, counter.ErrInvalid)
	}
	for _, n := range []int{0, -1, 3, 2048} {
		s.want(c.Resize(s.ctx, "k", n), counter.ErrInvalid)
	}
	_, err := c.Add(s.ctx, "k", 1, nil)
	s.want(err, counter.ErrInvalid)
	for _, key := range []string{`'; drop table counter; --`, `"`, "ü\n"} {
		_, err := c.Add(s.ctx, s.key(key), 1)
		s.must(err)
		s.value(c, s.key(key), 1)
	}
	if err := counter.NewColumn(s.DB, counter.Column{Table: "t", Key: "k"}, nil).Check(s.ctx); err == nil {
		s.Fatal("a column without a name passed")
	}
}

func (s *suite[T]) addMany() {
	var events []holdfast.Event
	c, a, b := counter.New(s.DB, &counter.Options{Observer: observe(&events)}), s.key("a"), s.key("b")
	s.must(c.AddMany(s.ctx, nil))
	s.must(c.AddMany(s.ctx, []counter.Change{{Key: b, N: 2}, {Key: a, N: 1}, {Key: b, N: 3}}))
	s.value(c, a, 1)
	s.value(c, b, 5)
	s.want(c.AddMany(s.ctx, []counter.Change{{Key: a, N: 1}, {Key: b, N: math.MaxInt64}}), counter.ErrOverflow)
	for range 2 {
		s.must(c.AddMany(s.ctx, []counter.Change{{Key: b, N: 2}, {Key: a, N: 1}}, counter.Once("op")))
	}
	s.value(c, a, 2)
	s.value(c, b, 7)
	if len(events) != 2 || events[0].Kind != counter.EventReplayed || events[0].Key != a || events[1].Key != b {
		s.Errorf("got %+v", events)
	}
}

// addManyStorm is C8: two transactions that add to A and B, and to B and A.
func (s *suite[T]) addManyStorm() {
	var deadlocks atomic.Int64
	db := s.DB.Observed(holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
		var coded interface{ SQLState() string }
		if errors.As(e.Err, &coded) && coded.SQLState() == "40P01" {
			deadlocks.Add(1) // the victim runs again
		}
	}))
	c, a, b := counter.New(db, nil), s.key("a"), s.key("b")
	s.crowd(64, func(i int) {
		changes := []counter.Change{{Key: a, N: 1}, {Key: b, N: 1}}
		if i%2 == 0 {
			changes[0], changes[1] = changes[1], changes[0]
		}
		if err := c.AddMany(s.ctx, changes); err != nil {
			s.Error(err)
		}
	})
	s.value(c, a, 64)
	s.value(c, b, 64)
	if deadlocks.Load() > 0 {
		s.Errorf("%d deadlocks", deadlocks.Load())
	}
}

// takeStorm is C4: read, subtract, write.
func (s *suite[T]) takeStorm() {
	c, key := counter.New(s.DB, nil), s.key("stock")
	_, err := c.Add(s.ctx, key, 100)
	s.must(err)
	var got atomic.Int64
	s.crowd(200, func(int) {
		switch _, err := c.Take(s.ctx, key, 1); {
		case err == nil:
			got.Add(1)
		case !errors.Is(err, counter.ErrInsufficient):
			s.Error(err)
		}
	})
	s.value(c, key, 0)
	if got.Load() != 100 {
		s.Fatalf("%d were sold of 100", got.Load())
	}
}

// firstStorm is C9: locks on rows that are not there yet.
func (s *suite[T]) firstStorm() {
	key := s.key("new")
	processes := [2]*counter.Counters[T]{counter.New(s.DB, nil), counter.New(s.DB, &counter.Options{MaxBatch: 1})}
	var sum atomic.Int64
	s.crowd(100, func(i int) {
		c := processes[i%2]
		var err error
		switch delta := int64(i%7 + 1); i % 5 {
		case 0:
			delta = -1
			_, err = c.Take(s.ctx, key, 1)
			if err == nil {
				sum.Add(delta)
			}
		case 1:
			_, err = c.Add(s.ctx, key, delta, counter.Once(fmt.Sprint(i)))
			sum.Add(delta)
		case 2:
			err = c.AddMany(s.ctx, []counter.Change{{Key: key, N: delta}, {Key: s.key("newer"), N: 1}})
			sum.Add(delta)
		default:
			_, err = c.Add(s.ctx, key, delta)
			sum.Add(delta)
		}
		if err != nil && !(i%5 == 0 && errors.Is(err, counter.ErrInsufficient)) {
			s.Error(err)
		}
	})
	s.value(processes[0], key, sum.Load())
	s.value(processes[0], s.key("newer"), 20)
}

func (s *suite[T]) cancelled() {
	c, key := counter.New(s.DB, nil), s.key("c")
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := c.Add(ctx, key, 1)
	s.want(err, context.Canceled)
	if holdfast.OutcomeOf(err) != holdfast.NotApplied {
		s.Fatalf("got %v", err)
	}
	s.value(c, key, 0)
}

// crowd calls fn from n goroutines at once.
func (s *suite[T]) crowd(n int, fn func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	all.Wait()
}
