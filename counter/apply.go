package counter

import (
	"context"
	"errors"
	"math/rand/v2"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// apply makes a change in a transaction. The operation comes before the counter, everywhere: two that meet do not deadlock.
// If it returns a refusal, the transaction is as it was.
func (c *Counters[T]) apply(ctx context.Context, conn tx.Tx, ch change) (Result, error) {
	if !ch.once {
		return c.move(ctx, conn, ch)
	}
	fresh, err := c.mark(ctx, conn, ch.key, markOp{ch.op, ch.delta})
	if err != nil {
		return Result{}, err
	}
	if !fresh[ch.op] {
		return c.replay(ctx, conn, ch)
	}
	res, err := c.move(ctx, conn, ch)
	if isRefusal(err) {
		if _, dropErr := conn.Exec(ctx, c.ops.drop, c.place.scope, ch.key, ch.op); dropErr != nil {
			return Result{}, dropErr
		}
	}
	return res, err
}

// mark writes down operations and returns those that are new.
func (c *Counters[T]) mark(ctx context.Context, conn tx.Conn, key string, marks ...markOp) (map[string]bool, error) {
	rows, err := conn.Query(ctx, c.ops.mark, c.place.scope, key, c.o.TTL.Microseconds(), marksJSON(marks...))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	fresh := map[string]bool{}
	for rows.Next() {
		var op string
		if err := rows.Scan(&op); err != nil {
			return nil, err
		}
		fresh[op] = true
	}
	return fresh, rows.Err()
}

// replay answers for an operation that has been applied, unless it was another one.
func (c *Counters[T]) replay(ctx context.Context, conn tx.Conn, ch change) (Result, error) {
	var had int64
	err := conn.QueryRow(ctx, c.ops.known, c.place.scope, ch.key, ch.op).Scan(&had)
	if errors.Is(err, tx.ErrNoRows) { // swept meanwhile: nobody knows the amount any more
		return Result{Replayed: true}, nil
	}
	if err != nil {
		return Result{}, err
	}
	return ch.repeated(had)
}

// move changes a slot, and where that one does not allow it all of them.
func (c *Counters[T]) move(ctx context.Context, conn tx.Tx, ch change) (Result, error) {
	one := c.moveOne
	if c.slotsOf(ch.key) > 1 && conn.Dialect().Capabilities.AbortsOnError {
		one = func(ctx context.Context, _ tx.Conn, ch change) (Result, bool, error) {
			return c.moveApart(ctx, conn, ch)
		}
	}
	res, ok, err := one(ctx, conn, ch)
	if ok || err != nil {
		return res, err
	}
	if c.slotsOf(ch.key) > 1 {
		c.slots.Delete(ch.key) // perhaps it has fewer now
	}
	return c.moveAll(ctx, conn, ch)
}

// moveOne changes one slot. It reports whether that could be done.
func (c *Counters[T]) moveOne(ctx context.Context, conn tx.Conn, ch change) (res Result, ok bool, err error) {
	slot := c.pick(ch.key)
	var value, slots int64
	if c.place.own && slot == 0 && !ch.floor {
		err = conn.QueryRow(ctx, c.place.first, ch.key, ch.delta).Scan(&value, &slots)
	} else {
		args := []any{ch.key, ch.delta, flag(ch.floor)}
		if c.place.own {
			args = append(args, slot)
		}
		err = conn.QueryRow(ctx, c.place.change, args...).Scan(&value, &slots)
	}
	if errors.Is(err, tx.ErrNoRows) {
		return Result{}, false, nil
	}
	if err != nil {
		return Result{}, false, err
	}
	return c.moved(ch.key, value, slots), true, nil
}

// moveApart is moveOne for a counter in slots, in a transaction that goes on to lock all of them, in order, if this one will not
// do. It leaves none locked then.
func (c *Counters[T]) moveApart(ctx context.Context, conn tx.Tx, ch change) (Result, bool, error) {
	var value, slots, one int64
	err := conn.Batch(ctx, &tx.Stmt{SQL: tx.SetSavepoint},
		&tx.Stmt{SQL: c.place.apart, Args: []any{ch.key, ch.delta, flag(ch.floor), c.pick(ch.key)}, Dest: []any{&value, &slots, &one}},
		&tx.Stmt{SQL: tx.ReleaseSavepoint})
	if err == nil {
		return c.moved(ch.key, value, slots), true, nil
	}
	if sqlState(err) != divisionByZero {
		return Result{}, false, err
	}
	return Result{}, false, conn.Batch(ctx, &tx.Stmt{SQL: tx.BackToSavepoint}, &tx.Stmt{SQL: tx.ReleaseSavepoint})
}

const divisionByZero = "22012"

// moved notes what a statement told of a counter.
func (c *Counters[T]) moved(key string, value, slots int64) Result {
	if slots == 1 {
		if c.slotsOf(key) > 1 {
			c.slots.Delete(key)
		}
		return Result{Value: value, Exact: true}
	}
	if c.slotsOf(key) != slots {
		c.slots.Store(key, slots)
	}
	return Result{}
}

func (c *Counters[T]) slotsOf(key string) int64 {
	if n, ok := c.slots.Load(key); ok {
		return n.(int64)
	}
	return 1
}

// pick chooses a slot.
func (c *Counters[T]) pick(key string) int64 {
	if n := c.slotsOf(key); n > 1 {
		return rand.Int64N(n) //nolint:gosec // any slot does
	}
	return 0
}

// flag is a bool for both dialects.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// tell tells the observer what became of a call.
func (c *Counters[T]) tell(ctx context.Context, ch change, res Result, err error) {
	e := holdfast.Event{Name: c.place.scope, Key: ch.key, Err: err}
	var insufficient *InsufficientError
	switch {
	case errors.As(err, &insufficient):
		e.Kind, e.Count = EventInsufficient, insufficient.Have
	case err == nil && res.Replayed:
		e.Kind = EventReplayed
	default:
		return
	}
	holdfast.Observe(ctx, c.o.Observer, e)
}
