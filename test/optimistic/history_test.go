package optimistic_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/test/history"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// Histories of concurrent calls on few rows, each checked against one row that is written by one at a time. HOLDFAST_ROUNDS
// makes the campaigns long, HOLDFAST_SEED repeats the choices of one.

func TestHistoriesPgx(t *testing.T) {
	address := testdb.Postgres(t)
	histories(t, pgxtx.New(pgxdb.Pool(t, address, 8)), nil)
}

// Replies are lost: what was done is then unknown, but for an operation with a token.
func TestHistoriesPgxCut(t *testing.T) {
	address := testdb.Postgres(t)
	proxy, err := wire.Start(address, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	histories[pgx.Tx](t, pgxtx.New(pgxdb.Pool(t, proxy.URL(), 8)), proxy)
}

func TestHistoriesSQLite(t *testing.T) { histories(t, openSQLite(t), nil) }

const (
	workers = 6
	each    = 8 // calls of a worker
	fewRows = 2
)

func histories[T any](t *testing.T, db *tx.DB[T], proxy *wire.Proxy) {
	t.Parallel()
	prepare(t, db)
	seed, n, total := history.Seed(t), history.Rounds(t, 25), map[sight]int{}
	t.Logf("seed %d, %d rounds", seed, n)
	for i := range n {
		r := &round[T]{TB: t, db: db, docs: rowsOf(db), proxy: proxy, number: i, started: time.Now()}
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
	}
	t.Log(strings.Join(text, ", "))
	if total[done] == 0 || total[conflict] == 0 || total[absent] == 0 || proxy != nil && n > 1 && total[unknown] == 0 {
		t.Error("the calls do not meet: the histories prove nothing")
	}
}

// A round is one history: several workers call for few rows at once.
type round[T any] struct {
	testing.TB
	db      *tx.DB[T]
	docs    *optimistic.Rows[T]
	proxy   *wire.Proxy // nil where no reply is lost
	number  int
	started time.Time

	mu      sync.Mutex // guards history
	history []*record
}

func (r *round[T]) run(seed uint64) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(r.number*workers+w)))
			one := &worker[T]{round: r, number: w, Rand: random, seen: map[string]int64{}}
			for i := range each {
				one.call(fmt.Sprintf("w%d.%d", w, i), int64((r.number*workers+w)*each+i+1))
			}
		})
	}
	wg.Wait()
	last := &worker[T]{round: r, seen: map[string]int64{}}
	byRow := map[string][]*record{}
	for i := range fewRows {
		last.read("end", r.row(i))
	}
	for _, call := range r.history {
		byRow[call.row] = append(byRow[call.row], call)
	}
	for name, calls := range byRow {
		if wrong := check(calls); wrong != "" {
			r.Errorf("row %s: %s", name, wrong)
		}
	}
}

func (r *round[T]) row(i int) string { return fmt.Sprintf("r%d/row%d", r.number, i) }

// look reads a row behind the back of the package.
func (r *round[T]) look(ctx context.Context, conn tx.Conn, id string) (version, value int64, err error) {
	err = conn.QueryRow(ctx, "select version, size from doc where id = $1", id).Scan(&version, &value)
	return version, value, err
}
