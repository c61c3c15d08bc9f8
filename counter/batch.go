package counter

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// commit makes the changes of a batch in one commit, or, where one of them spoils it for the others, in several.
func (c *Counters[T]) commit(key string, in *lane, batch []*item) {
	if len(batch) == 1 {
		it := batch[0]
		ctx, cancel := context.WithTimeout(context.WithoutCancel(it.ctx), c.o.BatchTimeout)
		defer cancel()
		it.res, it.err = c.alone(ctx, it.change)
		it.known = true
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), c.o.BatchTimeout)
	defer cancel()
	started := time.Now()
	err := c.explain(c.batch(ctx, key, in, batch), key)
	for _, it := range batch { // before anybody is told who may panic
		if it.known = true; err != nil {
			it.res, it.err = Result{}, err
		}
	}
	holdfast.Observe(ctx, c.o.Observer, holdfast.Event{
		Kind: EventBatch, Name: c.place.scope, Key: key, Count: int64(len(batch)), Elapsed: time.Since(started), Err: err,
	})
	if err == nil || holdfast.OutcomeOf(err) != holdfast.NotApplied || hopeless(err) {
		return
	}
	for _, it := range batch {
		it.known = false
	}
	half := len(batch) / 2
	c.commit(key, in, batch[:half])
	c.commit(key, in, batch[half:])
}

// hopeless reports whether the items would fare no better alone: what data, constraints and triggers refuse may be the fault of
// one of them; locks that time out, privileges and a server that has enough are not.
func hopeless(err error) bool {
	if state := sqlState(err); len(state) == 5 {
		switch state[:2] {
		case "25", "28", "40", "42", "53", "55", "57", "58", "XX":
			return true
		}
	}
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid) || errors.Is(err, tx.ErrNotSent) ||
		errors.Is(err, tx.ErrReadOnly) || errors.Is(err, tx.ErrNotMigrated) || errors.Is(err, context.DeadlineExceeded)
}

// batch makes the changes of a batch in one commit. It leaves a marker there, by which a lost reply is looked up: the same
// marker again is refused if the commit took effect, and keeps one that is still under way from taking effect.
func (c *Counters[T]) batch(ctx context.Context, key string, in *lane, batch []*item) error {
	marker := "\u00a0batch " + rand.Text()
	once := func(ctx context.Context) error { return c.batchOnce(ctx, key, marker, in.marker, batch) }
	err := once(ctx)
	if err != nil && holdfast.OutcomeOf(err) != holdfast.NotApplied {
		err = again(ctx, c.o.BatchTimeout, err, once)
	}
	if err == nil {
		in.marker = marker
	}
	return err
}

// batchOnce is one attempt. Results that are already there are of one that turns out to have taken effect.
func (c *Counters[T]) batchOnce(ctx context.Context, key, marker, gone string, batch []*item) error {
	if c.db.Dialect() == tx.PostgreSQL && onlyAdds(batch) {
		done, err := c.batchStatement(ctx, key, marker, gone, batch)
		if done || err != nil {
			return err
		}
	}
	return c.db.Run(ctx, tx.Plan[T]{Work: func(ctx context.Context, t T) error {
		return c.batchTx(ctx, c.db.Tx(t), key, marker, gone, batch)
	}})
}

func onlyAdds(batch []*item) bool {
	for _, it := range batch {
		if it.floor || it.once {
			return false
		}
	}
	return true
}

// batchStatement adds the sum of plain additions, by one statement.
func (c *Counters[T]) batchStatement(ctx context.Context, key, marker, gone string, batch []*item) (done bool, err error) {
	sum := sumOf(batch)
	res, fresh, err := c.moveOnce(ctx, c.db.Conn(), key, false, markOp{marker, sum}, gone)
	if err != nil {
		if c.failsAlone(err) {
			return false, nil
		}
		return false, c.failed(err)
	}
	if !fresh[marker] {
		err := c.settle(ctx, c.db.Conn(), key, marker, batch)
		return err == nil, err
	}
	inOrder(batch, res.Value-sum, res.Exact)
	return true, nil
}

func sumOf(batch []*item) (sum int64) {
	for _, it := range batch {
		sum += it.delta
	}
	return sum
}

// inOrder gives additions their values, in an order in which all of them fit: away from the nearer end first.
func inOrder(batch []*item, value int64, exact bool) {
	down := value >= 0
	for _, first := range []bool{true, false} {
		for _, it := range batch {
			if ((it.delta < 0) == down) != first {
				continue
			}
			value += it.delta
			if it.res, it.err = (Result{}), nil; exact {
				it.res = Result{Value: value, Exact: true}
			}
		}
	}
}

// settle finds out which attempt did what was done. Those in a transaction left their results, of which the last are those
// of the one that did it. The statement did all, and its reply was lost.
func (c *Counters[T]) settle(ctx context.Context, conn tx.Conn, key, marker string, batch []*item) error {
	var had int64
	if err := conn.QueryRow(ctx, c.ops.known, c.place.scope, key, marker).Scan(&had); err != nil {
		return err
	}
	if had == sumOf(batch) {
		inOrder(batch, 0, false)
	}
	return nil
}

// batchTx makes the changes in a transaction: operations first, then the counter, then what has to be forgotten. The amount
// of its marker is not that of the statement, see settle.
func (c *Counters[T]) batchTx(ctx context.Context, conn tx.Tx, key, marker, gone string, batch []*item) error {
	marked := map[string]int64{}
	marks := []markOp{{marker, ^sumOf(batch)}}
	for _, it := range batch {
		if _, twice := marked[it.op]; it.once && !twice {
			marked[it.op] = it.delta
			marks = append(marks, markOp{it.op, it.delta})
		}
	}
	fresh, err := c.mark(ctx, conn, key, marks...)
	if err != nil {
		return err
	}
	if !fresh[marker] {
		if err := c.settle(ctx, conn, key, marker, batch); err != nil {
			return err
		}
		return tx.ErrDiscard // what is marked now are operations that were refused
	}
	all, err := c.lockOrMake(ctx, conn, key)
	if err != nil {
		return err
	}
	have, err := total(key, all)
	if err != nil {
		return err
	}
	sum := int64(0)
	made := map[string]int64{} // by an item of this batch
	for _, it := range batch {
		it.res, it.err = Result{}, nil
		had, twice := made[it.op]
		switch {
		case it.once && twice:
			it.res, it.err = it.repeated(had)
		case it.once && !fresh[it.op]:
			if it.res, it.err = c.replay(ctx, conn, it.change); it.err != nil && !isRefusal(it.err) {
				return it.err
			}
		default:
			if it.err = it.refuse(have+sum, c.place.largest, it.floor || len(all) > 1); it.err != nil {
				continue // another item may yet have this operation
			}
			if it.once {
				made[it.op] = it.delta
			}
			sum += it.delta
			it.res = Result{Value: have + sum, Exact: true}
		}
	}
	if err := c.keepMade(ctx, conn, key, gone, fresh, marked, made); err != nil {
		return err
	}
	c.moved(key, 0, all[0].slots)
	return c.write(ctx, conn, key, all, sum)
}

// keepMade leaves, of the operations that a batch marked, those that it made, with the amounts of those.
func (c *Counters[T]) keepMade(
	ctx context.Context, conn tx.Tx, key, gone string, fresh map[string]bool, marked, made map[string]int64,
) error {
	var drop []string
	var again []markOp
	if gone != "" {
		drop = append(drop, gone)
	}
	for op, delta := range marked {
		had, ok := made[op]
		if !fresh[op] || ok && had == delta {
			continue
		}
		drop = append(drop, op)
		if ok {
			again = append(again, markOp{op, had})
		}
	}
	for _, op := range drop {
		if _, err := conn.Exec(ctx, c.ops.drop, c.place.scope, key, op); err != nil {
			return err
		}
	}
	if len(again) == 0 {
		return nil
	}
	_, err := c.mark(ctx, conn, key, again...)
	return err
}
