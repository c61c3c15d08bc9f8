package idem

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// An entry is an answer: body is what the caller gets, stored is what is kept of it.
type entry struct {
	state  int
	codec  int
	status int
	body   []byte
	stored []byte
}

// Values of a call's lock.
const (
	lockTaken = 0
	lockHeld  = 1 // it is ours, or there is none
	lockLeft  = 2 // not asked for, since there was an answer
)

// row is what a lookup finds.
type row struct {
	entry
	fp      []byte
	nonce   int64
	expired bool
	left    time.Duration // of a lease, or until an unknown key is due; see [Record]
	note    string        // of an unknown key
}

func (r *row) dest() []any {
	return []any{&r.state, &r.fp, &r.nonce, &r.codec, &r.status, &r.body, &r.expired}
}

// recalled takes the numbers that a recall packs: the state in the lowest 8 bits, whether it is expired in the next, then, in
// 16 bits, the codec, and the status.
func (r *row) recalled(numbers int64) {
	r.state, r.expired = int(numbers&0xff), numbers>>8&1 != 0
	r.codec, r.status = int(numbers>>16&0xffff), int(numbers>>32)
}

// over reports whether the answer may no longer be given.
func (r *row) over() bool {
	return r.state == stateTombstone || r.state > stateRunning && r.expired
}

// A verdict is what a claim came to.
type verdict int

const (
	claimed  verdict = iota // the key is ours: do the work
	answered                // it is done: answer with what is stored
	busy                    // somebody else is at it
	stale                   // an answer was there, and was gone a moment later: claim again
	refused                 // the key may not be used: see the error
)

// A call is one call of Do or DoTx.
type call struct {
	key     Key
	digest  ID
	nonce   int64
	attempt int
	started time.Time
	lock    int      // whether somebody else works on the key
	late    bool     // nobody did when the claim ran
	table   int64    // the identity of the table that the claim looked into
	current bool     // each statement sees what was committed before it: READ COMMITTED
	settled bool     // the statements of the claim were those that the isolation level needs
	missed  *row     // what an attempt saw whose answer came too late: another execution had stored one
	store   *tx.Stmt // what stores the answer
	work    func()   // tells the other calls of the key in this process that the closure is about to run
	row     row
	numbers int64 // of the row, as a recall packs them
	asked   asked // when the row was last asked for
}

func newCall(key Key) *call {
	return &call{
		key:     key,
		digest:  key.ID(),
		nonce:   rand.Int64(),
		started: time.Now(),
	}
}

// claim returns the statements that take the key or find out why not. They run in one round trip, with BEGIN in a
// transaction of ours. On PostgreSQL the isolation level decides which are needed, and only the server knows it: k guesses
// what it has found before, and insist makes good a wrong guess.
func (k *Keys[T]) claim(c *call) []*tx.Stmt {
	c.lock, c.late, c.current, c.row, c.asked, c.store = lockTaken, false, false, row{}, k.cache.ask(), nil
	c.settled = k.sql.lock == "" || k.snapshots.Load()
	stmts := make([]*tx.Stmt, 0, 3) // callers add one
	digest := any(c.digest[:])
	lookup := &tx.Stmt{SQL: k.sql.lookup, Args: []any{digest}, Dest: c.row.dest()}
	if k.sql.lock == "" {
		c.lock = lockHeld
		insert := &tx.Stmt{SQL: k.sql.claim, Args: k.claimArgs(c, digest)}
		return append(stmts, insert, lookup)
	}
	number := any(c.digest.lock())
	if c.settled {
		lookup.SQL = k.sql.claim
		lookup.Dest = append([]any{&c.late}, lookup.Dest...)
		lookup.Args = k.claimArgs(c, number, digest)
	}
	lock := &tx.Stmt{SQL: k.sql.lock, Args: []any{number, digest}, Dest: []any{&c.lock, &c.table, &c.current}}
	return append(stmts, lock, lookup)
}

// claimArgs are those of keySQL.claim, which begin with first.
func (k *Keys[T]) claimArgs(c *call, first ...any) []any {
	return append(first, c.key.Scope, c.key.Name, c.key.Fingerprint.bytes(), c.nonce, k.o.TTL.Microseconds())
}

// insist repeats the claim of c in its transaction if that has one snapshot and the claim was made as if it had not.
func (k *Keys[T]) insist(ctx context.Context, t tx.Tx, c *call) error {
	if c.settled || c.current {
		return nil
	}
	k.snapshots.Store(true)
	return t.Batch(ctx, k.claim(c)...)
}

// judge reads the verdict off what the claim found. A mismatch comes first wherever a fingerprint is visible.
func (k *core) judge(c *call) (verdict, error) {
	own := c.row.state == stateRunning && c.row.nonce == c.nonce
	switch {
	case c.row.state == 0 && !c.free():
		return c.taken(), nil
	case c.row.state == 0 || own:
		return claimed, nil
	case k.o.AllowReuse && c.row.over():
		if !c.free() {
			return c.taken(), nil
		}
		return claimed, nil
	case !c.key.Fingerprint.matches(c.row.fp):
		return refused, &MismatchError{Scope: c.key.Scope, Name: c.key.Name}
	case c.row.state == stateRunning, c.row.state == statePending:
		return busy, nil
	case c.row.state == stateUnknown:
		return refused, &UnknownError{Name: c.key.Name, Note: c.row.note, RetryAfter: due(c.row.left)}
	case c.row.over():
		return refused, ErrKeyExpired
	}
	return answered, nil
}

// free reports whether nobody else works on the key.
func (c *call) free() bool { return c.lock == lockHeld || c.late }

// taken tells a key that somebody works on from one whose answer went between the two statements of the claim, so that
// none of them asked for the lock.
func (c *call) taken() verdict {
	if c.lock == lockLeft && c.current {
		return stale
	}
	return busy
}

// fp is the fingerprint that the answer of c has. That of a leased key is the one of its claim, which may have been another call.
func (c *call) fp() []byte {
	if c.row.state == stateRunning {
		return c.row.fp
	}
	return c.key.Fingerprint.bytes()
}

// complete returns the statement that stores the answer.
func (k *Keys[T]) complete(c *call, e entry) *tx.Stmt {
	args := append(make([]any, 0, 12),
		c.digest[:], c.key.Scope, c.key.Name, e.state, c.key.Fingerprint.bytes(), c.nonce, e.codec, e.status, e.stored,
		k.o.TTL.Microseconds())
	if k.sql.lock != "" {
		args = append(args, c.table)
	}
	c.store = &tx.Stmt{SQL: k.sql.insert, MustAffect: errOvertaken}
	if !c.current || c.row.state != 0 {
		c.store.SQL = k.sql.complete
		var expired any
		if c.row.over() {
			expired = c.row.nonce
		}
		args = append(args, expired)
	}
	c.store.Args = args
	return c.store
}

// lookup reads the row of c outside a transaction, but for its nonce.
func (k *Keys[T]) lookup(ctx context.Context, c *call) error {
	c.lock, c.row, c.asked = lockTaken, row{}, k.cache.ask()
	err := k.db.Conn().QueryRow(ctx, k.sql.recall, c.digest[:]).Scan(&c.row.fp, &c.row.body, &c.numbers)
	c.row.recalled(c.numbers)
	return err
}
