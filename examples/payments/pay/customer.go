package pay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// clicks is how often a customer sends a payment at the same moment and waits for the answer.
const clicks = 3

// customer makes payment n, and on some occasions does what a client must not get away with.
func customer(ctx context.Context, c till, n int) error {
	key := fmt.Sprintf("key-%03d", n)
	p := Payment{Order: fmt.Sprintf("order-%03d", n), Amount: int64(100 + n)}
	if n%10 == 3 {
		p.Amount = limit + 1
	}
	if err := buy(ctx, c, "shoes", key, p); err != nil {
		return err
	}
	switch n % 10 {
	case 4: // the same key with another amount
		a, err := c.pay(ctx, "shoes", key, Payment{Order: p.Order, Amount: p.Amount + 1})
		if err == nil && a.status != http.StatusUnprocessableEntity {
			c.complain("key %s with another amount got %d", key, a.status)
		}
		return err
	case 5: // another tenant, with the same key
		p.Order = "other-" + p.Order
		return ack(ctx, c, "hats", key, p, false)
	}
	return nil
}

// buy is a double click, two lost replies, and a retry to be sure.
func buy(ctx context.Context, c till, tenant, key string, p Payment) error {
	var wg sync.WaitGroup
	errs := make([]error, clicks)
	for i := range errs {
		wg.Go(func() { errs[i] = ack(ctx, c, tenant, key, p, false) })
	}
	wg.Go(func() { c.cut(ctx, tenant, key, p, false) })
	wg.Go(func() { c.cut(ctx, tenant, key, p, true) })
	wg.Wait()
	return errors.Join(append(errs, ack(ctx, c, tenant, key, p, true))...)
}

// ack pays and keeps the receipt. Every answer to a key must be the same; known tells that there was one before.
func ack(ctx context.Context, c till, tenant, key string, p Payment, known bool) error {
	a, err := c.pay(ctx, tenant, key, p)
	if err != nil {
		return err
	}
	if known && !a.replayed {
		c.complain("payment %s was done again: %d", key, a.status)
	}
	if p.Amount > limit {
		if a.status != http.StatusPaymentRequired {
			c.complain("a declined payment got %d", a.status)
		}
		return nil
	}
	var r Receipt
	if err := json.Unmarshal(a.body, &r); err != nil || a.status != http.StatusCreated {
		return fmt.Errorf("payment %s got %d: %s", key, a.status, a.body)
	}
	if r.Order != p.Order || r.Amount != p.Amount {
		c.complain("%s got a receipt of others: %+v", tenant, r)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	what := bought{tenant, p.Order}
	if first, ok := c.acked[what]; ok && first != r {
		c.wrong = append(c.wrong, fmt.Sprintf("payment %s got two receipts", key))
	}
	c.acked[what] = r
	return nil
}
