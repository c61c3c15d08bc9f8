package counter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// A slot is a row of a counter.
type slot struct {
	number, slots, n int64
}

// lock locks all slots of a counter in order, the first of them first, and returns them. Whoever holds the first keeps all
// others from changing the number of slots.
func (c *Counters[T]) lock(ctx context.Context, conn tx.Conn, key string) ([]slot, error) {
	var first slot
	err := conn.QueryRow(ctx, c.place.lock, key).Scan(&first.number, &first.slots, &first.n)
	if errors.Is(err, tx.ErrNoRows) {
		return nil, nil
	}
	if err != nil || first.slots == 1 {
		return []slot{first}, err
	}
	rows, err := conn.Query(ctx, c.place.all, key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []slot
	for rows.Next() {
		var s slot
		if err := rows.Scan(&s.number, &s.slots, &s.n); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// lockOrMake is lock for a counter that may not be there yet.
func (c *Counters[T]) lockOrMake(ctx context.Context, conn tx.Conn, key string) ([]slot, error) {
	all, err := c.lock(ctx, conn, key)
	if err != nil || len(all) > 0 || !c.place.own {
		if err == nil && len(all) == 0 {
			err = &NotFoundError{Key: key}
		}
		return all, err
	}
	if _, err := conn.Exec(ctx, c.place.create, key); err != nil {
		return nil, err
	}
	if all, err = c.lock(ctx, conn, key); err == nil && len(all) == 0 {
		err = fmt.Errorf("counter: %q was deleted meanwhile", key)
	}
	return all, err
}

// moveAll changes a counter whose slots it locks.
func (c *Counters[T]) moveAll(ctx context.Context, conn tx.Tx, ch change) (Result, error) {
	var all []slot
	var err error
	if ch.floor && c.place.own {
		all, err = c.lock(ctx, conn, ch.key)
	} else {
		all, err = c.lockOrMake(ctx, conn, ch.key)
	}
	if err != nil {
		return Result{}, err
	}
	if len(all) == 0 {
		return Result{}, &InsufficientError{Key: ch.key, Want: negative(ch.delta)}
	}
	have, err := total(ch.key, all)
	if err != nil {
		return Result{}, err
	}
	if err := ch.refuse(have, c.place.largest, ch.floor || len(all) > 1); err != nil {
		return Result{}, err
	}
	c.moved(ch.key, 0, all[0].slots)
	return Result{Value: have + ch.delta, Exact: true}, c.write(ctx, conn, ch.key, all, ch.delta)
}

// total adds up slots.
func total(key string, all []slot) (int64, error) {
	var sum int64
	for _, s := range all {
		if s.n > 0 && sum > math.MaxInt64-s.n || s.n < 0 && sum < math.MinInt64-s.n {
			return 0, &OverflowError{Key: key, Have: sum, Add: s.n}
		}
		sum += s.n
	}
	return sum, nil
}

// write spreads a change that the total allows over slots: it goes into one, or comes out of it, after the other.
func (c *Counters[T]) write(ctx context.Context, conn tx.Tx, key string, all []slot, delta int64) error {
	slots, sum := int64(len(all)), delta
	var stmts []*tx.Stmt
	for i, s := range all {
		sum += s.n
		part := delta
		switch {
		case slots > 1 && delta < 0:
			part = max(delta, -s.n)
		case slots > 1:
			part = min(delta, max(0, math.MaxInt64/slots-s.n))
		}
		if part == 0 && i > 0 {
			continue
		}
		args := []any{key, s.n + part}
		if c.place.own {
			args = append(args, s.number)
		}
		stmts = append(stmts, &tx.Stmt{SQL: c.place.write, Args: args})
		if delta -= part; delta == 0 {
			return run(ctx, conn, stmts)
		}
	}
	return run(ctx, conn, c.spread(key, sum, slots)) // it is all but full
}

// run makes changes, each of one row.
func run(ctx context.Context, conn tx.Tx, stmts []*tx.Stmt) error {
	if err := conn.Batch(ctx, stmts...); err != nil {
		return err
	}
	for _, s := range stmts {
		if s.Affected != 1 {
			return ErrSuppressed
		}
	}
	return nil
}

// spread sets the slots of a counter to equal parts of a sum.
func (c *Counters[T]) spread(key string, sum, slots int64) (stmts []*tx.Stmt) {
	for i := range slots {
		part := sum / slots
		if i < sum%slots {
			part++
		}
		stmts = append(stmts, &tx.Stmt{SQL: c.place.put, Args: []any{key, i, slots, part}})
	}
	return stmts
}

// Get returns the value of a counter, over all its slots, as of one moment. A counter of ours that nobody has added to is 0.
//
// It returns [*NotFoundError], [*OverflowError] if slots that were written by other means exceed an int64, [*InputError],
// and the errors of the database.
func (c *Counters[T]) Get(ctx context.Context, key string) (int64, error) {
	if t, ok := c.db.Current(ctx); ok {
		return c.get(ctx, c.db.Tx(t), key)
	}
	return c.get(ctx, c.db.Conn(), key)
}

// GetTx is [Counters.Get] in the caller's transaction, and sees what that has done.
func (c *Counters[T]) GetTx(ctx context.Context, t T, key string) (int64, error) {
	return c.get(ctx, c.db.Tx(t), key)
}

func (c *Counters[T]) get(ctx context.Context, conn tx.Conn, key string) (int64, error) {
	if c.err != nil {
		return 0, c.err
	}
	if err := checkText("key", key); err != nil {
		return 0, err
	}
	var rows int64
	var text string
	if err := conn.QueryRow(ctx, c.place.read, key).Scan(&rows, &text); err != nil {
		return 0, c.explain(&tx.AbortError{Err: err, Class: c.db.Classify(err), Attempts: 1}, key)
	}
	if rows == 0 && !c.place.own {
		return 0, &NotFoundError{Key: key}
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || !n.IsInt64() {
		return 0, &OverflowError{Key: key, Have: math.MaxInt64}
	}
	return n.Int64(), nil
}

// maxSlots bounds the rows of a counter.
const maxSlots = 1024

// Resize sets the number of slots of a counter, a power of two up to 1024, and spreads its value over them. Changes go to
// one slot each, so that transactions of several processes do not wait for each other; they may go on meanwhile, and no unit
// is lost. The number is kept with the counter, and other processes learn of it with their next change.
//
// A counter in slots does not go below 0: each slot alone could not know. A counter that is below cannot be put into slots.
//
// It returns [*InsufficientError], [*InputError], [ErrClosed], and the errors of [tx.DB.Do].
func (c *Counters[T]) Resize(ctx context.Context, key string, slots int) error {
	if c.err != nil {
		return c.err
	}
	if err := checkText("key", key); err != nil {
		return err
	}
	switch {
	case !c.place.own:
		return &InputError{Name: "counter", Reason: "is a column of a table of yours: it has one slot"}
	case slots < 1 || slots > maxSlots || slots&(slots-1) != 0:
		return &InputError{Name: "number of slots", Reason: fmt.Sprintf("is %d: give a power of two from 1 to %d", slots, maxSlots)}
	}
	if !c.lanes.enter() {
		return ErrClosed
	}
	defer c.lanes.leave()
	err := c.db.Do(ctx, func(ctx context.Context, t T) error { return c.resize(ctx, c.db.Tx(t), key, int64(slots)) })
	if err == nil {
		c.moved(key, 0, int64(slots))
		holdfast.Observe(ctx, c.o.Observer, holdfast.Event{Kind: EventResized, Name: c.place.scope, Key: key, Count: int64(slots)})
	}
	return err
}

func (c *Counters[T]) resize(ctx context.Context, conn tx.Tx, key string, slots int64) error {
	all, err := c.lockOrMake(ctx, conn, key)
	if err != nil {
		return err
	}
	sum, err := total(key, all)
	if err != nil {
		return err
	}
	if sum < 0 && slots > 1 {
		return &InsufficientError{Key: key, Have: sum}
	}
	stmts := []*tx.Stmt{{SQL: c.place.shrink, Args: []any{key, slots}}}
	return conn.Batch(ctx, append(stmts, c.spread(key, sum, slots)...)...)
}
