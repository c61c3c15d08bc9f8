package pay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

// Numbers of one run.
const (
	payments  = 60
	customers = 6 // at once
	crashes   = 3
)

// Run runs the story: the same customers against the naive service and against ours.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return story.Result{}, err
	}
	defer place.Remove()
	if place.IsPostgres() {
		db, closeDB, err := place.OpenPostgres(ctx)
		if err != nil {
			return story.Result{}, err
		}
		defer closeDB()
		return run(ctx, c, place, db)
	}
	db, closeDB, err := place.OpenSQLite()
	if err != nil {
		return story.Result{}, err
	}
	defer closeDB()
	return run(ctx, c, place, db)
}

func run[T any](ctx context.Context, c story.Config, place story.Place, db *tx.DB[T]) (story.Result, error) {
	r := story.Result{Story: "payments", Hazard: "retried or double-clicked POST", Backend: place.Backend()}
	if c.Crash {
		r.Story, r.Hazard = "payments-crash", "SIGKILL in the middle of payments"
	}
	if err := Migrate(ctx, db); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()

	lost, requests, err := shop(ctx, c, db, "naive", naive(db), nil)
	if err != nil {
		return r, err
	}
	r.NaiveDamage = lost
	r.Operations = requests
	if c.Crash {
		process, err := story.StartProcess(ctx, serverName, place)
		if err != nil {
			return r, err
		}
		defer process.Kill()
		r.Damage, requests, err = shop(ctx, c, db, "holdfast", nil, process)
		if err != nil {
			return r, err
		}
	} else if r.Damage, requests, err = shop(ctx, c, db, "holdfast", ours(db), nil); err != nil {
		return r, err
	}
	r.Operations += requests
	r.Judge()
	return r, nil
}

// shop lets the customers loose on a server and counts the damage: charges too many, too few, and broken promises.
func shop[T any](ctx context.Context, c story.Config, db *tx.DB[T], name string, h http.Handler, process *story.Process) (damage, requests int, err error) {
	var cl *client
	if process != nil {
		cl = newClient(process.URL())
	} else {
		server := httptest.NewServer(h)
		defer server.Close()
		cl = newClient(server.URL)
	}
	queue, done := make(chan int), make(chan struct{})
	errs := make([]error, customers)
	var wg sync.WaitGroup
	for i := range customers {
		wg.Go(func() {
			for n := range queue {
				errs[i] = errors.Join(errs[i], customer(ctx, cl, name, n))
			}
		})
	}
	go func() {
		defer close(done)
		wg.Wait()
	}()
	for n := range payments {
		if process != nil && n > 0 && n%(payments/(crashes+1)) == 0 {
			// The customers of the last payments are in the middle of them.
			if err := process.Crash(ctx); err != nil {
				return 0, 0, err
			}
		}
		queue <- n
	}
	close(queue)
	<-done
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	return audit(ctx, c, db, name, cl, process)
}

// customer makes payment n, and on some occasions does what a client must not get away with.
func customer(ctx context.Context, cl *client, shop string, n int) error {
	tenant, key := shop+"-tenant", fmt.Sprintf("key-%03d", n)
	p := Payment{Order: fmt.Sprintf("order-%03d", n), Amount: int64(100 + n)}
	if n%10 == 3 {
		p.Amount = limit + 1
	}
	if err := cl.buy(ctx, tenant, key, p); err != nil {
		return err
	}
	switch {
	case shop == "naive":
		return nil
	case n%10 == 4: // the same key with another amount
		status, _, err := cl.pay(ctx, tenant, key, Payment{Order: p.Order, Amount: p.Amount + 1})
		if status != http.StatusUnprocessableEntity {
			cl.breach("a reused key got %d", status)
		}
		return err
	case n%10 == 5: // another tenant with the same key
		p.Order = "other-" + p.Order
		return cl.ack(ctx, shop+"-other", key, p)
	}
	return nil
}

// audit compares the charges with the receipts that customers hold.
func audit[T any](ctx context.Context, c story.Config, db *tx.DB[T], name string, cl *client, process *story.Process) (damage, requests int, err error) {
	rows, err := db.Conn().Query(ctx, "select tenant, order_id, count(*), sum(amount) / count(*) from charge where tenant like $1 group by tenant, order_id", name+"-%")
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	var charges, lost int64
	charged := map[string]bool{}
	for rows.Next() {
		var tenant, order string
		var n, amount int64
		if err := rows.Scan(&tenant, &order, &n, &amount); err != nil {
			return 0, 0, err
		}
		charges += n
		lost += (n - 1) * amount
		charged[tenant+" "+order] = true
		damage += int(n - 1)
		if _, ok := cl.acked[tenant+" "+order]; !ok {
			damage++ // charged, and nobody was told
		}
	}
	for order := range cl.acked {
		if !charged[order] {
			damage++ // told, and not charged
		}
	}
	if name != "naive" {
		damage += len(cl.breaches)
		for _, b := range cl.breaches {
			c.Logf("%s: %s", name, b)
		}
	}
	kills := ""
	if process != nil {
		kills = fmt.Sprintf(", server killed %d times", process.Kills())
	}
	requests = int(cl.requests.Load())
	c.Logf("%-8s %4d requests for %d payments: %d charges, %d.%02d lost%s", name, requests, len(cl.acked), charges, lost/100, lost%100, kills)
	return damage, requests, rows.Err()
}
