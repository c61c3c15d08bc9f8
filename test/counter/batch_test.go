package counter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/prove"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// Calls that share a commit, with a failure at each point of it. A statement that commits itself cannot be refused after it
// took effect, as the harness would have it in a driver, so PostgreSQL is broken on the wire.

func TestBatchesPgxOnTheWire(t *testing.T) {
	proveBatches(t, []string{"Additions", "Once"}, func(t *testing.T) *prove.Database[*tx.DB[pgx.Tx]] {
		url := testdb.Postgres(t)
		migrate(t, pgxtx.New(pgxdb.Pool(t, url, 8)))
		return prove.Postgres(url, func(ctx context.Context, url string) (db *tx.DB[pgx.Tx], end func(), err error) {
			pool, err := pgxpool.New(ctx, url)
			if err != nil {
				return nil, nil, err
			}
			return pgxtx.New(pool).With(quick), pool.Close, nil
		})
	})
}

func TestBatchesSQLite(t *testing.T) {
	proveBatches(t, []string{"Takes", "Once"}, proveSQLite)
}

func proveBatches[T any](t *testing.T, only []string, open func(t *testing.T) *prove.Database[*tx.DB[T]]) {
	plus := func(n int64) delta { return delta{n: n} }
	for name, deltas := range map[string][]delta{
		"Additions": {plus(64), plus(1), plus(2), plus(4), plus(8)},
		"Takes":     {plus(64), plus(1), {n: -16, take: true}, plus(2), {n: -200, take: true}},
		"Once":      {{n: 64, op: "op1"}, {n: 1, op: "op2"}, {n: -16, take: true, op: "op3"}, {n: 1, op: "op2"}, {n: -200, take: true, op: "op4"}},
	} {
		if !slices.Contains(only, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &batches[T]{TB: t, deltas: deltas, repeat: name == "Once", known: map[string][]holdfast.Outcome{}}
			prove.CrashEverywhere(t, open(t), prove.Handler[*tx.DB[T], int64]{Call: b.call, Effects: b.effects})
			t.Logf("%d calls of %d shared a commit", b.shared.Load(), b.calls.Load())
			if b.shared.Load() < b.calls.Load()/2 {
				t.Error("too few share a commit: that proves nothing")
			}
		})
	}
}

// A delta is one call of several at once.
type delta struct {
	n    int64
	take bool
	op   string
}

// batches makes calls that share a commit, and remembers what was said of each.
type batches[T any] struct {
	testing.TB
	deltas        []delta
	repeat        bool // all of them, by their operation IDs
	calls, shared atomic.Int64

	mu    sync.Mutex // guards known
	known map[string][]holdfast.Outcome
}

var errSome = errors.New("some calls failed")

// call makes the first call, holds it at the database until the others wait behind it, and lets go.
func (b *batches[T]) call(ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	b.mu.Lock()
	_, again := b.known[key]
	b.mu.Unlock()
	if again && !b.repeat {
		return 0, nil // it may not be made twice
	}
	outcomes := make([]holdfast.Outcome, len(b.deltas)) // unknown
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.known[key] = outcomes
	}()
	held, free := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(held); <-free })
	c := counter.New(db.Wrapped(func(d tx.Driver[T]) tx.Driver[T] { return &holding[T]{d, first} }),
		&counter.Options{BatchTimeout: 2 * time.Second, Observer: holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
			if e.Kind == counter.EventBatch {
				b.shared.Add(e.Count)
			}
		})})
	defer func() { _ = c.Close(context.Background()) }() // a batch goes on without its callers
	var all, waiting sync.WaitGroup
	waiting.Add(len(b.deltas) - 1)
	all.Go(func() {
		<-held
		for i, d := range b.deltas[1:] {
			told := sync.OnceFunc(waiting.Done)
			all.Go(func() { outcomes[i+1] = d.make(queued{ctx, told}, c, key) })
		}
		waiting.Wait()
		close(free)
	})
	defer all.Wait()
	b.calls.Add(int64(len(b.deltas) - 1))
	outcomes[0] = b.deltas[0].make(ctx, c, key)
	all.Wait()
	for _, o := range outcomes {
		if o != holdfast.Applied {
			return 0, errSome
		}
	}
	return 0, nil
}

// make makes one call. A refusal for want of stock is an answer, and changes nothing.
func (d delta) make(ctx context.Context, c counters, key string) holdfast.Outcome {
	var options []counter.Option
	if d.op != "" {
		options = append(options, counter.Once(d.op))
	}
	var err error
	if d.take {
		_, err = c.Take(ctx, key, -d.n, options...)
	} else {
		_, err = c.Add(ctx, key, d.n, options...)
	}
	if errors.Is(err, counter.ErrInsufficient) && d.n == -200 {
		return holdfast.Applied
	}
	return holdfast.OutcomeOf(err)
}

type counters interface {
	Add(ctx context.Context, key string, n int64, options ...counter.Option) (counter.Result, error)
	Take(ctx context.Context, key string, n int64, options ...counter.Option) (counter.Result, error)
}

// effects holds the value, and the operations, against what was said.
func (b *batches[T]) effects(ctx context.Context, db *tx.DB[T], key string) (int, error) {
	var value, ledger, ops int64
	err := db.Conn().QueryRow(ctx, `select coalesce((select n from counter where name = $1), 0), cast(coalesce(sum(delta), 0) as bigint), count(*)
		from counter_op where name = $1 and op like 'op%'`, key).Scan(&value, &ledger, &ops)
	switch {
	case err != nil:
		return 0, err
	case b.repeat && value != ledger:
		return 0, fmt.Errorf("the value is %d, and the operations are %d", value, ledger)
	case b.repeat:
		return int(ops / 3), nil
	}
	b.mu.Lock()
	outcomes := b.known[key]
	b.mu.Unlock()
	if outcomes == nil {
		return 0, nil
	}
	values, text := []int64{0}, ""
	for i, o := range outcomes {
		d := b.deltas[i]
		if d.n == -200 {
			d.n = 0
		}
		text += fmt.Sprintf("%d %v, ", d.n, o)
		for _, v := range values {
			switch o {
			case holdfast.Applied:
				values = append(values[1:], v+d.n)
			case holdfast.Unknown:
				values = append(values, v+d.n)
			}
		}
	}
	for _, v := range values {
		if v == value {
			return 1, nil
		}
	}
	return 0, fmt.Errorf("the value is %d after %s", value, strings.TrimSuffix(text, ", "))
}

// queued is a context that tells when somebody waits for its end, as a call does once it is in a queue.
type queued struct {
	context.Context
	told func()
}

func (q queued) Done() <-chan struct{} {
	q.told()
	return q.Context.Done()
}

// holding is a driver that calls first before anything reaches the database.
type holding[T any] struct {
	tx.Driver[T]
	first func()
}

func (h *holding[T]) Begin(ctx context.Context, o tx.Options, lead []*tx.Stmt) (T, error) {
	h.first()
	return h.Driver.Begin(ctx, o, lead)
}

func (h *holding[T]) Conn() tx.Conn { return holdingConn{h.Driver.Conn(), h.first} }

type holdingConn struct {
	tx.Conn
	first func()
}

func (c holdingConn) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	c.first()
	return c.Conn.QueryRow(ctx, query, args...)
}
