package counter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/test/history"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// Histories of concurrent calls for few counters, each checked against one counter that is changed by one at a time.
// HOLDFAST_ROUNDS makes the campaigns long, HOLDFAST_SEED repeats the choices of one.

func TestHistoriesPgx(t *testing.T) {
	histories(t, pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8)), nil)
}

// Replies are lost: what was done is then unknown, but for an operation with an ID, and for a batch.
func TestHistoriesPgxCut(t *testing.T) {
	address := testdb.Postgres(t)
	migrate(t, pgxtx.New(pgxdb.Pool(t, address, 8)))
	proxy, err := wire.Start(address, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	histories[pgx.Tx](t, pgxtx.New(pgxdb.Pool(t, proxy.URL(), 8)).With(quick), proxy)
}

func TestHistoriesSQLite(t *testing.T) {
	histories(t, stddb.SQLite("sqlite", sqliteParams)(t).DB, nil)
}

const (
	workers = 8
	each    = 6 // calls of a worker
	fewKeys = 2
)

func histories[T any](t *testing.T, db *tx.DB[T], proxy *wire.Proxy) {
	t.Parallel()
	migrate(t, db)
	seed, n, total := history.Seed(t), history.Rounds(t, 25), map[sight]int{}
	t.Logf("seed %d, %d rounds", seed, n)
	for i := range n {
		r := &round[T]{TB: t, db: db, proxy: proxy, number: i, slots: i%2 == 1, timed: true, started: time.Now()}
		// Two that share commits, each for itself, and one that does not.
		r.processes = []*counter.Counters[T]{counter.New(db, nil), counter.New(db, nil), counter.New(db, &counter.Options{MaxBatch: 1})}
		r.run(seed)
		for _, call := range r.history {
			total[call.saw]++
		}
		if t.Failed() {
			t.Fatalf("round %d of HOLDFAST_SEED=%d", i, seed)
		}
	}
	var text []string
	for saw, name := range sightNames {
		text = append(text, fmt.Sprintf("%d %s", total[sight(saw)], name))
		if total[sight(saw)] == 0 && n > 1 && (sight(saw) > nothing && sight(saw) < unknown || proxy != nil && sight(saw) == unknown) {
			t.Errorf("no call saw %s: the histories prove nothing of it", name)
		}
	}
	t.Log(strings.Join(text, ", "))
}

// A round is one history: several workers call for few counters at once.
type round[T any] struct {
	testing.TB
	db        *tx.DB[T]
	processes []*counter.Counters[T]
	proxy     *wire.Proxy // nil where no reply is lost
	number    int
	slots     bool // their number changes
	timed     bool // some calls end before they are answered
	started   time.Time

	mu      sync.Mutex // guards history
	history []*record
}

func (r *round[T]) run(seed uint64) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			one := &worker[T]{r, rand.New(rand.NewPCG(seed, uint64(r.number*workers+w))), w}
			for i := range each {
				one.call(fmt.Sprintf("w%d.%d", w, i))
			}
		})
	}
	wg.Wait()
	for _, c := range r.processes {
		if err := c.Close(context.Background()); err != nil {
			r.Error(err)
		}
	}
	last := &worker[T]{r, rand.New(rand.NewPCG(seed, 0)), 0}
	byKey := map[string][]*record{}
	for i := range fewKeys {
		rec := &record{id: "end", key: r.key(i), verb: get, from: time.Since(r.started)}
		value, err := r.processes[0].Get(context.Background(), rec.key)
		last.end(rec, counter.Result{Value: value}, err)
	}
	for _, call := range r.history {
		byKey[call.key] = append(byKey[call.key], call)
	}
	for key, calls := range byKey {
		if wrong := check(calls); wrong != "" {
			r.Errorf("counter %s: %s", key, wrong)
		}
	}
}

func (r *round[T]) key(i int) string { return fmt.Sprintf("r%d/%d", r.number, i) }
