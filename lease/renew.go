package lease

import (
	"context"
	"fmt"
	"time"
)

// maxRenewals bounds how many leases one request renews.
const maxRenewals = 1000

// renew renews what is due in one request, and returns when to come again for each. The request has half of the time that is
// left, so that one which hangs leaves time for another.
func (c *core) renew(handles []*Advisory) (again []time.Duration) {
	again = make([]time.Duration, len(handles))
	var terms []Term
	var of []int // indices of handles
	patience := c.o.TTL
	for i, h := range handles {
		h.watch()
		if h.Check() != nil { // the machine slept, or it ended just before it was added
			c.renewer.Remove(h)
			continue
		}
		terms, of = append(terms, h.term), append(of, i)
		patience = min(patience, time.Until(h.Deadline())/2)
	}
	if len(terms) == 0 {
		return again
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	anchor := c.clock.Read()
	results, err := c.store.Renew(ctx, terms)
	if err == nil && len(results) != len(terms) {
		err = fmt.Errorf("lease: the store answered %d of %d renewals", len(results), len(terms))
	}
	together := c.renewer.Interval()
	for n, i := range of {
		again[i] = together
		failure := err
		if failure == nil {
			failure = results[n].Err
		}
		if failure != nil {
			again[i] = handles[i].unrenewed(failure)
			continue
		}
		handles[i].renewed(anchor, results[n])
	}
	return again
}
