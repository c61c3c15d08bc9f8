// Command fencing shows a process that is stopped between looking at its lock and writing.
//
//	go run ./examples/fencing                         the naive lock is a row with an end, all on SQLite
//	go run ./examples/fencing -dsn postgres://…       PostgreSQL
//	go run ./examples/fencing -redis redis://…        the naive lock is SET NX PX in Redis, and ours is tried on Redis too
//
// Two processes want to pay out the salaries of a month, once. The first takes the lock, looks that nothing is paid, looks that
// the lock is still its own, and is stopped right there with SIGSTOP: it could be a pause for garbage, a machine that is
// moved, a laptop that is closed. The lock runs out. The second takes it, pays, and is through. Then the first wakes up with
// SIGCONT, and goes on where it was: it pays.
//
// No lock with an end can help that: whatever the first looks at, it can be stopped after it. What helps is a number that goes
// with the write, and a database that refuses the smaller one. payroll/pay.go has the two side by side:
//
//	leases.Run(ctx, "payout", func(ctx context.Context, h *lease.Held) error {
//		…
//		return db.Do(ctx, func(ctx context.Context, t T) error {
//			if err := h.Fence().Guard(ctx, db.Tx(t)); err != nil { // refused: somebody else has it
//				return err
//			}
//			return pay(ctx, db.Tx(t), month, …)
//		})
//	})
//
// Then the first is stopped after the guard, in the middle of its transaction. Its lease runs out all the same, but the second
// does not get it: it waits until the first has committed, and finds that there is nothing left to pay.
//
// With -redis the leases of the last act are in Redis, which knows nothing of transactions. The database keeps the highest token
// that has written, and refuses what comes with a smaller one:
//
//	high.Guard(ctx, t, h.Fence()) // high := lease.NewHighWater(db, lease.Names{})
//
// It exits with 1 if ours pays twice or not at all, and also if the naive lock came through.
package main

import (
	"github.com/holdfast-go/holdfast/examples/fencing/payroll"
	"github.com/holdfast-go/holdfast/examples/internal/story"
)

func main() { story.Main(payroll.Run) }
