package optimistic

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/tx"
)

// maxBatch bounds a batch, so that its statement has no more parameters than an engine takes and its locks are not held for
// long.
const maxBatch = 1000

// An Item is one row of a batch, and what to set in it.
type Item struct {
	Want
	Set map[string]any
}

// A Result is what became of one item.
type Result struct {
	// Key is the row's key.
	Key any
	// Version is the new version if Err is nil, the current one after a conflict, and otherwise unset.
	Version Version
	// Err is nil if the item was written, or else what [Rows.Set] returns for it: a [*ConflictError], [ErrNotFound],
	// [ErrNoVersion] or [ErrUnmatched].
	Err error
}

// SetMany is [Rows.Set] for up to 1 000 rows in one statement, and tells for each what became of it: the results are in the order
// of the items. All set the same columns. Rows are locked in the order of their keys before any is written, so that
// two batches do not deadlock, and conflicts are those of the moment of the lock.
//
// On PostgreSQL values travel as JSON and take the types of the columns: what Set would write, but for a []byte, which is always a
// bytea, and for the spaces in a column of type json. A document for such a column is a text, or a json.RawMessage.
//
// It returns [ErrInvalid] before anything is written if a row occurs twice or the items differ in columns, and errors of the
// database as Set does: then nothing was written. Without a token, a lost reply of the whole batch is unknown.
func (r *Rows[T]) SetMany(ctx context.Context, items []Item) (results []Result, err error) {
	if t, ok := r.db.Current(ctx); ok {
		return r.SetManyTx(ctx, t, items)
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, &tx.AbortError{Err: cause}
	}
	if r.db.Dialect() == tx.PostgreSQL {
		results, err = r.setMany(ctx, r.db.Conn(), items)
		if err == nil || ours(err) {
			return results, err
		}
		if class := r.db.Classify(err); class != tx.Retryable {
			if refused(class, err) {
				return nil, &tx.AbortError{Err: err, Class: class, Attempts: 1}
			}
			return nil, &tx.CommitUnknownError{Err: err}
		}
	}
	err = r.db.Do(ctx, func(ctx context.Context, t T) (err error) {
		results, err = r.SetManyTx(ctx, t, items)
		return err
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// SetManyTx is [Rows.SetMany] in a transaction of the caller's, who decides whether to commit what was written when some items
// were not.
func (r *Rows[T]) SetManyTx(ctx context.Context, t T, items []Item) ([]Result, error) {
	return r.setMany(ctx, r.db.Tx(t), items)
}

func (r *Rows[T]) setMany(ctx context.Context, conn tx.Conn, items []Item) ([]Result, error) {
	columns, err := r.same(items)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	results, sent := make([]Result, len(items)), make([]int, 0, len(items))
	for i, item := range items {
		results[i].Key = item.Key
		if item.Version.IsSet() {
			sent = append(sent, i)
			continue
		}
		results[i].Err = ErrNoVersion
	}
	if len(sent) == 0 {
		return results, nil
	}
	run := r.manyPostgres
	if r.db.Dialect() == tx.SQLite {
		run = r.manySQLite
	}
	found := make([]found, len(items))
	if err := run(ctx, conn, columns, items, sent, found); err != nil {
		return nil, explain(err)
	}
	for _, i := range sent {
		results[i] = r.result(ctx, items[i].Want, found[i])
	}
	return results, nil
}

// found is what a batch says of one item.
type found struct {
	wrote   Version // the new version, unset if it was not written
	current Version // the version before
	token   string
}

func (r *Rows[T]) result(ctx context.Context, w Want, f found) Result {
	out := Result{Key: w.Key}
	switch {
	case f.wrote.IsSet():
		out.Version = f.wrote
	case !f.current.IsSet():
		out.Err = ErrNotFound
	default:
		out.Version = f.current
		_, out.Err = r.judge(ctx, w, f.current, f.token)
	}
	return out
}

// same returns the columns that all items set.
func (r *Rows[T]) same(items []Item) ([]string, error) {
	if r.err != nil {
		return nil, r.err
	}
	if len(items) > maxBatch {
		return nil, invalid("%d items are in the batch, at most %d are allowed", len(items), maxBatch)
	}
	var columns []string
	keys := make(map[string]int, len(items))
	for i, item := range items {
		if err := r.ready(item.Want); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if item.Version == Any() {
			return nil, invalid("item %d: a batch does not overwrite: it needs the version that was read", i)
		}
		key := nameOf(item.Key)
		if first, twice := keys[key]; twice {
			return nil, invalid("items %d and %d are of the same row", first, i)
		}
		keys[key] = i
		mine := slices.Sorted(maps.Keys(item.Set))
		if i == 0 {
			columns = mine
			if err := r.columns(item.Set); err != nil {
				return nil, err
			}
		} else if !slices.Equal(columns, mine) {
			return nil, invalid("items 0 and %d set different columns", i)
		}
	}
	return columns, nil
}
