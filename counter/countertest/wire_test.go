package countertest_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/internal/wire/wiretest"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// cutter is a database behind a proxy, with a direct connection to look at what is there.
type cutter struct {
	*testing.T
	proxy  *wire.Proxy
	db     *tx.DB[pgx.Tx]
	direct *counter.Counters[pgx.Tx]
}

func newCutter(t *testing.T) *cutter {
	t.Helper()
	url := testdb.Postgres(t)
	proxy, err := wire.Start(url, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	direct := pgxtx.New(pgxdb.Pool(t, url, 8))
	if err := counter.Migrate(t.Context(), direct, counter.Names{}); err != nil {
		t.Fatal(err)
	}
	return &cutter{t, proxy, pgxtx.New(pgxdb.Pool(t, proxy.URL(), 8)), counter.New(direct, nil)}
}

func (c *cutter) value(key string, want int64) {
	c.Helper()
	if n, err := c.direct.Get(c.Context(), key); err != nil || n != want {
		c.Fatalf("%s is %d, %v, want %d", key, n, err, want)
	}
}

func TestLostReplyIsUnknownWithoutAnOperationID(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	counters := counter.New(c.db, nil)
	if _, err := counters.Add(t.Context(), "k", 1); err != nil {
		t.Fatal(err)
	}
	cut := c.proxy.CutReplyTo(wire.Runs("insert into"))
	_, err := counters.Add(t.Context(), "k", 1)
	if !errors.Is(err, counter.ErrOutcomeUnknown) || holdfast.OutcomeOf(err) != holdfast.Unknown || cut.Hits() != 1 {
		t.Fatalf("got %v, %d cuts", err, cut.Hits())
	}
	c.value("k", 2)
}

// No slot has as much, so that it takes a transaction.
func TestLostCommitIsUnknownWithoutAnOperationID(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	if _, err := c.direct.Add(t.Context(), "k", 16); err != nil {
		t.Fatal(err)
	}
	if err := c.direct.Resize(t.Context(), "k", 4); err != nil {
		t.Fatal(err)
	}
	cut := c.proxy.CutReplyTo(wire.Runs("commit"))
	_, err := counter.New(c.db, nil).Take(t.Context(), "k", 5)
	if !errors.Is(err, counter.ErrOutcomeUnknown) || holdfast.OutcomeOf(err) != holdfast.Unknown || cut.Hits() != 1 {
		t.Errorf("got %v, %d cuts", err, cut.Hits())
	}
	c.value("k", 11)
	cut = c.proxy.CutReplyTo(wire.Runs("commit"))
	err = counter.New(c.db, nil).AddMany(t.Context(), []counter.Change{{Key: "k", N: 1}, {Key: "l", N: 1}})
	if !errors.Is(err, counter.ErrOutcomeUnknown) || cut.Hits() != 1 {
		t.Errorf("got %v, %d cuts", err, cut.Hits())
	}
	c.value("l", 1)
}

// A batch whose commit is lost does not use up the ID of a call that it refused.
func TestLostReplyToABatchKeepsNoRefusedOperation(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	counters := counter.New(c.db, nil)
	sell := func(op string, n int64) func(ctx context.Context) error {
		return func(ctx context.Context) error { _, err := counters.Take(ctx, "k", n, counter.Once(op)); return err }
	}
	cut := c.proxy.CutReplyTo(wire.Runs("commit"))
	errs := c.inBatch(counters, []func(ctx context.Context) error{sell("a", 1), sell("b", 1000), sell("c", 1), sell("d", 1)})
	if cut.Hits() != 1 || errs[0] != nil || !errors.Is(errs[1], counter.ErrInsufficient) || errs[2] != nil || errs[3] != nil {
		t.Errorf("got %v, %d cuts", errs, cut.Hits())
	}
	if res, err := counters.Take(t.Context(), "k", 1000, counter.Once("b")); !errors.Is(err, counter.ErrInsufficient) {
		t.Errorf("got %+v, %v", res, err)
	}
	c.value("k", 97)
}

// A lost reply never counts twice: the same operation again finds the first.
func TestLostReplyIsLookedUpByTheOperationID(t *testing.T) {
	t.Parallel()
	for _, take := range []bool{false, true} {
		for _, before := range []bool{false, true} {
			c := newCutter(t)
			counters := counter.New(c.db, nil)
			if _, err := c.direct.Add(t.Context(), "k", 10); err != nil {
				t.Fatal(err)
			}
			hook := c.proxy.CutReplyTo
			if before {
				hook = c.proxy.CutBefore
			}
			call, want := counters.Add, int64(12)
			if take {
				call, want = counters.Take, 8
			}
			cut := hook(wire.Runs("with holdfast_fresh"))
			res, err := call(t.Context(), "k", 2, counter.Once("op"))
			if err != nil || res.Replayed || cut.Hits() != 1 {
				t.Fatalf("got %+v, %v, %d cuts", res, err, cut.Hits())
			}
			c.value("k", want)
			if res, err := call(t.Context(), "k", 2, counter.Once("op")); err != nil || !res.Replayed {
				t.Fatalf("the repetition got %+v, %v", res, err)
			}
			c.value("k", want)
		}
	}
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

// inBatch holds a lone call up until callers wait behind it, and lets them go as one batch. It returns their errors.
func (c *cutter) inBatch(counters *counter.Counters[pgx.Tx], calls []func(ctx context.Context) error) []error {
	c.Helper()
	hold := c.proxy.HoldReplyTo(wire.Runs("insert into"))
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := counters.Add(c.Context(), "k", 100); err != nil {
			c.Error(err)
		}
	})
	for hold.Hits() == 0 {
		if runtime.Gosched(); c.Failed() {
			c.FailNow()
		}
	}
	for i, call := range calls {
		in := make(chan struct{})
		all.Go(func() { errs[i] = call(queued{c.Context(), sync.OnceFunc(func() { close(in) })}) })
		<-in
	}
	hold.Release()
	all.Wait()
	return errs
}

// C12: a batch whose reply was lost is neither counted twice nor lost.
func TestLostReplyToABatchIsLookedUp(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"with holdfast_fresh", "commit"} {
		c := newCutter(t)
		counters := counter.New(c.db, nil)
		add := func(ctx context.Context) error { _, err := counters.Add(ctx, "k", 1); return err }
		take := func(ctx context.Context) error { _, err := counters.Take(ctx, "k", 2); return err }
		calls, want := []func(ctx context.Context) error{add, add, add, add, add, add, add, add}, int64(108)
		if sql == "commit" {
			calls, want = []func(ctx context.Context) error{take, add, take, add, take, add, take, add}, 96
		}
		cut := c.proxy.CutReplyTo(wire.Runs(sql))
		for _, err := range c.inBatch(counters, calls) {
			if err != nil {
				t.Error(err)
			}
		}
		if cut.Hits() != 1 {
			t.Errorf("%d cuts", cut.Hits())
		}
		c.value("k", want)
	}
}

// C12: where the database cannot be asked, each caller of the batch is told so.
func TestUnknownBatchIsToldToEachOfItsCallers(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	counters := counter.New(c.db, nil)
	c.proxy.CutReplyTo(wire.Runs("with holdfast_fresh")).Always()
	unknown := int64(0)
	add := func(ctx context.Context) error { _, err := counters.Add(ctx, "k", 1); return err }
	for _, err := range c.inBatch(counters, []func(ctx context.Context) error{add, add, add, add, add, add, add, add}) {
		if errors.Is(err, counter.ErrOutcomeUnknown) && holdfast.OutcomeOf(err) == holdfast.Unknown {
			unknown++
		}
	}
	if unknown != 8 {
		t.Errorf("%d callers were told", unknown)
	}
	if n, err := c.direct.Get(t.Context(), "k"); err != nil || n > 108 || n < 100 {
		t.Fatalf("%d, %v", n, err)
	}
}

func TestRoundTrips(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec} {
		r := wiretest.Open(t, mode)
		db := pgxtx.New(r.Pool)
		if err := counter.Migrate(t.Context(), db, counter.Names{}); err != nil {
			t.Fatal(err)
		}
		r.Exec(`create table item (id bigint primary key, n integer); insert into item values (7, 1000)`)
		c := counter.New(db, nil)
		column := counter.NewColumn(db, counter.Column{Table: "item", Key: "id", Column: "n"}, nil)
		id := 0
		next := func() counter.Option {
			id++
			return counter.Once(strings.Repeat("x", id))
		}
		for name, call := range map[string]func() error{
			"Add":         func() error { _, err := c.Add(t.Context(), "k", 100); return err },
			"Add once":    func() error { _, err := c.Add(t.Context(), "k", 100, next()); return err },
			"Column.Add":  func() error { _, err := column.Add(t.Context(), "7", 100); return err },
			"Column.Take": func() error { _, err := column.Take(t.Context(), "7", 1); return err },
			"Column once": func() error { _, err := column.Take(t.Context(), "7", 1, next()); return err },
			"Get":         func() error { _, err := c.Get(t.Context(), "k"); return err },
		} {
			if _, err := c.Add(t.Context(), "k", 100); err != nil {
				t.Fatal(err)
			}
			if trips := r.Warm(func() {
				if err := call(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}); trips != 1 {
				t.Errorf("%s in mode %v: %d round trips, want 1", name, mode, trips)
			}
		}
		if _, err := c.Add(t.Context(), "slots", 1000); err != nil {
			t.Fatal(err)
		}
		if err := c.Resize(t.Context(), "slots", 4); err != nil {
			t.Fatal(err)
		}
		for name, pin := range map[string]struct {
			call func(ctx context.Context, t pgx.Tx) error
			want int
		}{
			"AddTx":  {func(ctx context.Context, t pgx.Tx) error { _, err := c.AddTx(ctx, t, "k", 1); return err }, 3},
			"TakeTx": {func(ctx context.Context, t pgx.Tx) error { _, err := c.TakeTx(ctx, t, "k", 1); return err }, 3},
			"slots":  {func(ctx context.Context, t pgx.Tx) error { _, err := c.TakeTx(ctx, t, "slots", 1); return err }, 3},
		} {
			if trips := r.Warm(func() {
				if err := db.Do(t.Context(), pin.call); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}); trips != pin.want {
				t.Errorf("%s in mode %v: %d round trips, want %d", name, mode, trips, pin.want)
			}
		}
	}
}
