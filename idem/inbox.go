package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/jitter"
	"github.com/holdfast-go/holdfast/tx"
)

// InboxOptions set up an [Inbox]. The zero value is ready to use.
type InboxOptions struct {
	// Observer is told of every message that is received or known; see the Event constants. Default: silent.
	Observer holdfast.Observer
	// Schema is the schema of the table. Set it if handlers change search_path. Default: the first of the search path.
	Schema string
	// Table is the table's name, of 40 bytes at most. Default: "idem_inbox".
	Table string
	// TTL is how long a message ID is remembered. It must be longer than the longest path on which the message can come
	// again, with the replay of a dead letter queue. Default: 7 days.
	TTL time.Duration
	// Wait is how long a delivery waits for another of the same message that is being handled before it gets
	// [ErrInFlight], which asks for a redelivery. [Inbox.FreshTx] and [Inbox.DoBatch] wait for it as long as their
	// context allows. Default: 0, which refuses at once.
	Wait time.Duration
}

// An Inbox remembers which messages a consumer has handled, in the transaction that handles them: a message whose handler
// fails, panics or dies leaves no mark and is handled when it comes again; one whose handler committed is not handled
// again. It is safe for concurrent use.
//
// It keeps the names of consumers and the IDs of messages, until they are swept, and no content: there is nothing of a
// scope to erase. Where an ID is personal by itself, such as an e-mail address, give a hash of it.
type Inbox[T any] struct {
	db       *tx.DB[T]
	consumer string
	o        InboxOptions
	sql      inboxSQL
	table    tx.Table
	err      error
}

var inboxColumns = []string{"consumer", "message_id", "received_at", "expires_at"}

// NewInbox returns the inbox of one consumer. Several consumers of one event each handle it once. Nil options work.
// Options that cannot be used are reported by every method and by [Inbox.Check].
func NewInbox[T any](db *tx.DB[T], consumer string, o *InboxOptions) *Inbox[T] {
	in := &Inbox[T]{db: db, consumer: consumer}
	if o != nil {
		in.o = *o
	}
	in.o.Table = cmp.Or(in.o.Table, DefaultInboxTable)
	in.o.TTL = cmp.Or(in.o.TTL, 7*24*time.Hour)
	in.table = tx.Table{Schema: in.o.Schema, Name: in.o.Table, Columns: inboxColumns}
	in.err = cmp.Or(validatePart("consumer", consumer), checkOptions(db.Dialect(), in.o.Schema, in.o.Table, in.o.TTL, in.o.Wait))
	if in.err != nil {
		in.err = toldError{in.err, holdfast.NotApplied}
	}
	in.sql = newInboxSQL(db.Dialect(), in.o.Schema, in.o.Table)
	return in
}

// Check is [Keys.Check] for the table of the inbox.
func (in *Inbox[T]) Check(ctx context.Context) error {
	if in.err != nil {
		return in.err
	}
	return tx.CheckTables(ctx, in.db, in.table)
}

// Do handles a message once. It begins a transaction, marks id, calls fn and commits, all in one commit, and returns
// whether fn ran. If the message had been handled it returns false, and the delivery can be acknowledged. An error of fn
// rolls everything back, the mark too, so that a redelivery is handled. On pgx the mark costs no round trip. In a closure
// of the same DB, Do joins its transaction, as [Inbox.DoTx] does.
//
// It returns [*KeyError] for an unusable id, [*InFlightError] if another delivery is being handled, [ErrStoreUnavailable],
// [ErrOutcomeUnknown], and the errors of [tx.DB.Do], which wrap that of fn. After any error the message must not be
// acknowledged.
func (in *Inbox[T]) Do(ctx context.Context, id string, fn func(ctx context.Context, t T) error) (handled bool, err error) {
	if err := in.ready(fn == nil, id); err != nil {
		return false, err
	}
	if t, ok := in.db.Current(ctx); ok {
		return in.DoTx(ctx, t, id, fn)
	}
	started := time.Now()
	for try := 1; ; try++ {
		m := in.mark(id)
		err := in.db.Run(ctx, tx.Plan[T]{
			Lead: func() []*tx.Stmt { return m.lead() },
			Work: func(ctx context.Context, t T) error {
				if m.settle(); !m.fresh {
					return tx.ErrDiscard
				}
				in.observe(ctx, EventReceived, id, 1, nil)
				return tx.NoDiscard(fn(ctx, t))
			},
			Resolve: func(ctx context.Context) (holdfast.Outcome, error) { return in.resolve(ctx, id, m.by) },
		})
		switch {
		case commitUnknown(err):
			return false, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		case err != nil && !m.fresh:
			return false, unavailable(err)
		case err != nil || m.fresh:
			return err == nil, err
		case m.free:
			in.observe(ctx, EventDuplicate, id, 1, nil)
			return false, nil
		}
		if err := in.pause(ctx, id, started, try); err != nil {
			return false, err
		}
	}
}

// DoTx is [Inbox.Do] in a transaction of the caller's, which it never commits or rolls back. If fn fails or panics the
// mark is taken back, so that even a caller who commits all the same does not lose the message; what fn wrote is the
// caller's to undo. It costs one round trip besides those of fn.
func (in *Inbox[T]) DoTx(ctx context.Context, t T, id string, fn func(ctx context.Context, t T) error) (handled bool, err error) {
	if err := in.ready(fn == nil, id); err != nil {
		return false, err
	}
	started, conn := time.Now(), in.db.Tx(t)
	for try := 1; ; try++ {
		m := in.mark(id)
		if err := conn.Batch(ctx, m.lead()...); err != nil {
			return false, err
		}
		if m.settle(); m.fresh {
			break
		}
		if m.free {
			in.observe(ctx, EventDuplicate, id, 1, nil)
			return false, nil
		}
		if err := in.pause(ctx, id, started, try); err != nil {
			return false, err
		}
	}
	in.observe(ctx, EventReceived, id, 1, nil)
	returned := false
	defer func() {
		if !returned || err != nil {
			ctx, cancel := cleanup(ctx)
			defer cancel()
			if _, undo := conn.Exec(ctx, in.sql.unmark, in.consumer, id); undo != nil {
				in.db.Spoil(ctx, t, undo)
			}
		}
	}()
	err = fn(in.db.Within(ctx, t), t)
	returned = true
	return err == nil, err
}

func (in *Inbox[T]) ready(noFunc bool, ids ...string) error {
	if in.err != nil {
		return in.err
	}
	if noFunc {
		return tx.ErrNilFunc
	}
	for _, id := range ids {
		if err := validatePart("message ID", id); err != nil {
			return err
		}
	}
	return nil
}

func (in *Inbox[T]) pause(ctx context.Context, id string, started time.Time, try int) error {
	err := waitTurn(ctx, started, in.o.Wait, try)
	if err != nil {
		in.observe(ctx, EventInFlight, id, 1, err)
	}
	return err
}

// resolve finds out what became of a commit whose reply was lost, as [Keys.resolve] does. A mark proves it only if it is
// that of the lost transaction: another delivery may have handled the message since.
func (in *Inbox[T]) resolve(ctx context.Context, id string, lost int64) (holdfast.Outcome, error) {
	db := in.db.With(tx.Options{Isolation: tx.ReadCommitted})
	for try := 1; ; try++ {
		m := in.mark(id)
		err := db.Run(ctx, tx.Plan[T]{
			Lead: func() []*tx.Stmt { return m.lead() },
			Work: func(context.Context, T) error { return errLooked },
		})
		m.settle()
		switch {
		case !errors.Is(err, errLooked):
			return holdfast.Unknown, err
		case m.fresh:
			return holdfast.NotApplied, nil
		case m.free && m.by == lost:
			return holdfast.Applied, nil
		case m.free && m.by != 0:
			return holdfast.NotApplied, nil
		}
		if err := sleep(ctx, jitter.Full(5*time.Millisecond, 100*time.Millisecond, try)); err != nil {
			return holdfast.Unknown, err
		}
	}
}

// Sweep removes expired message IDs. See [Keys.Sweep].
func (in *Inbox[T]) Sweep(ctx context.Context) (int64, error) {
	if in.err != nil {
		return 0, in.err
	}
	return sweep(ctx, in.o.Observer, in.o.Table, func(ctx context.Context) (done, removed int64, err error) {
		n, err := in.db.Conn().Exec(ctx, in.sql.sweep, sweepBatch)
		return n, n, err
	})
}

// SweepEvery calls [Inbox.Sweep] at each interval. See [Keys.SweepEvery].
func (in *Inbox[T]) SweepEvery(ctx context.Context, interval time.Duration) error {
	return every(ctx, interval, in.Sweep)
}

func (in *Inbox[T]) observe(ctx context.Context, kind holdfast.EventKind, id string, count int, err error) {
	if in.o.Observer == nil || count == 0 {
		return
	}
	holdfast.Observe(ctx, in.o.Observer, holdfast.Event{
		Kind: kind, Name: in.consumer, Key: id, Count: int64(count), Attempt: tx.Attempt(ctx), Err: err,
	})
}
