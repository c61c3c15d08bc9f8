package countertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
)

func batchRules[T any]() []rule[T] {
	return []rule[T]{
		{"Batch", "Calls at the same moment share commits, and each gets the value after its own change.", (*suite[T]).batch},
		{"BatchMixed", "Takes, additions and operation IDs share commits, each with its own answer.", (*suite[T]).batchMixed},
		{"BatchOneID", "Of calls with one operation ID in a batch one is applied, also after a refused one.", (*suite[T]).batchOneID},
		{"BatchSplit", "A call that cannot be done spoils no other.", (*suite[T]).batchSplit},
		{"BatchConstraint", "A change that a constraint of the table refuses spoils no other.", (*suite[T]).batchConstraint},
		{"BatchEnds", "Amounts that fit together in some order only get values that the counter can have.", (*suite[T]).batchEnds},
		{"BatchBounds", "Amounts that fit together but not alone are refused.", (*suite[T]).batchBounds},
		{"BatchFailed", "A batch that could not be written is told to each call, and counts neither now nor later.", (*suite[T]).batchFailed},
		{"BatchPanics", "A driver that panics, or ends its goroutine, leaves no call of a batch waiting.", (*suite[T]).batchPanics},
		{"BatchObserver", "An observer that panics, or ends its goroutine, changes no answer and leaves no call waiting.", (*suite[T]).batchObserver},
		{"BatchHopeless", "What no call of a batch could mend is asked once for all of them.", (*suite[T]).batchHopeless},
		{"BatchCancelled", "A call that ends before a batch took it is not counted; one that ends later says unknown.", (*suite[T]).batchCancelled},
		{"BatchFull", "Callers who come again as soon as they are answered share the next commit too.", (*suite[T]).batchFull},
		{"BatchMarker", "However many shared commits there were, one marker is left of those of a counter.", (*suite[T]).batchMarker},
		{"Close", "Close refuses what comes later, and what was acknowledged is there.", (*suite[T]).close},
		{"CloseWaits", "Close waits for whatever changes a counter.", (*suite[T]).closeWaits},
	}
}

// observe keeps events.
func observe(events *[]holdfast.Event) holdfast.ObserverFunc {
	var mu sync.Mutex // guards events
	return func(_ context.Context, e holdfast.Event) {
		mu.Lock()
		defer mu.Unlock()
		*events = append(*events, e)
	}
}

func (s *suite[T]) batch() {
	var events []holdfast.Event
	c, key := counter.New(s.DB, &counter.Options{Observer: observe(&events), MaxBatch: 20}), s.key("k")
	var seen sync.Map
	s.crowd(64, func(int) {
		for range 4 {
			res, err := c.Add(s.ctx, key, 1)
			if err != nil {
				s.Error(err)
				return
			}
			if _, twice := seen.LoadOrStore(res.Value, true); twice || !res.Exact || res.Value < 1 || res.Value > 256 {
				s.Errorf("got %+v, twice: %v", res, twice)
			}
			// C11: an answer means that it is written, and not that it will be.
			if n, err := counter.New(s.DB, nil).Get(s.ctx, key); err != nil || n < res.Value {
				s.Errorf("another process sees %d, %v after %+v", n, err, res)
			}
		}
	})
	s.value(c, key, 256)
	shared := int64(0)
	for _, e := range events {
		if e.Kind != counter.EventBatch || e.Count > 20 || e.Count < 2 {
			s.Errorf("got %+v", e)
		}
		shared += e.Count
	}
	if shared < 128 {
		s.Errorf("%d calls of 256 shared a commit", shared)
	}
}

// batchFull has three tries, since it depends on when goroutines get their turn.
func (s *suite[T]) batchFull() {
	const callers, calls = 8, 50
	fewest := int64(callers * calls)
	for try := 0; try < 3 && fewest > calls*3/2; try++ {
		var commits atomic.Int64
		commits.Store(callers * calls)
		c := counter.New(s.DB, &counter.Options{Observer: holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
			commits.Add(1 - e.Count)
		})})
		key := s.key(fmt.Sprint("full", try))
		s.crowd(callers, func(int) {
			for range calls {
				_, err := c.Add(s.ctx, key, 1)
				s.must(err)
			}
		})
		s.value(c, key, callers*calls)
		fewest = min(fewest, commits.Load())
	}
	if fewest > calls*3/2 {
		s.Errorf("%d callers with %d calls each took %d commits", callers, calls, fewest)
	}
}

func (s *suite[T]) batchMarker() {
	var events []holdfast.Event
	c, key := counter.New(s.DB, &counter.Options{Observer: observe(&events)}), s.key("k")
	for range 5 { // nobody is left at the end of each
		s.crowd(16, func(int) {
			_, err := c.Add(s.ctx, key, 1)
			s.must(err)
		})
	}
	s.value(c, key, 80)
	var markers int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from counter_op where name = $1", key).Scan(&markers))
	if markers != 1 || len(events) < 2 {
		s.Errorf("%d markers are left of %d shared commits", markers, len(events))
	}
}

func (s *suite[T]) batchMixed() {
	c, key := counter.New(s.DB, nil), s.key("k")
	_, err := c.Add(s.ctx, key, 50)
	s.must(err)
	var sum, replayed atomic.Int64
	s.crowd(64, func(i int) {
		for n := range 4 {
			var res counter.Result
			var err error
			delta := int64(1)
			switch i % 4 {
			case 0:
				res, err = c.Add(s.ctx, key, delta)
			case 1:
				delta = -3
				res, err = c.Take(s.ctx, key, 3)
			case 2: // eight callers have the same IDs
				res, err = c.Add(s.ctx, key, delta, counter.Once(fmt.Sprint(i%8, "/", n)))
			default:
				delta = -1
				res, err = c.Take(s.ctx, key, 1, counter.Once(fmt.Sprint(i, "/", n)))
			}
			switch {
			case err == nil && res.Replayed:
				replayed.Add(1)
			case err == nil:
				sum.Add(delta)
			case !errors.Is(err, counter.ErrInsufficient):
				s.Error(err)
			}
		}
	})
	s.value(c, key, 50+sum.Load())
	if replayed.Load() != 64-8 {
		s.Errorf("%d repetitions, want %d", replayed.Load(), 64-8)
	}
}

// queued is a context that tells when somebody waits for its end, as a call does once it is in a queue.
type queued struct {
	context.Context
	told func()
}

func (q queued) Done() <-chan struct{} {
	q.told()
	return q.Context.Done()
}

// inBatch makes the first call, holds it at the database until the others stand behind it, in their order, and lets go.
func (s *suite[T]) inBatch(ask *atomic.Pointer[func() error], first func(), others ...func(ctx context.Context)) {
	s.inBatchThen(ask, nil, first, others...)
}

// inBatchThen is inBatch with what the database does after the first call.
func (s *suite[T]) inBatchThen(ask *atomic.Pointer[func() error], then *func() error, first func(), others ...func(ctx context.Context)) {
	held, free := make(chan struct{}), make(chan struct{})
	hold := func() error { ask.Store(then); close(held); <-free; return nil }
	ask.Store(&hold)
	var all sync.WaitGroup
	all.Go(first)
	<-held
	for _, call := range others {
		in := make(chan struct{})
		all.Go(func() { call(queued{s.ctx, sync.OnceFunc(func() { close(in) })}) })
		<-in
	}
	close(free)
	all.Wait()
}

func (s *suite[T]) batchOneID() {
	db, ask := s.gated()
	c, key := counter.New(db, nil), s.key("k")
	var others []func(ctx context.Context)
	for _, call := range []struct {
		n    int64
		op   string
		want error
		res  counter.Result
	}{
		{-5, "a", counter.ErrInsufficient, counter.Result{}},
		{2, "a", nil, counter.Result{Value: 3, Exact: true}},
		{2, "a", nil, counter.Result{Replayed: true}},
		{-5, "a", counter.ErrMismatch, counter.Result{}},
		{-9, "b", counter.ErrInsufficient, counter.Result{}},
		{0, "", nil, counter.Result{Value: 3, Exact: true}},
	} {
		others = append(others, func(ctx context.Context) {
			var options []counter.Option
			if call.op != "" {
				options = append(options, counter.Once(call.op))
			}
			n, verb := call.n, c.Add
			if n < 0 {
				n, verb = -n, c.Take
			}
			if res, err := verb(ctx, key, n, options...); res != call.res || !errors.Is(err, call.want) {
				s.Errorf("%+v: got %+v, %v", call, res, err)
			}
		})
	}
	s.inBatch(ask, func() {
		_, err := c.Add(s.ctx, key, 1)
		s.must(err)
	}, others...)
	res, err := c.Add(s.ctx, key, 2, counter.Once("a"))
	s.must(err)
	if !res.Replayed {
		s.Errorf("the operation was forgotten: got %+v", res)
	}
	_, err = c.Add(s.ctx, key, 5, counter.Once("b"))
	s.must(err)
	s.value(c, key, 8)
}

// batchSplit has callers whose amount does not fit after any other's.
func (s *suite[T]) batchSplit() {
	c, key := counter.New(s.DB, nil), s.key("k")
	_, err := c.Add(s.ctx, key, 1<<62)
	s.must(err)
	s.crowd(64, func(i int) {
		if i%8 == 0 {
			_, err := c.Add(s.ctx, key, 1<<62)
			if !errors.Is(err, counter.ErrOverflow) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
				s.Errorf("got %v", err)
			}
		} else if _, err := c.Add(s.ctx, key, 1); err != nil {
			s.Error(err)
		}
	})
	s.value(c, key, 1<<62+56)
}

// batchCancelled is C14.
func (s *suite[T]) batchCancelled() {
	c, key := counter.New(s.DB, nil), s.key("k")
	var applied, unknown atomic.Int64
	s.crowd(64, func(i int) {
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		if i%4 == 0 {
			go cancel()
		}
		_, err := c.Add(ctx, key, 1)
		switch holdfast.OutcomeOf(err) {
		case holdfast.Applied:
			applied.Add(1)
		case holdfast.Unknown:
			unknown.Add(1)
			if !errors.Is(err, counter.ErrOutcomeUnknown) {
				s.Error(err)
			}
		}
	})
	s.must(c.Close(s.ctx))
	got, err := counter.New(s.DB, nil).Get(s.ctx, key)
	s.must(err)
	if got < applied.Load() || got > applied.Load()+unknown.Load() {
		s.Fatalf("%d, with %d applied and %d unknown", got, applied.Load(), unknown.Load())
	}
}

func (s *suite[T]) close() {
	c, key := counter.New(s.DB, nil), s.key("k")
	var applied atomic.Int64
	s.crowd(64, func(i int) {
		if i == 32 {
			s.must(c.Close(s.ctx))
			return
		}
		switch _, err := c.Add(s.ctx, key, 1); {
		case err == nil:
			applied.Add(1)
		case !errors.Is(err, counter.ErrClosed) || holdfast.OutcomeOf(err) != holdfast.NotApplied:
			s.Error(err)
		}
	})
	s.must(c.Close(s.ctx))
	s.value(c, key, applied.Load())
	_, err := c.Add(s.ctx, key, 1)
	s.want(err, counter.ErrClosed)
}
