package pay

import (
	"context"

	"github.com/holdfast-go/holdfast/tx"
)

// report is what an audit found.
type report struct {
	requests, kills int
	payments        int // that customers hold a receipt for
	charges         int
	doubled         int   // charges of an order after its first
	lost            int64 // what those cost, in cents
	missing         int   // receipts whose charge is not there
	untold          int   // charged orders whose customer holds no receipt
	wrong           []string
}

// audit compares the charges with the receipts that customers hold.
func audit(ctx context.Context, conn tx.Conn, cl *client) (report, error) {
	r := report{requests: int(cl.requests.Load()), kills: cl.server.Kills(), payments: len(cl.acked), wrong: cl.wrong}
	rows, err := conn.Query(ctx, "select id, tenant, order_id, amount from charge")
	if err != nil {
		return r, err
	}
	defer rows.Close()
	charges := map[int64]Receipt{}
	charged := map[bought]int{}
	for rows.Next() {
		var c Receipt
		var what bought
		if err := rows.Scan(&c.Charge, &what.tenant, &what.order, &c.Amount); err != nil {
			return r, err
		}
		c.Order = what.order
		charges[c.Charge] = c
		if charged[what]++; charged[what] > 1 {
			r.doubled++
			r.lost += c.Amount
		}
	}
	r.charges = len(charges)
	for _, receipt := range cl.acked {
		if charges[receipt.Charge] != receipt {
			r.missing++
		}
	}
	for what := range charged {
		if _, ok := cl.acked[what]; !ok {
			r.untold++
		}
	}
	return r, rows.Err()
}
