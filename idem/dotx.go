package idem

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// DoTx is [Do] in a transaction of the caller's: the claim, the work and the answer become visible when the caller
// commits, or not at all. It never commits, rolls back or retries, and a refusal leaves t usable. A savepoint keeps what
// fn wrote apart: after an error of fn, and for a failure that is stored, only that is undone.
//
// A duplicate in another transaction is refused, or waits, until the caller's transaction ends; keep it short. While it
// waits it holds t. At READ COMMITTED all of this holds as in Do. At REPEATABLE READ and SERIALIZABLE the transaction may
// have begun before the answer of an earlier call was committed: then the claim is a serialization failure, before fn
// runs, and the caller's whole transaction must run again.
//
// On pgx it costs two round trips around those of fn, and one for an answer or refusal plus one to leave the savepoint.
//
// It returns the errors of [Do] that are not about committing, and errors of the database as they are.
func DoTx[T, R any](ctx context.Context, keys *Keys[T], t T, key Key, fn func(ctx context.Context, t T) (R, error)) (Result[R], error) {
	if fn == nil {
		return Result[R]{}, tx.ErrNilFunc
	}
	var value R
	e, replayed, err := keys.doTx(ctx, t, key, encoding(fn, &value))
	return result(&keys.core, e, value, replayed, err)
}

func (k *Keys[T]) doTx(ctx context.Context, t T, key Key, fn work[T]) (e entry, replayed bool, err error) {
	if k.err != nil {
		return entry{}, false, k.err
	}
	if err := key.validate(); err != nil {
		return entry{}, false, err
	}
	c := newCall(key)
	c.attempt = tx.Attempt(ctx)
	if k.within(ctx, c) {
		return entry{}, false, k.nested(ctx, c)
	}
	conn := k.db.Tx(t)
	for try := 1; ; try++ {
		v, refusal, err := k.claimTx(ctx, conn, c)
		if err != nil {
			return entry{}, false, err
		}
		if v == claimed {
			break
		}
		if _, err := conn.Exec(ctx, tx.ReleaseSavepoint); err != nil {
			return entry{}, false, err
		}
		switch v {
		case stale:
			continue
		case busy:
			err = k.pause(ctx, c, try)
		default:
			return k.answer(ctx, c, v, refusal)
		}
		if err != nil {
			return entry{}, false, err
		}
	}
	k.observe(ctx, EventClaimed, c, nil)
	e, failure, err := k.performTx(ctx, c, t, fn)
	if err != nil {
		k.observe(ctx, EventReleased, c, err)
		return entry{}, false, err
	}
	if failure != nil {
		k.observe(ctx, EventFailed, c, failure)
		return e, false, failure
	}
	k.observe(ctx, EventCompleted, c, nil)
	return e, false, nil
}

// claimTx claims the key of c in a transaction of the caller's, and judges.
func (k *Keys[T]) claimTx(ctx context.Context, conn tx.Tx, c *call) (v verdict, refusal, err error) {
	if err := conn.Batch(ctx, append(k.claim(c), &tx.Stmt{SQL: tx.SetSavepoint})...); err != nil {
		return busy, nil, err
	}
	if err := k.insist(ctx, conn, c); err != nil {
		return busy, nil, err
	}
	v, refusal = k.judge(c)
	if inside, err := c.inside(ctx, conn, v); inside || err != nil {
		return refused, k.nested(ctx, c), err
	}
	return v, refusal, nil
}

// performTx does the work in the savepoint that the claim has set, and leaves it in every case: with the answer, or with the
// key free again.
func (k *Keys[T]) performTx(ctx context.Context, c *call, t T, fn work[T]) (e entry, failure, err error) {
	conn, drop := k.db.Tx(t), k.db.Mark(ctx, t)
	returned := false
	defer func() {
		if returned && err == nil {
			return
		}
		drop()
		k.db.Doom(ctx, t, err)
		ctx, cancel := cleanup(ctx)
		defer cancel()
		undo := conn.Batch(ctx, &tx.Stmt{SQL: tx.BackToSavepoint}, &tx.Stmt{SQL: tx.ReleaseSavepoint},
			&tx.Stmt{SQL: k.sql.release, Args: []any{c.digest[:], c.nonce}})
		if undo != nil {
			k.db.Spoil(ctx, t, undo)
		}
	}()
	e, failure, err = k.perform(k.enter(k.db.Within(ctx, t), c, conn), c, t, fn)
	returned = true
	if err != nil {
		return entry{}, nil, err
	}
	// The savepoint is released last, so that it is ours to return to as long as something can fail.
	complete := k.complete(c, e)
	stmts := []*tx.Stmt{complete, {SQL: tx.ReleaseSavepoint}}
	if failure != nil && !k.o.KeepFailedWrites {
		drop()
		stmts = append([]*tx.Stmt{{SQL: tx.BackToSavepoint}}, stmts...)
	}
	if err := conn.Batch(ctx, stmts...); err != nil {
		if c.moved(err) {
			err = errMoved
		}
		return entry{}, nil, err
	}
	return e, failure, nil
}

// cleanupTimeout bounds what is undone after the caller has gone.
const cleanupTimeout = 5 * time.Second

func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}
