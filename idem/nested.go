package idem

import (
	"context"

	"github.com/holdfast-go/holdfast/tx"
)

type runningKey struct{}

// running are the calls whose closures are on the stack. An advisory lock does not keep its own holder out.
type running struct {
	context.Context // that of the caller
	*call

	keys  *core // those of the call
	in    tx.Tx // the transaction of the closure; nil for work that leaves the database
	outer *running
}

// Value answers to runningKey by itself, which saves a context around it.
func (r *running) Value(key any) any {
	if key == (runningKey{}) {
		return r
	}
	return r.Context.Value(key)
}

// enter returns a context for the closure of c, in the transaction of in.
func (k *core) enter(ctx context.Context, c *call, in tx.Tx) context.Context {
	outer, _ := ctx.Value(runningKey{}).(*running)
	return &running{Context: ctx, call: c, keys: k, in: in, outer: outer}
}

// within reports whether ctx is that of a closure of the same key and the same Keys.
func (k *core) within(ctx context.Context, c *call) bool {
	r, _ := ctx.Value(runningKey{}).(*running)
	for ; r != nil; r = r.outer {
		if r.keys == k && r.digest == c.digest {
			return true
		}
	}
	return false
}

// inside reports whether c, which has made its claim by conn, was called in a closure of the same key, in the same
// transaction, through other Keys of the same table. Such a claim either sees the row of the outer one, or gets the lock,
// since that is of the session. Tables of two databases can have the same identity, so that the sessions are compared too;
// it costs a round trip only where two keys that are equal nest.
func (c *call) inside(ctx context.Context, conn tx.Tx, v verdict) (bool, error) {
	outer, _ := ctx.Value(runningKey{}).(*running)
	for ; outer != nil; outer = outer.outer {
		switch {
		case outer.digest != c.digest:
		case v == busy && c.row.state == stateRunning && c.row.nonce == outer.nonce:
			return true, nil
		case v == claimed && c.table != 0 && c.table == outer.table:
			mine, err := sessionOf(ctx, conn)
			if err != nil {
				return false, err
			}
			theirs, err := sessionOf(ctx, outer.in)
			if mine == theirs || err != nil {
				return err == nil, err
			}
		}
	}
	return false, nil
}

const sessionPostgres = `select pg_backend_pid() || ' of ' || extract(epoch from pg_postmaster_start_time())`

func sessionOf(ctx context.Context, conn tx.Tx) (session string, err error) {
	err = conn.QueryRow(ctx, sessionPostgres).Scan(&session)
	return session, err
}

// nested is the refusal of a call inside itself.
func (k *core) nested(ctx context.Context, c *call) error {
	return k.refuse(ctx, c, &InFlightError{Nested: true})
}
