// Package txtest proves that an adapter of a client library keeps the promises of the transaction contract in package
// tx. An adapter's own test calls [Run] with a [Harness] that opens real databases:
//
//	func TestConformance(t *testing.T) {
//		txtest.Run(t, txtest.Harness[*sql.Tx]{Open: func(t *testing.T, s txtest.Setup) txtest.Database[*sql.Tx] { … }})
//	}
//
// Each rule is a subtest that runs in parallel on a database of its own and fails with the sentence that it stands for.
// What the engine can do is taken from [tx.Capabilities]; rules prove those too, the missing ones as well.
package txtest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// A Harness opens the databases that the rules run on.
type Harness[T any] struct {
	// Open returns an empty database of its own, and lets t clean it up. SQLite has its foreign keys switched on.
	Open func(t *testing.T, s Setup) Database[T]
}

// A Setup is what a rule needs of its database.
type Setup struct {
	// Conns is the number of connections that the pool holds at most.
	Conns int
	// LockWait is how long a connection waits for a lock, on an engine where that wait has a limit of its own. It is
	// short, so that rules can see the limit reached.
	LockWait time.Duration
}

// A Database is an open database with the two ways into it: through Holdfast, and as a caller that has never heard of it.
type Database[T any] struct {
	// DB is what is tested, and Twin another DB made of the same pool.
	DB, Twin *tx.DB[T]
	// Begin begins a transaction with the client library alone, on the same pool.
	Begin func(ctx context.Context) (T, error)
	// Commit and Rollback are the transaction's own methods. Rules call them also on a transaction that DB handed out.
	Commit, Rollback func(ctx context.Context, t T) error
	// InUse returns how many connections of the pool are taken.
	InUse func() int
}

// Run runs every rule as a subtest of t.
func Run[T any](t *testing.T, h Harness[T]) {
	for _, group := range [][]rule[T]{
		outcomeRules[T](), endedRules[T](), nestedRules[T](), retryRules[T](), cancelRules[T](), batchRules[T](),
		deferredRules[T](), hookRules[T](), foreignRules[T](), classRules[T](), optionRules[T](), capabilityRules[T](), columnRules[T](),
		listenRules[T](),
	} {
		for _, r := range group {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				r.run(t, h)
			})
		}
	}
}

// A rule is one promise.
type rule[T any] struct {
	name  string
	rule  string                     // the promise in one sentence
	needs func(tx.Capabilities) bool // nil: every engine keeps it
	conns int                        // of the pool; 0 means 4
	check func(f *fixture[T])
}

// deadline ends a rule that waits for what does not happen.
const deadline = 30 * time.Second

func (r rule[T]) run(t *testing.T, h Harness[T]) {
	t.Helper()
	conns := r.conns
	if conns == 0 {
		conns = 4
	}
	f := &fixture[T]{T: t, Database: h.Open(t, Setup{Conns: conns, LockWait: 20 * time.Millisecond})}
	if r.needs != nil && !r.needs(f.DB.Dialect().Capabilities) {
		t.Logf("does not apply to %s: %s", f.DB.Dialect().Name, r.rule)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	f.ctx = ctx
	defer func() {
		if t.Failed() {
			t.Logf("broken rule: %s", r.rule)
		}
	}()
	f.setup()
	r.check(f)
	f.wantIdlePool()
}

// Conditions of rules.
func concurrentWriters(c tx.Capabilities) bool { return c.ConcurrentWriters }
func singleWriter(c tx.Capabilities) bool      { return !c.ConcurrentWriters }
func abortsOnError(c tx.Capabilities) bool     { return c.AbortsOnError }
func isolationLevels(c tx.Capabilities) bool   { return c.IsolationLevels }
func rowLocks(c tx.Capabilities) bool          { return c.RowLocks }
func notifications(c tx.Capabilities) bool     { return c.Notifications }
