package idem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// eraseSQL are the statements that take rows out of one table. They are the same on every dialect.
type eraseSQL struct {
	delete  string // one row that nobody is at
	release string // one failure
	state   string
	bound   string // the last key of a page
	page    string // what a page has of a scope
}

func newEraseSQL(d *tx.Dialect, schema, table string) eraseSQL {
	in := inTable(d, schema, table)
	return eraseSQL{
		delete:  in(deleteSQL),
		release: in(releaseFailureSQL),
		state:   in(stateSQL),
		bound:   in(boundSQL),
		page:    in(pageSQL),
	}
}

const deleteSQL = `delete from {table} where k = $1 and lease_until is null`

const releaseFailureSQL = `delete from {table} where k = $1 and state = 3`

const stateSQL = `select state from {table} where k = $1`

// Delete forgets a key with the answer that it holds, whatever that is, and reports whether there was one. The next call
// with the key runs the operation again: what it did is not undone, so that a payment is made a second time. It is for an
// operator who has undone the effect by hand, and for tests.
//
// An operation that is running is left alone. A transaction that is under way has no row yet: Delete returns false, and
// the key has an answer afterwards. On SQLite, Delete waits for the one writer, and forgets what that has stored. Where a
// row shows that the operation runs, Delete returns an [*InFlightError].
//
// Delete begins a transaction; in a closure of the same DB it joins that one. This process forgets the answer at once, and
// others may give it for up to Options.CacheFor. It returns [*KeyError], [*InFlightError], [ErrStoreUnavailable] and the
// errors of [tx.DB.Do]. After any error it is safe to call it again.
func (k *Keys[T]) Delete(ctx context.Context, key Key) (deleted bool, err error) {
	deleted, _, err = k.remove(ctx, key, k.eraseSQL.delete, EventDeleted)
	return deleted, err
}

// Release frees a key whose stored answer is a failure, so that the next call runs the operation again, and reports whether
// there was one: it is for an operator who has removed the cause. What completed is not done again: it returns
// [ErrCompleted] for an answer that is none, and [ErrKeyExpired] where the answer is gone and nobody knows.
//
// With Options.KeepFailedWrites the writes of the failure stay. Otherwise it is like [Keys.Delete], with the same errors.
func (k *Keys[T]) Release(ctx context.Context, key Key) (released bool, err error) {
	released, state, err := k.remove(ctx, key, k.eraseSQL.release, EventReleased)
	switch {
	case err != nil || released:
		return released, err
	case state == stateCompleted:
		return false, ErrCompleted
	case state == stateTombstone:
		return false, ErrKeyExpired
	}
	return false, nil
}

// remove takes out the row of a key, if query does. Otherwise state is that of the row, or 0.
func (k *Keys[T]) remove(ctx context.Context, key Key, query string, kind holdfast.EventKind) (removed bool, state int, err error) {
	if k.err != nil {
		return false, 0, k.err
	}
	if err := key.validate(); err != nil {
		return false, 0, err
	}
	c := newCall(key)
	var gone *tx.Stmt
	err = k.changing(ctx, func() { k.forget(c.digest) }, tx.Plan[T]{
		Lead: func() []*tx.Stmt {
			state, gone = 0, &tx.Stmt{SQL: query, Args: []any{c.digest[:]}}
			return []*tx.Stmt{gone, {SQL: k.eraseSQL.state, Args: []any{c.digest[:]}, Dest: []any{&state}}}
		},
		Work: func(context.Context, T) error { return nil },
	})
	switch {
	case err != nil:
		return false, 0, err
	case gone.Affected > 0:
		k.observe(ctx, kind, c, nil)
		return true, 0, nil
	case State(state).open():
		return false, state, k.refuse(ctx, c, &InFlightError{RetryAfter: retryAfter})
	}
	return false, state, nil
}

// forget makes this process ask the database for a key, in calls that come from now on.
func (k *Keys[T]) forget(d ID) {
	k.seen.drop(d)
	k.flights.Forget(d)
	k.cache.drop(d)
}

// forgetAll is forget for all keys. A digest does not tell its scope.
func (k *Keys[T]) forgetAll() {
	k.flights.ForgetAll()
	k.cache.clear()
}

// changing runs p, which takes out rows, and makes this process forget them, also if it cannot be known whether they went.
// A transaction of the caller's may commit later: only then is nothing read any more that is to be forgotten.
func (k *Keys[T]) changing(ctx context.Context, forget func(), p tx.Plan[T]) error {
	work := p.Work
	p.Work = func(ctx context.Context, t T) error {
		if err := tx.AfterCommit(ctx, func(context.Context) { forget() }); err != nil {
			return err
		}
		return work(ctx, t)
	}
	defer forget()
	return unavailable(k.db.Run(ctx, p))
}

// erasePage is how many rows one statement of an erasure looks at, so that none takes long or holds many locks.
const erasePage = 5000

var boundSQL = fmt.Sprintf(`select k from {table} where k > $1 order by k limit 1 offset %d`, erasePage-1)

const pageSQL = `delete from {table} where k > $1 and k <= $2 and scope = $3 and lease_until is null`

// Erase removes all keys of a scope, with their answers, and returns how many: the personal data of a tenant or caller who
// has gone. An operation that is running is left alone, and what is stored behind its back as it goes on stays: end the
// scope's traffic first, or call it once more. A late retry of what was erased is new, and runs again.
//
// It reads the whole table, in pages that are each committed at once, since an index of scopes would cost every operation a
// write. After an error, or if ctx ends, a part is gone, and it is safe to call it again. In a closure of the same DB it
// joins its transaction. This process forgets the answers of all scopes at once, and others may give one for up to
// Options.CacheFor. It returns [*KeyError], [ErrStoreUnavailable] and the errors of [tx.DB.Do].
func (k *Keys[T]) Erase(ctx context.Context, scope string) (erased int64, err error) {
	if k.err != nil {
		return 0, k.err
	}
	if err := validatePart("Scope", scope); err != nil {
		return 0, err
	}
	started := time.Now()
	for from := firstDigest; from != nil && err == nil; {
		var n int64
		from, n, err = k.erasePage(ctx, scope, from)
		erased += n
	}
	holdfast.Observe(ctx, k.o.Observer, holdfast.Event{
		Kind: EventErased, Name: k.o.Table, Key: Key{Scope: scope}.ID().short(), Count: erased, Elapsed: time.Since(started), Err: err,
	})
	return erased, err
}

// Bytes below and above every digest.
var (
	firstDigest = []byte{0}
	lastDigest  = bytes.Repeat([]byte{0xff}, len(ID{})+1)
)

// erasePage erases the page after from, and returns the last key of that, or nil if it was the last page.
func (k *Keys[T]) erasePage(ctx context.Context, scope string, from []byte) (to []byte, n int64, err error) {
	err = k.changing(ctx, k.forgetAll, tx.Plan[T]{Work: func(ctx context.Context, t T) error {
		conn := k.db.Tx(t)
		to, n = nil, 0
		err := conn.QueryRow(ctx, k.eraseSQL.bound, from).Scan(&to)
		bound := to
		if errors.Is(err, tx.ErrNoRows) {
			bound, err = lastDigest, nil
		}
		if err != nil {
			return err
		}
		n, err = conn.Exec(ctx, k.eraseSQL.page, from, bound, scope)
		return err
	}})
	if err != nil {
		return nil, 0, err
	}
	return to, n, nil
}
