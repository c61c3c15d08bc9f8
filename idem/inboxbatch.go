package idem

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-go/holdfast/tx"
)

// DoBatch handles those of a batch of messages that are new, all in one transaction and one commit. fn gets their IDs, in
// the order and at the place where they first stand in ids. It is not called if there are none. DoBatch returns the IDs
// that fn handled; the others had been handled before, so that without an error the whole batch can be acknowledged.
// Marking N messages takes one statement, which on pgx costs no round trip.
//
// A message that another batch is handling makes DoBatch wait for the end of that one, as long as ctx allows. An error of
// fn, or about one of the messages, rolls back all: handle the messages one by one then, to find the one that fails. See
// [Inbox.Do] for the errors.
func (in *Inbox[T]) DoBatch(ctx context.Context, ids []string, fn func(ctx context.Context, t T, fresh []string) error) (handled []string, err error) {
	if err := in.ready(fn == nil, ids...); err != nil || len(ids) == 0 {
		return nil, err
	}
	var fresh []string
	work := func(ctx context.Context, t T) (err error) {
		if fresh, err = in.FreshTx(ctx, t, ids...); err != nil {
			return err
		}
		if len(fresh) == 0 {
			return tx.ErrDiscard
		}
		return tx.NoDiscard(fn(ctx, t, fresh))
	}
	plan := tx.Plan[T]{Work: work}
	if in.db.Dialect() == tx.PostgreSQL {
		m := &many{}
		plan.Lead = func() []*tx.Stmt { return []*tx.Stmt{in.many(m, ids)} }
		plan.Work = func(ctx context.Context, t T) (err error) {
			if fresh, err = in.sift(ctx, m, ids); err != nil {
				return err
			}
			if len(fresh) == 0 {
				return tx.ErrDiscard
			}
			return tx.NoDiscard(fn(ctx, t, fresh))
		}
	}
	switch err := in.db.Run(ctx, plan); {
	case commitUnknown(err):
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	case err != nil:
		return nil, err
	}
	return fresh, nil
}

// FreshTx marks messages in a transaction of the caller's and returns those that are new, in the order of ids: the caller
// handles these in t. The marks and the work commit or roll back together; a caller who commits without handling them
// loses them. It takes one statement and one round trip for any number of messages. A message that another transaction is
// handling makes it wait for the end of that one, as long as ctx allows.
//
// It returns [*KeyError] for an unusable ID, and errors of the database as they are.
func (in *Inbox[T]) FreshTx(ctx context.Context, t T, ids ...string) (fresh []string, err error) {
	if err := in.ready(false, ids...); err != nil || len(ids) == 0 {
		return nil, err
	}
	conn := in.db.Tx(t)
	m := &many{}
	if conn.Dialect() == tx.PostgreSQL {
		err = conn.Batch(ctx, in.many(m, ids))
	} else {
		err = in.scan(ctx, conn, m, ids)
	}
	if err != nil {
		return nil, err
	}
	return in.sift(ctx, m, ids)
}

// many are the messages that were marked, as a JSON array.
type many struct{ marked string }

func (in *Inbox[T]) many(m *many, ids []string) *tx.Stmt {
	*m = many{}
	return &tx.Stmt{
		SQL:  in.sql.many,
		Args: []any{in.consumer, in.o.TTL.Microseconds(), array(ids)},
		Dest: []any{&m.marked},
	}
}

// scan is many for SQLite, which returns a row for each message.
func (in *Inbox[T]) scan(ctx context.Context, conn tx.Conn, m *many, ids []string) error {
	rows, err := conn.Query(ctx, in.sql.many, in.consumer, in.o.TTL.Microseconds(), array(ids))
	if err != nil {
		return err
	}
	defer rows.Close()
	var marked []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		marked = append(marked, id)
	}
	m.marked = array(marked)
	return rows.Err()
}

func array(ids []string) string {
	text, _ := json.Marshal(ids) // strings always encode
	return string(text)
}

// sift returns the marked ones of ids, in order.
func (in *Inbox[T]) sift(ctx context.Context, m *many, ids []string) ([]string, error) {
	var marked []string
	if err := json.Unmarshal([]byte(m.marked), &marked); err != nil {
		return nil, fmt.Errorf("idem: read the marked messages: %w", err)
	}
	left := make(map[string]bool, len(marked))
	for _, id := range marked {
		left[id] = true
	}
	fresh := make([]string, 0, len(marked))
	for _, id := range ids {
		if left[id] {
			fresh = append(fresh, id)
			delete(left, id)
		}
	}
	in.observe(ctx, EventReceived, "", len(fresh), nil)
	in.observe(ctx, EventDuplicate, "", len(ids)-len(fresh), nil)
	return fresh, nil
}
