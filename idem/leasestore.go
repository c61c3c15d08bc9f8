package idem

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
	"github.com/holdfast-go/holdfast/tx"
)

// Store returns the store of k for [NewLeasedOn], whose runs join no transaction. [NewLeased] is for those that do.
func (k *Keys[T]) Store() Store { return newSQLStore(k) }

// A sqlStore keeps leased keys in the table of Keys. A request is one statement of its own, outside any transaction.
type sqlStore[T any] struct {
	keys *Keys[T]
	sql  leaseSQL
}

func newSQLStore[T any](keys *Keys[T]) *sqlStore[T] {
	return &sqlStore[T]{keys: keys, sql: newLeaseSQL(keys.db.Dialect(), keys.o.Schema, keys.o.Table)}
}

func (s *sqlStore[T]) sqlite() bool { return s.keys.db.Dialect() == tx.SQLite }

// Classify says what kind an error of a request is.
func (s *sqlStore[T]) Classify(err error) tx.Class { return s.keys.db.Classify(err) }

// contended is how often a request is made again that lost a race with another, which at a default isolation level above READ
// COMMITTED is a serialization failure.
const contended = 5

// again runs ask, and again after an error that a repetition can cure.
func (s *sqlStore[T]) again(ctx context.Context, ask func(conn tx.Conn) error) error {
	for attempt := 1; ; attempt++ {
		err := ask(s.keys.db.Conn())
		if err == nil || s.Classify(err) != tx.Retryable || attempt == contended {
			return err
		}
		if cause := sleep(ctx, jitter.Full(time.Millisecond, 50*time.Millisecond, attempt)); cause != nil {
			return errors.Join(err, cause)
		}
	}
}

// records runs a query, and reads the records that it returns.
func (s *sqlStore[T]) records(ctx context.Context, query string, args ...any) (list []Record, err error) {
	err = s.again(ctx, func(conn tx.Conn) error {
		list = nil
		rows, err := conn.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scanRecord(rows)
			if err != nil {
				return err
			}
			list = append(list, r)
		}
		return rows.Err()
	})
	return list, err
}

func scanRecord(row tx.Row) (r Record, err error) {
	var id []byte
	var state, left, created int64
	err = row.Scan(&id, &r.Scope, &r.Name, &state, &r.Fingerprint, &r.Nonce, &r.Epoch, &r.Attempts, &left, &r.Over,
		&r.Answer.Codec, &r.Answer.Status, &r.Answer.Body, &r.Input, &r.Steps, &r.Note, &created)
	copy(r.ID[:], id)
	r.State, r.Left, r.Created = State(state), time.Duration(left)*time.Microsecond, time.UnixMicro(created)
	if r.State == Completed || r.State == Failed {
		r.Answer.State = r.State
	}
	return r, err
}

// one is records of a query that returns one at most.
func (s *sqlStore[T]) one(ctx context.Context, query string, args ...any) (r Record, ok bool, err error) {
	list, err := s.records(ctx, query, args...)
	if err != nil || len(list) == 0 {
		return Record{}, false, err
	}
	return list[0], true, nil
}

// Claim implements [Store]. On SQLite it looks first, so that a repetition does not wait for the writer.
func (s *sqlStore[T]) Claim(ctx context.Context, c Claim) (r Record, err error) {
	args := []any{c.ID[:], c.Scope, c.Name, notNil(c.Fingerprint), c.Nonce, c.Lease.Microseconds(), c.Input}
	if !s.sqlite() {
		r, _, err = s.one(ctx, s.sql.claim, append([]any{c.ID.lock()}, args...)...)
		return r, err
	}
	r, ok, err := s.one(ctx, s.sql.look, c.ID[:])
	if !ok && err == nil {
		r, _, err = s.one(ctx, s.sql.claim, args...)
	}
	return r, err
}

// notNil is for columns that are never null.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Take implements [Store].
func (s *sqlStore[T]) Take(ctx context.Context, t Taking) (r Record, ok bool, err error) {
	c := t.Claim
	r, ok, err = s.one(ctx, s.sql.take,
		c.ID[:], c.Nonce, t.Was.Nonce, t.Early, t.Reuse, c.Lease.Microseconds(), notNil(c.Fingerprint), c.Input)
	if ok || err != nil || !s.sqlite() {
		return r, ok, err
	}
	r, ok, err = s.one(ctx, s.sql.look, c.ID[:])
	return r, ok && r.State == Running && r.Nonce == c.Nonce, err
}

// TakeDue implements [Store].
func (s *sqlStore[T]) TakeDue(ctx context.Context, d Due) ([]Record, error) {
	names, err := json.Marshal(d.Names)
	if err != nil {
		return nil, err
	}
	states, err := json.Marshal(d.States)
	if err != nil {
		return nil, err
	}
	args := []any{string(names), d.Limit, d.Lease.Microseconds(), string(states)}
	if !s.sqlite() {
		args = append(args, rand.Int64())
	}
	return s.records(ctx, s.sql.takeDue, args...)
}

// term is a [Term] as renewals read it.
type term struct {
	ID    string `json:"id"`
	Nonce int64  `json:"nonce"`
	Epoch int64  `json:"epoch"`
}

// Renew implements [Store]: one statement for all.
func (s *sqlStore[T]) Renew(ctx context.Context, terms []Term, lease time.Duration) (renewals []Renewal, err error) {
	asked, at := make([]term, len(terms)), make(map[int64]int, len(terms))
	for i, t := range terms {
		asked[i], at[t.Nonce] = term{t.ID.String(), t.Nonce, t.Epoch}, i
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	err = s.again(ctx, func(conn tx.Conn) error {
		renewals = make([]Renewal, len(terms))
		rows, err := conn.Query(ctx, s.sql.renew, string(text), lease.Microseconds())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var nonce int64
			var done bool
			if err := rows.Scan(&nonce, &done); err != nil {
				return err
			}
			n := at[nonce]
			if renewals[n] = RenewalLater; done {
				renewals[n] = RenewalDone
			}
		}
		return rows.Err()
	})
	return renewals, err
}

// changed runs a statement, and reports whether it changed a row.
func (s *sqlStore[T]) changed(ctx context.Context, query string, args ...any) (changed bool, err error) {
	err = s.again(ctx, func(conn tx.Conn) error {
		n, err := conn.Exec(ctx, query, args...)
		changed = n > 0
		return err
	})
	return changed, err
}

// Mark implements [Store].
func (s *sqlStore[T]) Mark(ctx context.Context, t Term, steps []byte) (held bool, err error) {
	return s.changed(ctx, s.sql.mark, t.ID[:], t.Nonce, t.Epoch, steps)
}

// Park implements [Store].
func (s *sqlStore[T]) Park(ctx context.Context, t Term, p Parking) (held bool, err error) {
	return s.changed(ctx, s.sql.park, t.ID[:], t.Nonce, t.Epoch, int(p.State), p.After.Microseconds(), p.Note, p.Fresh)
}

// Complete implements [Store].
func (s *sqlStore[T]) Complete(ctx context.Context, t Term, a Answer, ttl time.Duration) (held bool, err error) {
	if s.sqlite() {
		held, err = s.changed(ctx, s.sql.complete, s.answer(t, a, ttl)...)
		if held || err != nil {
			return held, err
		}
		err = s.keys.db.Conn().QueryRow(ctx, s.sql.done, t.ID[:], t.Nonce).Scan(&held)
		return held, err
	}
	err = s.again(ctx, func(conn tx.Conn) error {
		return conn.QueryRow(ctx, s.sql.complete, s.answer(t, a, ttl)...).Scan(&held)
	})
	return held, err
}

func (s *sqlStore[T]) answer(t Term, a Answer, ttl time.Duration) []any {
	return []any{t.ID[:], t.Nonce, t.Epoch, int(a.State), a.Codec, a.Status, a.Body, ttl.Microseconds()}
}

// Release implements [Store].
func (s *sqlStore[T]) Release(ctx context.Context, t Term) (held bool, err error) {
	return s.changed(ctx, s.sql.release, t.ID[:], t.Nonce, t.Epoch)
}

// Announce implements [Store].
func (s *sqlStore[T]) Announce(ctx context.Context, id ID) (open bool, err error) {
	return s.changed(ctx, s.sql.announce, id[:])
}

// Pool, Listen, Channel and Notify implement [Waker]. Where the adapter is no [tx.Listener], Listen says so.
func (s *sqlStore[T]) Pool() any { return s.keys.db.Pool() }

func (s *sqlStore[T]) Listen(ctx context.Context) (tx.Notifications, error) {
	return s.keys.db.Listen(ctx)
}

func (s *sqlStore[T]) Channel() string { return NotifyChannel }

func (s *sqlStore[T]) Notify(ctx context.Context, channel, payload string) error {
	return s.keys.db.Notify(ctx, channel, payload)
}

// Check implements [Store].
func (s *sqlStore[T]) Check(ctx context.Context) error { return s.keys.Check(ctx) }
