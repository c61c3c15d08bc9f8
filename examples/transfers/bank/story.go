package bank

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
)

const (
	owners    = 4 // accounts
	initial   = 1000
	customers = 8
	maxRounds = 50 // of a naive way that does no damage
)

// Run runs the story: two naive ways and ours under the same load, and then a call that is refused.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	r := story.Result{Story: "transfers", Hazard: "a transfer must see consistent balances", Backend: story.Backend(c.DSN)}
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return r, err
	}
	defer place.Remove()
	err = place.On(ctx,
		func(ctx context.Context, db *tx.DB[*sql.Tx]) error { return run(ctx, c, db, &r) },
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error { return run(ctx, c, db, &r) })
	return r, err
}

// A way is one way to transfer.
type way[T any] struct {
	name     string
	transfer func(ctx context.Context, db *tx.DB[T], from, to, amount int64) error
	naive    bool
	each     int // transfers of a customer
}

func run[T any](ctx context.Context, c story.Config, db *tx.DB[T], r *story.Result) error {
	if _, err := db.Conn().Exec(ctx, "create table account (id bigint primary key, balance bigint not null)"); err != nil {
		return err
	}
	ways := []way[T]{{"naive: read, decide, write", NaiveRead[T], true, 12}, {"pessimistic.Do", Transfer[T], false, 12}}
	if db.Dialect().Capabilities.RowLocks {
		ways = append([]way[T]{{"naive: lock as asked", NaiveLock[T], true, 2}}, ways...) // a deadlock takes a second
	} else {
		c.Logf("%-27s not run: it needs row locks, give -dsn", "naive: lock as asked")
	}
	r.NaiveDamage = -1
	for _, w := range ways {
		damage := 0
		for round := 0; round == 0 || w.naive && damage == 0 && round < maxRounds; round++ { // a busy machine can keep the customers apart
			var err error
			if damage, err = w.load(ctx, c, db, uint64(round)); err != nil {
				return err
			}
			r.Operations += customers * w.each
		}
		switch {
		case !w.naive:
			r.Damage += damage
		case r.NaiveDamage < 0, damage < r.NaiveDamage:
			r.NaiveDamage = damage
		}
	}
	made, err := calls(ctx, c, db)
	if err != nil {
		return err
	}
	r.Damage += made
	r.Judge()
	return nil
}

// load lets all customers transfer at once, with the seed of the round, and returns the damage: deadlocks, and money on accounts that nobody
// was told of.
func (w way[T]) load(ctx context.Context, c story.Config, db *tx.DB[T], round uint64) (int, error) {
	if _, err := db.Conn().Exec(ctx, "delete from account"); err != nil {
		return 0, err
	}
	for id := range owners {
		if _, err := db.Conn().Exec(ctx, "insert into account (id, balance) values ($1, $2)", int64(id), initial); err != nil {
			return 0, err
		}
	}
	var deadlocks atomic.Int64
	if w.naive {
		db = db.With(tx.Options{Attempts: 1})
	}
	watched := db.Observed(holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
		if isDeadlock(e.Err) {
			deadlocks.Add(1)
		}
	}))
	var all sync.WaitGroup
	var books [owners]atomic.Int64 // what the customers were told
	errs := make([]error, customers)
	for i := range customers {
		all.Go(func() {
			errs[i] = w.customer(ctx, watched, &deadlocks, &books, rand.New(rand.NewPCG(c.Seed+round, uint64(i))))
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	var sum, wrong int64
	for id := range books {
		balance, err := balanceOf(ctx, db.Conn(), readSQL, int64(id))
		if err != nil {
			return 0, err
		}
		sum += balance
		off := balance - initial - books[id].Load()
		wrong += max(off, -off)
	}
	c.Logf("%-27s %d transfers between %d accounts: %d deadlocks, balances wrong by %d, all money %d of %d",
		w.name, customers*w.each, owners, deadlocks.Load(), wrong, sum, owners*initial)
	return int(deadlocks.Load() + wrong), nil
}

func (w way[T]) customer(ctx context.Context, db *tx.DB[T], deadlocks *atomic.Int64, books *[owners]atomic.Int64, random *rand.Rand) error {
	for range w.each {
		pair, amount := random.Perm(owners), random.Int64N(200)+1
		err := w.transfer(ctx, db, int64(pair[0]), int64(pair[1]), amount)
		if errors.Is(err, ErrInsufficient) {
			continue
		}
		if w.naive && isDeadlock(err) {
			deadlocks.Add(1) // the customer gives up
			continue
		}
		if err != nil {
			return err
		}
		books[pair[0]].Add(-amount)
		books[pair[1]].Add(amount)
	}
	return nil
}

func isDeadlock(err error) bool {
	var e interface{ SQLState() string }
	return errors.As(err, &e) && e.SQLState() == "40P01"
}

// calls tries a call under a lock, and returns how many reached the other bank.
func calls[T any](ctx context.Context, c story.Config, db *tx.DB[T]) (int, error) {
	var reached atomic.Int64
	bank := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer bank.Close()
	client := &http.Client{Transport: pessimistic.Guard(nil)}
	err := Notify(ctx, db, client, bank.URL, 0, 1)
	var held *holdfast.LockHeldError
	if !errors.As(err, &held) {
		return int(reached.Load()), fmt.Errorf("a call under a lock: got %w, want a refusal", err)
	}
	c.Logf("%-27s refused, %d reached the other bank, locks on %v", "an HTTP call under the lock", reached.Load(), held.Locks)
	return int(reached.Load()), nil
}
