// Command payments shows a payments service under retries, double clicks and lost replies.
//
//	go run ./examples/payments                          SQLite, no server needed
//	go run ./examples/payments -dsn postgres://…        PostgreSQL
//	go run ./examples/payments -crash                   the server is killed with SIGKILL, three times
//
// Each customer sends a payment three times at once, a fourth time on a connection that is cut after the server committed,
// and once more to be sure. The naive service looks whether it knows the key, charges, and stores the answer: customers are
// charged again and again. The other holds the boundary where the money moves (pay/service.go):
//
//	idem.Do(ctx, keys, key, func(ctx context.Context, t T) (Receipt, error) {
//		return charge(ctx, s.db.Tx(t), tenant, p)
//	})
//
// It exits with 1 if a payment was charged twice, lost, or shown to a stranger, and also if the naive service came
// through: then the load was not hard enough to show anything.
package main

import (
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/examples/payments/pay"
)

func main() { story.Main(pay.Run) }
