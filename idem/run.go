package idem

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/tx"
)

// A Run is one execution of work that leaves the database. Its lease is renewed until the closure returns; the context of the
// closure ends when it is lost, with the [*LeaseLostError] as its cause. Steps are for one goroutine at a time; the rest is safe
// for concurrent use.
type Run struct {
	l      *leased
	c      *call
	term   Term
	input  []byte
	ctx    context.Context //nolint:containedctx // it is that of the closure
	cancel context.CancelCauseFunc

	mu       sync.Mutex   // guards what follows
	anchor   clock.Moment // right before the request that was last granted was sent
	timer    *time.Timer  // of the deadline; nil before the first renewal
	sealed   bool         // a business transaction guards the key: it cannot be taken
	storing  bool         // what was done is being stored, and the store says by itself if it is too late
	ended    error        // why the execution is over: lost, or errReturned
	failures int          // renewals that failed in a row
	failure  error        // of the last of them

	steps    steps  // of the goroutine of the closure
	finished *entry // the answer, once a business transaction has stored it
	value    any    // what its closure returned
	failed   error  // the failure that the answer is
	doubt    error  // nobody knows whether a business transaction has stored one
}

// A RunTx is a [Run] whose key is in the database of the business transactions. See [Finish].
type RunTx[T any] struct {
	*Run

	store *sqlStore[T]
}

// A Runner is a [*Run] or a [*RunTx].
type Runner interface{ run() *Run }

func (r *Run) run() *Run { return r }

// Epoch is the fence of this execution: a number above those of all executions of the key before it, for resources that refuse
// what comes with a smaller one than they have seen.
func (r *Run) Epoch() int64 { return r.term.Epoch }

// Attempt counts the executions of the key, from 1.
func (r *Run) Attempt() int { return r.c.attempt }

// ChildKey is the key to give to another service for the step of that name: 32 characters, the same for every attempt and epoch, and
// for no other key or step. [Step] passes it to its functions, for the version of the step; this is that of version 0.
func (r *Run) ChildKey(step string) string { return childKey(r.term.ID, step, 0) }

func childKey(id ID, step string, version int) string {
	h := sha256.New()
	h.Write(id[:])
	h.Write([]byte(step))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(version))) //nolint:gosec // the bits are all that matters
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:20]))
}

// Guard keeps the key from being taken over until t ends, in a transaction of the database that the key is in, and refuses with a
// [*LeaseLostError] if it has been: a zombie stops here, before it writes. [Finish] does it by itself. The lease is not renewed
// while t is open, so keep t shorter than a third of it. It is one round trip.
func (r *RunTx[T]) Guard(ctx context.Context, t T) error {
	if err := r.Check(); err != nil {
		return err
	}
	guard := r.guard()
	if err := r.store.keys.db.Tx(t).Batch(ctx, guard); err != nil {
		return err
	}
	return r.guarded(guard)
}

func (r *RunTx[T]) guard() *tx.Stmt {
	return &tx.Stmt{SQL: r.store.sql.guard, Args: []any{r.term.ID[:], r.term.Nonce, r.term.Epoch}, Dest: []any{new(int)}}
}

// guarded reads the answer of a guard.
func (r *Run) guarded(guard *tx.Stmt) error {
	if guard.Found {
		return nil
	}
	return r.lose(TakenOver, nil)
}
