package counter

import (
	"context"
	"slices"
	"strings"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// A Change is one of several that are made together.
type Change struct {
	Key string
	// N is added. It may be negative.
	N int64
}

// AddMany makes several changes in one transaction of its own: all, or none. They are made in the order of their keys,
// whatever that of the arguments, so that two calls do not deadlock; amounts for one key are added up. In a closure of the
// same DB it joins its transaction, as [Counters.AddManyTx] does. With [Once] each counter counts the operation once.
//
// It returns the errors of [Counters.Add].
func (c *Counters[T]) AddMany(ctx context.Context, changes []Change, options ...Option) error {
	list, err := c.many(changes, options)
	if err != nil || len(list) == 0 {
		return err
	}
	if t, ok := c.db.Current(ctx); ok {
		return c.addMany(ctx, t, list)
	}
	if !c.lanes.enter() {
		return ErrClosed
	}
	defer c.lanes.leave()
	run := func(ctx context.Context) error {
		return c.db.Do(ctx, func(ctx context.Context, t T) error { return c.applyMany(ctx, c.db.Tx(t), list) })
	}
	lost := run(ctx)
	if lost == nil || holdfast.OutcomeOf(lost) == holdfast.NotApplied {
		return c.explain(lost, keysOf(list)...)
	}
	if !list[0].once {
		return unknown(lost)
	}
	return again(ctx, c.o.BatchTimeout, lost, run)
}

// AddManyTx is [Counters.AddMany] in the caller's transaction. A refusal undoes the changes of this call, and leaves the
// transaction usable.
func (c *Counters[T]) AddManyTx(ctx context.Context, t T, changes []Change, options ...Option) error {
	list, err := c.many(changes, options)
	if err != nil || len(list) == 0 {
		return err
	}
	return c.addMany(ctx, t, list)
}

// many checks the changes, adds up those of one key, and sorts them.
func (c *Counters[T]) many(changes []Change, options []Option) ([]change, error) {
	if c.err != nil {
		return nil, c.err
	}
	byKey := map[string]change{}
	for _, one := range changes {
		ch, err := newChange(one.Key, one.N, options)
		if err != nil {
			return nil, err
		}
		if before, ok := byKey[ch.key]; ok {
			if _, err := total(ch.key, []slot{{n: before.delta}, {n: ch.delta}}); err != nil {
				return nil, err
			}
			ch.delta += before.delta
		}
		byKey[ch.key] = ch
	}
	list := make([]change, 0, len(byKey))
	for _, ch := range byKey {
		list = append(list, ch)
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.key, b.key) })
	return list, nil
}

func (c *Counters[T]) addMany(ctx context.Context, t T, list []change) error {
	err := c.db.Nested(ctx, t, func(ctx context.Context, t T) error { return c.applyMany(ctx, c.db.Tx(t), list) })
	return c.explain(err, keysOf(list)...)
}

func keysOf(list []change) []string {
	keys := make([]string, len(list))
	for i, ch := range list {
		keys[i] = ch.key
	}
	return keys
}

// applyMany sends plain additions in one round trip, and sees to those that this did not do one by one.
func (c *Counters[T]) applyMany(ctx context.Context, conn tx.Tx, list []change) error {
	if list[0].once {
		for _, ch := range list {
			res, err := c.apply(ctx, conn, ch)
			if c.tell(ctx, ch, res, err); err != nil {
				return err
			}
		}
		return nil
	}
	stmts := make([]*tx.Stmt, len(list))
	for i, ch := range list {
		stmts[i] = &tx.Stmt{SQL: c.place.first, Args: []any{ch.key, ch.delta}, Dest: []any{new(int64), new(int64)}}
		if !c.place.own {
			stmts[i].SQL, stmts[i].Args = c.place.change, []any{ch.key, ch.delta, flag(false)}
		}
	}
	if err := conn.Batch(ctx, stmts...); err != nil {
		return err
	}
	for i, ch := range list {
		if stmts[i].Found {
			continue
		}
		res, err := c.moveAll(ctx, conn, ch)
		if c.tell(ctx, ch, res, err); err != nil {
			return err
		}
	}
	return nil
}
