package cashier

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

// A report compares the provider's ledger, the database, and what the clients were told.
type report struct {
	clients    int
	charges    int
	again      int // charges of an order beyond one, or fewer
	unrecorded int // orders that the database does not know as paid with a charge of theirs
	untold     int // clients without an answer, or with one that is not in the ledger
	left       int // keys that had no answer when the last client was gone
	open       int // those that have none in the end
}

func (r report) damage() int { return r.again + r.unrecorded + r.untold + r.open }

// audit is made when nothing happens any more. answers are those of the clients, by order.
func audit(ctx context.Context, conn tx.Conn, provider string, answers map[string][]string) (r report, err error) {
	ledger, err := readLedger(ctx, provider)
	if err != nil {
		return r, err
	}
	for order, given := range answers {
		charges := ledger[order]
		r.charges += len(charges)
		r.again += max(len(charges)-1, 1-len(charges))
		c, err := paid(ctx, conn, Order{ID: order})
		if err != nil && !errors.Is(err, tx.ErrNoRows) {
			return r, err
		}
		if charges[c.ID].ID == "" {
			r.unrecorded++
		}
		for _, answer := range given {
			r.clients++
			id, ok := strings.CutPrefix(answer, paidWith)
			if !ok || charges[id].ID == "" {
				r.untold++
			}
		}
	}
	return r, nil
}

// readLedger returns the charges by order and ID.
func readLedger(ctx context.Context, provider string) (map[string]map[string]Charge, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, provider+"/ledger", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	var entries []entry
	if err := json.NewDecoder(res.Body).Decode(&entries); err != nil {
		return nil, err
	}
	ledger := map[string]map[string]Charge{}
	for _, e := range entries {
		if ledger[e.Order] == nil {
			ledger[e.Order] = map[string]Charge{}
		}
		ledger[e.Order][e.ID] = e.Charge
	}
	return ledger, nil
}
