package counter_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A worker makes one call after the other, through one of the processes.
type worker[T any] struct {
	*round[T]
	*rand.Rand
	number int
}

// call makes one call and records it.
func (w *worker[T]) call(id string) {
	if w.proxy != nil && w.IntN(4) == 0 {
		cut := w.proxy.CutReplyTo
		if w.IntN(3) == 0 {
			cut = w.proxy.CutBefore
		}
		words := []string{"insert", "with holdfast_fresh", "update", "commit"}[w.IntN(4)]
		defer cut(wire.Runs(words)).Disarm()
	}
	rec := &record{id: id, key: w.key(w.IntN(fewKeys)), verb: add, n: w.Int64N(7) - 1}
	switch w.IntN(8) {
	case 0:
		rec.verb, rec.n = get, 0
	case 1, 2, 3:
		rec.verb, rec.n = take, -1-w.Int64N(4)
	case 4:
		rec.n = []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - 20}[w.IntN(3)]
	case 5:
		if w.slots && w.IntN(2) == 0 {
			rec.verb, rec.n = resize, int64(1)<<w.IntN(4)
		}
	}
	if rec.verb != get && rec.verb != resize && w.IntN(2) == 0 {
		rec.op = []string{"a", "b", "c", id}[w.IntN(4)]
	}
	w.make(rec)
}

// make makes the call of rec, by a verb that begins a transaction or by one that joins it.
func (w *worker[T]) make(rec *record) {
	ctx, c := context.Background(), w.processes[w.number%len(w.processes)]
	timed := w.timed && w.IntN(10) == 0
	if timed {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.IntN(int(3*time.Millisecond))))
		defer cancel()
	}
	var options []counter.Option
	if rec.op != "" {
		options = append(options, counter.Once(rec.op))
	}
	joined := w.IntN(4) == 0
	rec.from = time.Since(w.started)
	var res counter.Result
	var err error
	switch {
	case rec.verb == get:
		res.Value, err = c.Get(ctx, rec.key)
	case rec.verb == resize:
		err = c.Resize(ctx, rec.key, int(rec.n))
	case joined:
		err = w.db.Do(ctx, func(ctx context.Context, t T) (err error) {
			if rec.verb == take {
				res, err = c.TakeTx(ctx, t, rec.key, -rec.n, options...)
			} else {
				res, err = c.AddTx(ctx, t, rec.key, rec.n, options...)
			}
			return err
		})
	case rec.verb == take:
		res, err = c.Take(ctx, rec.key, -rec.n, options...)
	default:
		res, err = c.Add(ctx, rec.key, rec.n, options...)
	}
	rec.again = rec.op != "" && (timed || w.proxy != nil) && !joined
	w.end(rec, res, err)
}

// end records what came of a call.
func (w *worker[T]) end(rec *record, res counter.Result, err error) {
	rec.to = time.Since(w.started)
	var short *counter.InsufficientError
	switch {
	case err == nil && res.Replayed:
		rec.saw = replayed
	case err == nil:
		rec.saw, rec.value, rec.exact = done, res.Value, res.Exact
	case holdfast.OutcomeOf(err) == holdfast.Unknown:
		rec.saw = unknown
	case errors.As(err, &short):
		rec.saw, rec.value = insufficient, short.Have
	case errors.Is(err, counter.ErrOverflow):
		rec.saw = overflow
	case errors.Is(err, counter.ErrMismatch):
		rec.saw = mismatch
	case errors.Is(err, context.DeadlineExceeded):
		rec.saw = nothing
	case w.proxy == nil:
		w.Errorf("%v: got %v", rec, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, rec)
}
