package cashier

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
)

// ttl is how long locks and leases last. A real one lasts half a minute; here somebody waits for it to run out.
const ttl = 600 * time.Millisecond

// patience is how long a client tries.
const patience = 30 * time.Second

// patient are options for those who do not want to wait, as ttl is.
var patient = &idem.LeaseOptions{Lease: ttl, RetryAfter: 100 * time.Millisecond, LongestRetry: ttl}

func init() { story.RegisterWorker("cashier", process[*sql.Tx], process[pgx.Tx]) }

// Points at which a process can be stopped.
const (
	asked   = "asked"   // about to call the provider
	charged = "charged" // the provider has charged, or has lost the request; nothing is saved
	booked  = "booked"  // about to commit
	told    = "paid"    // all is done, and the client was not told
)

// process is a process of our service which serves one client, who tries again until there is an answer: the way, where the
// provider is, its mood, and the order.
func process[T any](ctx context.Context, db *tx.DB[T], args []string) string {
	way, o := args[0], Order{ID: args[3], Amount: amountOf(args[3])}
	provider := halting{Remote{URL: args[1], Client: &http.Client{Transport: moody{args[2]}}}}
	pay := cashiers(db, provider)[way]
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		c, err := pay(ctx, o)
		if err == nil {
			story.Point(told)
			return paidWith + c.ID
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Sprintf("failed: %v", errors.Join(ctx.Err(), err))
		}
	}
}

// paidWith begins what a process says that has paid.
const paidWith = "paid with "

// cashiers are the ways to pay, by name.
func cashiers[T any](db *tx.DB[T], provider Provider) map[string]func(ctx context.Context, o Order) (Charge, error) {
	none := func(Order) string { return "" }
	own := func(o Order) string { return o.ID }
	locks := lease.NewAdvisory(lease.NewSQL(db, lease.Names{}), &lease.Options{TTL: ttl, PollEvery: 20 * time.Millisecond})
	cashier := NewCashier(db, provider, haltingBook, patient)
	return map[string]func(ctx context.Context, o Order) (Charge, error){
		wayOurs:   cashier.Pay,
		wayNaive:  Naive[T]{db, provider, haltingBook, none}.Pay,
		wayKeyed:  Naive[T]{db, provider, haltingBook, own}.Pay,
		wayByHand: ByHand[T]{db, locks, provider, haltingBook}.Pay,
	}
}

// halting has points before and after the call.
type halting struct{ Provider }

func (h halting) Charge(ctx context.Context, key string, o Order) (Charge, error) {
	story.Point(asked)
	c, err := h.Provider.Charge(ctx, key, o)
	story.Point(charged)
	return c, err
}

func haltingBook(ctx context.Context, conn tx.Conn, o Order, c Charge) error {
	err := book(ctx, conn, o, c)
	story.Point(booked)
	return err
}

const moodHeader = "X-Mood"

// moody tells the fake provider its mood.
type moody struct{ mood string }

func (m moody) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(moodHeader, m.mood)
	return http.DefaultTransport.RoundTrip(r)
}

// amountOf makes each order differ.
func amountOf(order string) int64 { return 1000 + int64(len(order)) + int64(strings.Count(order, "e")) }
