package idemtest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// cutter is a database behind a proxy, with a direct connection to look at what is there.
type cutter struct {
	*testing.T
	proxy  *wire.Proxy
	db     *tx.DB[pgx.Tx]
	direct *tx.DB[pgx.Tx]
}

func newCutter(t *testing.T) *cutter {
	t.Helper()
	url := testdb.Postgres(t)
	proxy, err := wire.Start(url, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	c := &cutter{T: t, proxy: proxy, db: pgxtx.New(pgxdb.Pool(t, proxy.URL(), 8)), direct: pgxtx.New(pgxdb.Pool(t, url, 8))}
	if err := idem.Migrate(t.Context(), c.direct, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.direct.Conn().Exec(t.Context(), "create table effect (name text not null)"); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cutter) effects(name string) (n int) {
	c.Helper()
	if err := c.direct.Conn().QueryRow(c.Context(), "select count(*) from effect where name = $1", name).Scan(&n); err != nil {
		c.Fatal(err)
	}
	return n
}

func (c *cutter) apply(name string, runs *int) func(context.Context, pgx.Tx) (int, error) {
	return func(ctx context.Context, t pgx.Tx) (int, error) {
		*runs++
		_, err := t.Exec(ctx, "insert into effect (name) values ($1)", name)
		return *runs, err
	}
}

func TestLostReplyToCommitIsLookedUp(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	keys, hooks, runs := idem.New(c.db, nil), 0, 0
	cut := c.proxy.CutReplyTo(wire.Runs("commit"))
	work := c.apply("landed", &runs)
	res, err := idem.Do(t.Context(), keys, idem.Key{Scope: "s", Name: "n", Value: "landed"}, func(ctx context.Context, t pgx.Tx) (int, error) {
		if err := tx.AfterCommit(ctx, func(context.Context) { hooks++ }); err != nil {
			return 0, err
		}
		return work(ctx, t)
	})
	if err != nil || res.Value != 1 || res.Replayed || cut.Hits() != 1 {
		t.Fatalf("got %+v, %v, %d cuts", res, err, cut.Hits())
	}
	if runs != 1 || hooks != 1 || c.effects("landed") != 1 {
		t.Fatalf("%d runs, %d hooks, %d effects", runs, hooks, c.effects("landed"))
	}
}

func TestCommitThatNeverArrivedRunsAgain(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	keys, runs := idem.New(c.db, nil), 0
	cut := c.proxy.CutBefore(wire.Runs("commit"))
	res, err := idem.Do(t.Context(), keys, idem.Key{Scope: "s", Name: "n", Value: "never"}, c.apply("never", &runs))
	if err != nil || res.Value != 2 || res.Replayed || cut.Hits() != 1 {
		t.Fatalf("got %+v, %v, %d cuts", res, err, cut.Hits())
	}
	if runs != 2 || c.effects("never") != 1 {
		t.Fatalf("%d runs, %d effects", runs, c.effects("never"))
	}
}

// When nobody can be asked any more, the outcome is unknown, and a retry with the same key finds out.
func TestUnknownStaysUnknown(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	var heard atomic.Int64
	keys := idem.New(c.db.With(tx.Options{CommitTimeout: 300 * time.Millisecond}), &idem.Options{
		Observer: holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
			if e.Kind == idem.EventUnknown {
				heard.Add(1)
			}
		}),
	})
	key, runs := idem.Key{Scope: "s", Name: "n", Value: "unknown"}, 0
	commit := c.proxy.CutReplyTo(wire.Runs("commit"))
	var begin *wire.Hook
	work := c.apply("unknown", &runs)
	_, err := idem.Do(t.Context(), keys, key, func(ctx context.Context, t pgx.Tx) (int, error) {
		begin = c.proxy.CutBefore(wire.Runs("begin")).Always() // from now on there is no way to look
		return work(ctx, t)
	})
	if !errors.Is(err, idem.ErrOutcomeUnknown) || !errors.Is(err, tx.ErrCommitUnknown) || holdfast.OutcomeOf(err) != holdfast.Unknown {
		t.Fatalf("got %v", err)
	}
	if commit.Hits() != 1 || heard.Load() != 1 {
		t.Fatalf("%d cuts, %d events", commit.Hits(), heard.Load())
	}
	begin.Disarm()
	res, err := idem.Do(t.Context(), keys, key, c.apply("unknown", &runs))
	if err != nil || !res.Replayed || runs != 1 || c.effects("unknown") != 1 {
		t.Fatalf("got %+v, %v, %d runs", res, err, runs)
	}
}

func TestLostReplyOfAnInbox(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	inbox, runs := idem.NewInbox(c.db, "c", nil), 0
	for i, fault := range []func(wire.Match) *wire.Hook{c.proxy.CutReplyTo, c.proxy.CutBefore} {
		id := fmt.Sprint("message ", i)
		cut := fault(wire.Runs("commit"))
		handled, err := inbox.Do(t.Context(), id, func(ctx context.Context, t pgx.Tx) error {
			_, err := c.apply(id, &runs)(ctx, t)
			return err
		})
		if err != nil || !handled || cut.Hits() != 1 || c.effects(id) != 1 {
			t.Fatalf("%s: got %v, %v, %d cuts, %d effects", id, handled, err, cut.Hits(), c.effects(id))
		}
	}
}

// An answer that another process has stored since does not prove the commit whose reply was lost: it is the answer, and what
// waits for the commit does not happen.
func TestLostCommitIsNotThatOfAnother(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	key := idem.Key{Scope: "s", Name: "n", Value: "v"}
	runs, hooks, others := 0, 0, 0
	other := idem.New(c.direct, &idem.Options{Wait: time.Minute})
	keys := idem.New(c.db.Observed(holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
		if e.Kind != tx.EventCommitUnknown {
			return
		}
		if res, err := idem.Do(t.Context(), other, key, c.apply("other", &others)); err != nil || res.Replayed {
			t.Errorf("the other: got %+v, %v", res, err)
		}
	})), nil)
	cut := c.proxy.CutBefore(wire.Runs("commit"))
	res, err := idem.Do(t.Context(), keys, key, func(ctx context.Context, tt pgx.Tx) (int, error) {
		if err := tx.AfterCommit(ctx, func(context.Context) { hooks++ }); err != nil {
			return 0, err
		}
		return c.apply("mine", &runs)(ctx, tt)
	})
	if err != nil || !res.Replayed || cut.Hits() != 1 || runs != 1 || hooks != 0 {
		t.Fatalf("got %+v, %v, %d cuts, %d runs, %d hooks", res, err, cut.Hits(), runs, hooks)
	}
	if c.effects("mine") != 0 || c.effects("other") != 1 {
		t.Fatalf("%d effects of the lost one, %d of the other", c.effects("mine"), c.effects("other"))
	}
}

// A mark that another delivery has made since does not prove the commit whose reply was lost.
func TestLostMarkIsNotThatOfAnother(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	runs, hooks, others := 0, 0, 0
	other := idem.NewInbox(c.direct, "c", &idem.InboxOptions{Wait: time.Minute})
	inbox := idem.NewInbox(c.db.Observed(holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
		if e.Kind != tx.EventCommitUnknown {
			return
		}
		if handled, err := other.Do(t.Context(), "id", c.inboxWork("other", &others)); err != nil || !handled {
			t.Errorf("the other: got %v, %v", handled, err)
		}
	})), "c", nil)
	cut := c.proxy.CutBefore(wire.Runs("commit"))
	handled, err := inbox.Do(t.Context(), "id", func(ctx context.Context, tt pgx.Tx) error {
		if err := tx.AfterCommit(ctx, func(context.Context) { hooks++ }); err != nil {
			return err
		}
		return c.inboxWork("mine", &runs)(ctx, tt)
	})
	if err != nil || handled || cut.Hits() != 1 || hooks != 0 {
		t.Fatalf("got %v, %v, %d cuts, %d hooks", handled, err, cut.Hits(), hooks)
	}
	if c.effects("mine") != 0 || c.effects("other") != 1 {
		t.Fatalf("%d effects of the lost one, %d of the other", c.effects("mine"), c.effects("other"))
	}
}

func (c *cutter) inboxWork(name string, runs *int) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, t pgx.Tx) error {
		_, err := c.apply(name, runs)(ctx, t)
		return err
	}
}
