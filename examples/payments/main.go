// Command payments shows a payments service under retries, double clicks and lost replies.
//
//	go run ./examples/payments                          SQLite, no server needed
//	go run ./examples/payments -dsn postgres://…        PostgreSQL
//	go run ./examples/payments -crash                   each server is killed with SIGKILL, three times
//	go run ./examples/payments -crash -rounds 50        again and again, each round with another seed
//
// Each customer sends a payment three times at once, twice more on connections that are cut, in the middle of the work
// and after the server committed, and once more to be sure. Some cards are declined (402, which is stored and replayed),
// some requests meet a ledger that is down (503, which frees the key), some customers reuse a key with another amount
// (422), and some use a key that another tenant has used (theirs is another payment).
//
// The naive service looks whether it knows the key, charges, and stores the answer: customers are charged again and
// again. The other holds the boundary where the money moves; pay/service.go has the two side by side:
//
//	idem.Do(ctx, keys, key, func(ctx context.Context, t T) (Receipt, error) {
//		return charge(ctx, db.Tx(t), tenant, p)
//	})
//
// Half of the payments go to a route that has the boundary in its middleware instead, and a handler that is business
// alone; see pay/checkout.go:
//
//	idemhttp.New(keys, tenantOf, nil).Handler(func(w http.ResponseWriter, r *http.Request, t T) error {
//		receipt, err := charge(r.Context(), db.Tx(t), tenant, p)
//		…
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
