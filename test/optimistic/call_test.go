package optimistic_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

// A worker makes one call after the other, with the versions that it has seen.
type worker[T any] struct {
	*round[T]
	*rand.Rand
	number int
	seen   map[string]int64
}

// call makes one call and records it.
func (w *worker[T]) call(id string, value int64) {
	if w.proxy != nil && w.IntN(4) == 0 {
		cut := w.proxy.CutReplyTo
		if w.IntN(3) == 0 {
			cut = w.proxy.CutBefore
		}
		words := []string{"update", "insert", "delete", "commit"}[w.IntN(4)]
		defer cut(wire.Runs(words)).Disarm()
	}
	name := w.row(w.IntN(fewRows))
	kind := w.IntN(13)
	if kind == 4 && w.round.number%2 == 0 { // rows are deleted in every other round: see row.deleted
		kind = 8
	}
	switch kind {
	case 0:
		w.read(id, name)
	case 1:
		w.batch(id, value)
	case 2:
		w.update(id, name, value)
	case 3:
		w.edit(id, name, value)
	case 4:
		w.write(&record{id: id, row: name, verb: remove, expected: w.guess(name)})
	case 5, 6, 7:
		w.write(&record{id: id, row: name, verb: insert, value: value})
	default:
		w.write(&record{id: id, row: name, verb: set, expected: w.guess(name), value: value})
	}
}

// guess is mostly what the worker has seen.
func (w *worker[T]) guess(name string) int64 {
	switch w.IntN(10) {
	case 0:
		return anyVersion
	case 1:
		return w.seen[name] + 1
	}
	return w.seen[name]
}

func wantOf(rec *record, token string) optimistic.Want {
	want := optimistic.Want{Key: rec.row, Version: optimistic.At(rec.expected), Token: token}
	if rec.expected == anyVersion {
		want.Version = optimistic.Any()
	}
	return want
}

// write sets, deletes or inserts by one call; half of them with a token, and then again when it is not known what came of it. The
// row tells whether that was applied for as long as nobody else writes it: both calls stand in the history.
func (w *worker[T]) write(rec *record) {
	token := ""
	if rec.verb != remove && w.IntN(2) == 0 {
		token = rec.row + rec.id
	}
	set := map[string]any{"size": rec.value}
	do := func() (optimistic.Version, error) {
		switch want := wantOf(rec, token); rec.verb {
		case remove:
			return w.docs.Delete(context.Background(), want)
		case insert:
			want.Version = optimistic.Version{}
			return w.docs.Insert(context.Background(), want, set)
		default:
			return w.docs.Set(context.Background(), want, set)
		}
	}
	rec.from = time.Since(w.started)
	v, err := do()
	w.end(rec, v, err)
	if token != "" && rec.saw == unknown && rec.expected != anyVersion {
		again := *rec
		rec, again.again, again.from = &again, true, time.Since(w.started)
		v, err = do()
		w.end(rec, v, err)
	}
}

// batch writes all rows. On each it counts as a write by itself.
func (w *worker[T]) batch(id string, value int64) {
	var records []*record
	var items []optimistic.Item
	for _, i := range w.Perm(fewRows) {
		rec := &record{id: id, row: w.row(i), verb: set, value: value, from: time.Since(w.started)}
		for rec.expected = anyVersion; rec.expected == anyVersion; {
			rec.expected = w.guess(rec.row)
		}
		records = append(records, rec)
		items = append(items, optimistic.Item{Want: wantOf(rec, ""), Set: map[string]any{"size": value}})
	}
	results, err := w.docs.SetMany(context.Background(), items)
	for i, rec := range records {
		if err != nil {
			w.end(rec, optimistic.Version{}, err)
			continue
		}
		w.end(rec, results[i].Version, results[i].Err)
	}
}

// update reads, and writes what it makes of that.
func (w *worker[T]) update(id, name string, value int64) {
	rec := &record{id: id, row: name, verb: update, value: value, from: time.Since(w.started)}
	var v optimistic.Version
	err := w.docs.Update(context.Background(), name, func(ctx context.Context, t T) (err error) {
		v = optimistic.Version{}
		if rec.expected, rec.was, err = w.look(ctx, w.db.Tx(t), name); err != nil {
			if errors.Is(err, tx.ErrNoRows) {
				return optimistic.ErrNotFound
			}
			return err
		}
		v, err = w.docs.SetTx(ctx, t, optimistic.Want{Key: name, Version: optimistic.At(rec.expected)}, map[string]any{"size": value})
		return err
	})
	w.end(rec, v, err)
}

// edit is update in one call.
func (w *worker[T]) edit(id, name string, value int64) {
	rec := &record{id: id, row: name, verb: update, value: value, from: time.Since(w.started)}
	v, err := w.docs.Edit(context.Background(), optimistic.Want{Key: name}, map[string]any{"version": &rec.expected, "size": &rec.was},
		func(context.Context, T) (map[string]any, error) { return map[string]any{"size": value}, nil })
	w.end(rec, v, err)
}

func (w *worker[T]) read(id, name string) {
	rec := &record{id: id, row: name, verb: read, expected: anyVersion, from: time.Since(w.started)}
	n, value, err := w.look(context.Background(), w.db.Conn(), name)
	rec.value = value
	if errors.Is(err, tx.ErrNoRows) {
		err = optimistic.ErrNotFound
	}
	w.end(rec, optimistic.At(n), err)
}

// end records what came of a call.
func (w *worker[T]) end(rec *record, v optimistic.Version, err error) {
	rec.to = time.Since(w.started)
	var lost *optimistic.ConflictError
	switch {
	case err == nil:
		rec.saw = done
		rec.version, _ = v.Int64()
		w.seen[rec.row] = rec.version
	case holdfast.OutcomeOf(err) == holdfast.Unknown:
		rec.saw = unknown
	case errors.Is(err, optimistic.ErrUnmatched), rec.verb == update && errors.Is(err, optimistic.ErrConflict):
		rec.saw = nothing // the row had another version, and has this one now; or Update gave up
	case errors.As(err, &lost):
		rec.saw = conflict
		rec.version, _ = lost.Current.Int64()
		w.seen[rec.row] = rec.version
	case errors.Is(err, optimistic.ErrNotFound):
		rec.saw = absent
	case w.proxy == nil || holdfast.OutcomeOf(err) != holdfast.NotApplied:
		w.Errorf("%v: got %v", rec, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, rec)
}
