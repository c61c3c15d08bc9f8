// Command charge-once shows a service that charges cards at a provider, and dies, stands still and loses connections meanwhile.
//
//	go run ./examples/charge-once                       SQLite
//	go run ./examples/charge-once -dsn postgres://…     PostgreSQL, where connections can be cut while a COMMIT is on its way
//	go run ./examples/charge-once -rounds 20            again and again
//
// The provider is another process with a ledger of its own. No transaction of ours covers it: between its charge and our save
// there is always a moment at which a process can die. In each act one order meets one such moment: the process is killed with
// SIGKILL after the charge, during it, before the commit, and before the client was told; it is stopped with SIGSTOP until another
// has served the client; the provider is slow, answers 502 after it has charged, or says nothing; a request arrives long after its
// sender gave up; the provider has forgotten its keys when the client comes back; or the client does not come back at all.
//
// Three ways that one finds in services fail. To look whether the order is paid, charge, and save (cashier/naive.go) charges again.
// With the order's own key for the provider it does so only once that has forgotten the key, but nobody saves what was charged
// for a client that is gone. And with a lock around it, put together by hand (ByHand, there), two clients at once are kept apart, and a
// process that was killed or stopped is not: its lock runs out, and nothing says that it had begun.
//
// Ours records that the charge begins, and under which key, before it does (cashier/cashier.go):
//
//	made, err := idem.Step(ctx, run, idem.External[Charge]{
//		Name: "charge",
//		Call: func(ctx context.Context, key string) (Charge, error) { return provider.Charge(ctx, key, o) },
//		Reconcile: func(ctx context.Context, key string) (Charge, idem.Landing, error) { … provider.Find(ctx, key) … },
//	})
//	…
//	return idem.Finish(ctx, run, func(ctx context.Context, t T) (Charge, error) { return made, book(ctx, t, o, made) })
//
// Whoever comes next finds a charge that has begun and has no result, and asks the provider what became of it instead of guessing.
// The payment and the answer to the client are one commit, which a process that has lost the order meanwhile does not get to. And what
// clients have left behind, CleanUp finishes.
//
// Afterwards the ledger, the database and what the clients were told are compared. It exits with 1 if ours charged an order twice or
// not at all, if the three differ, or if an order is still open, and also if one of the naive ways came through.
package main

import (
	"github.com/holdfast-go/holdfast/examples/charge-once/cashier"
	"github.com/holdfast-go/holdfast/examples/internal/story"
)

func main() { story.Main(cashier.Run) }
