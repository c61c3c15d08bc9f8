// Command transfers shows money that moves between accounts while others move it too.
//
//	go run ./examples/transfers                        SQLite
//	go run ./examples/transfers -dsn postgres://…      PostgreSQL, with the deadlocks
//
// Two naive ways fail under the same load. The first reads both balances, decides, and writes what it decided: between the
// read and the write somebody else has written, and money appears or is lost. The second locks the accounts in the order of
// the request: two transfers in opposite directions wait for each other, and the database kills one of them (PostgreSQL
// only: SQLite has one lock). With all rows locked in one order (bank/transfer.go) neither happens:
//
//	locks.Do(ctx, []pessimistic.Rows{accounts.Rows(from, to)}, func(ctx context.Context, t T) error {
//		… // nobody else changes these two until the commit
//	})
//
// Meanwhile everybody who wants these accounts waits, so the transaction must not wait for anybody else: a call to the bank
// of the receiver inside it is refused, by the transport of the HTTP client, with the names of the locks.
//
// It exits with 1 if the sum of all money changed, a transfer met a deadlock or a call was made under a lock, and also if a
// naive way came through.
package main

import (
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/examples/transfers/bank"
)

func main() { story.Main(bank.Run) }
