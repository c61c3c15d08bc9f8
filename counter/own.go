package counter

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// alone makes a change in a transaction of its own.
func (c *Counters[T]) alone(ctx context.Context, ch change) (Result, error) {
	if err := context.Cause(ctx); err != nil {
		return Result{}, &tx.AbortError{Err: err}
	}
	if c.db.Dialect() == tx.PostgreSQL {
		res, done, err := c.statement(ctx, ch)
		if done || err != nil && !(ch.once && holdfast.OutcomeOf(err) == holdfast.Unknown) {
			return res, err
		}
		if err != nil {
			return c.repeat(ctx, ch, err)
		}
	}
	res, err := c.transaction(ctx, ch)
	if err == nil || holdfast.OutcomeOf(err) == holdfast.NotApplied {
		return res, err
	}
	return c.repeat(ctx, ch, err)
}

// repeat finds out what became of a change whose reply was lost, by making the same operation again: it waits for the first,
// and does nothing if that took effect. An error of a repetition proves nothing of the first.
func (c *Counters[T]) repeat(ctx context.Context, ch change, lost error) (Result, error) {
	if !ch.once {
		return Result{}, unknown(lost)
	}
	var res Result
	err := again(ctx, c.o.BatchTimeout, lost, func(ctx context.Context) (err error) {
		res, err = c.transaction(ctx, ch)
		return err
	})
	res.Replayed = false // it may well be ours that was found
	return res, err
}

// again calls run, of which repetitions do nothing, until it succeeds.
func again(ctx context.Context, timeout time.Duration, lost error, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for range repeats {
		err := run(ctx)
		if err == nil {
			return nil
		}
		lost = errors.Join(lost, err)
	}
	return unknown(lost)
}

// repeats is how often what may have been applied is made again.
const repeats = 2

func unknown(err error) error {
	return &UnknownError{Err: err}
}

// statement makes a change by one statement, committed at once. It is not done where that takes more than one.
func (c *Counters[T]) statement(ctx context.Context, ch change) (res Result, done bool, err error) {
	conn := c.db.Conn()
	if !ch.once {
		res, done, err = c.moveOne(ctx, conn, ch)
	} else {
		var fresh map[string]bool
		res, fresh, err = c.moveOnce(ctx, conn, ch.key, ch.floor, markOp{ch.op, ch.delta}, "")
		done = err == nil
		if done && !fresh[ch.op] {
			if res, err = c.replay(ctx, conn, ch); isRefusal(err) {
				return res, true, err
			}
		}
	}
	if err == nil || c.failsAlone(err) {
		return res, done && err == nil, nil
	}
	return res, false, c.failed(err)
}

// moveOnce makes changes that have operation IDs, by one statement: those that are new. gone is an operation to forget.
func (c *Counters[T]) moveOnce(
	ctx context.Context, conn tx.Conn, key string, floor bool, mark markOp, gone string, more ...markOp,
) (res Result, fresh map[string]bool, err error) {
	args := []any{c.place.scope, key, c.o.TTL.Microseconds(), marksJSON(append(more, mark)...), gone, flag(floor)}
	if c.place.own {
		args = append(args, c.pick(key))
	} else {
		args = append(args, key)
	}
	var text string
	var value, slots, one int64
	if err := conn.QueryRow(ctx, c.place.once, args...).Scan(&text, &value, &slots, &one); err != nil {
		return Result{}, nil, err
	}
	var ops []string
	if err := json.Unmarshal([]byte(text), &ops); err != nil {
		return Result{}, nil, err
	}
	fresh = map[string]bool{}
	for _, op := range ops {
		fresh[op] = true
	}
	if len(ops) == 0 {
		return Result{}, fresh, nil
	}
	return c.moved(key, value, slots), fresh, nil
}

// failsAlone reports whether a statement failed as a transaction of several may not: it lost a race, or it refused itself by a
// division by zero.
func (c *Counters[T]) failsAlone(err error) bool {
	return c.db.Classify(err) == tx.Retryable || sqlState(err) == divisionByZero
}

// transaction makes a change in a transaction, statement by statement.
func (c *Counters[T]) transaction(ctx context.Context, ch change) (res Result, err error) {
	err = c.db.Run(ctx, tx.Plan[T]{Work: func(ctx context.Context, t T) (err error) {
		res, err = c.apply(ctx, c.db.Tx(t), ch)
		return err
	}})
	if err != nil {
		return Result{}, err
	}
	return res, nil
}

// failed returns the error of a statement that is committed at once. What the server said proves that it had no effect.
func (c *Counters[T]) failed(err error) error {
	if holdfast.OutcomeOf(err) == holdfast.NotApplied {
		return err
	}
	class := c.db.Classify(err)
	if class == tx.NotSent || sqlState(err) != "" && class != tx.Lost {
		return &tx.AbortError{Err: err, Class: class, Attempts: 1}
	}
	return &UnknownError{Err: err}
}

func sqlState(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}
