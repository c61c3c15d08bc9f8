package idem_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/test/history"
	"github.com/holdfast-go/holdfast/tx"
)

// Histories of concurrent calls on few keys, each checked against a register that is written once, and against the effects
// in the database. HOLDFAST_ROUNDS makes the campaigns long, HOLDFAST_SEED repeats the choices of one.

func TestHistoriesPgx(t *testing.T) { histories(t, openPgx, testdb.Postgres) }

func TestHistoriesDatabaseSQL(t *testing.T) {
	histories(t, openSQL("pgx", tx.PostgreSQL), testdb.Postgres)
}
func TestHistoriesSQLite(t *testing.T) { histories(t, openSQL("sqlite", tx.SQLite), sqliteFile) }

// A campaign is a kind of history.
type campaign struct {
	name string
	life // with a TTL, keys expire, are swept and used anew
	cuts bool
}

var campaigns = []campaign{
	{name: "kept"},
	{name: "expiring", life: life{ttl: 12 * time.Millisecond, tombstone: 8 * time.Millisecond}},
	{name: "cut", cuts: true},
}

func histories[T any](t *testing.T, open opener[T], address func(testing.TB) string) {
	t.Parallel()
	for _, c := range campaigns {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			direct := address(t)
			s := open(t, direct)
			prepare(t, s)
			if c.cuts && !s.Dialect().Capabilities.ConcurrentWriters {
				t.Log("the database is in the process: no reply of it can be lost")
				return
			}
			seed, n, total := history.Seed(t), history.Rounds(t, 25), map[sight]int{}
			t.Logf("seed %d, %d rounds", seed, n)
			for i := range n {
				r := &round[T]{TB: t, campaign: c, store: s, direct: s, number: i, started: time.Now()}
				r.random = rand.New(rand.NewPCG(seed, uint64(i)))
				r.run(open, direct)
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
		})
	}
}

// A round is one history: several processes call for few keys at once.
type round[T any] struct {
	testing.TB
	campaign
	store   store[T]
	direct  store[T] // around the proxy
	proxy   *wire.Proxy
	number  int
	random  *rand.Rand // of the goroutine that makes the plan
	started time.Time

	mu      sync.Mutex // guards history
	history []*record
}

const (
	workers = 6
	each    = 6 // calls of a worker
	fewKeys = 2
)

func (r *round[T]) run(open opener[T], address string) {
	if r.cuts {
		proxy, err := wire.Start(address, 0)
		if err != nil {
			r.Fatal(err)
		}
		defer func() { _ = proxy.Close() }()
		r.proxy, r.store = proxy, open(r.TB, proxy.URL())
		defer r.store.close()
	}
	processes := r.processes()
	var wg sync.WaitGroup
	for w := range workers {
		plans := r.plan(w, processes)
		wg.Go(func() {
			for _, p := range plans {
				r.do(p)
			}
		})
	}
	wg.Wait()
	r.audit()
}

// processes returns the values that calls are made through. Each is used by several workers, or by one.
func (r *round[T]) processes() []*process[T] {
	var all []*process[T]
	for i := range 4 {
		level := r.level(i)
		db := r.store.With(tx.Options{Isolation: level, Attempts: 100})
		o := &idem.Options{
			Wait:       []time.Duration{0, 5 * time.Millisecond, 100 * time.Millisecond}[r.random.IntN(3)],
			TTL:        r.ttl,
			Tombstone:  r.tombstone,
			AllowReuse: r.ttl > 0 && r.random.IntN(2) == 0,
		}
		all = append(all, &process[T]{
			name: fmt.Sprintf("p%d %v wait %v", i, level, o.Wait), level: level, reuse: o.AllowReuse, shared: i < 2,
			keys: idem.New(db, o), inbox: idem.NewInbox(db, "consumer", &idem.InboxOptions{Wait: o.Wait}),
		})
	}
	return all
}

// level is that of a process: in three rounds of four all have the same.
func (r *round[T]) level(i int) tx.Isolation {
	if !r.store.Dialect().Capabilities.IsolationLevels {
		return tx.DefaultIsolation
	}
	levels := []tx.Isolation{tx.ReadCommitted, tx.RepeatableRead, tx.Serializable}
	if r.number%4 < 3 {
		return levels[r.number%4]
	}
	return levels[(i+r.random.IntN(2))%3]
}

// audit asks for each key once more, and checks all that is known against each other.
func (r *round[T]) audit() {
	last := &process[T]{
		name: "the end", keys: idem.New(r.direct.DB, nil), inbox: idem.NewInbox(r.direct.DB, "consumer", nil), level: tx.ReadCommitted,
	}
	if !r.store.Dialect().Capabilities.IsolationLevels {
		last.level = tx.DefaultIsolation
	}
	for i := range fewKeys {
		for _, inbox := range []bool{false, true} {
			if inbox && r.ttl > 0 {
				continue
			}
			r.do(&plan[T]{id: fmt.Sprintf("end%d", i), process: last, inbox: inbox, keys: []string{r.key(inbox, i)}, end: plainError})
		}
	}
	byKey := map[string][]*record{}
	for _, call := range r.history {
		byKey[call.key] = append(byKey[call.key], call)
	}
	for key, calls := range byKey {
		wrong := r.life.check(slices.Clone(calls))
		if wrong == "" {
			wrong = r.effects(key, calls)
		}
		if wrong != "" {
			r.Errorf("key %s, seen from round %d: %s", key, r.number, wrong)
		}
	}
}

// effects checks the rows that the closures wrote: one of each call whose value is kept, none of any other.
func (r *round[T]) effects(key string, calls []*record) string {
	rows := r.rows(key)
	for _, call := range calls {
		n := rows[call.value]
		switch {
		case call.saw == fresh && n != 1:
			return fmt.Sprintf("%v: its effect is there %d times", call, n)
		case call.saw == unknown && !call.fails && n > 1:
			return fmt.Sprintf("%v: its effect is there %d times", call, n)
		case call.saw == fresh, call.saw == unknown && !call.fails:
			delete(rows, call.value)
		}
		if end := strings.HasPrefix(call.id, "end"); end && r.ttl == 0 && (call.saw == replayed) != (len(r.rows(key)) == 1) {
			return fmt.Sprintf("in the end %v, and the effects are %v", call, r.rows(key))
		}
	}
	if len(rows) > 0 {
		return fmt.Sprintf("effects of calls that did not report them: %v", rows)
	}
	return ""
}

func (r *round[T]) rows(key string) map[string]int {
	r.Helper()
	var text string
	aggregate := "select coalesce(string_agg(value, ' '), '') from effect where name = $1"
	if !r.store.Dialect().Capabilities.ConcurrentWriters {
		aggregate = "select coalesce(group_concat(value, ' '), '') from effect where name = $1"
	}
	if err := r.direct.Conn().QueryRow(context.Background(), aggregate, key).Scan(&text); err != nil {
		r.Fatal(err)
	}
	rows := map[string]int{}
	for _, value := range strings.Fields(text) {
		rows[value]++
	}
	return rows
}

func (r *round[T]) key(inbox bool, i int) string {
	if inbox {
		return fmt.Sprintf("r%d/message%d", r.number, i)
	}
	return fmt.Sprintf("r%d/key%d", r.number, i)
}
