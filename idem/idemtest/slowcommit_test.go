package idemtest_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tx"
)

// A commit that still goes on when its connection breaks is neither done nor undone: who takes it for undone does the work
// again, and who takes it for done tells of what can yet fail.
func TestCommitThatGoesOnIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, level := range []tx.Isolation{tx.ReadCommitted, tx.RepeatableRead, tx.Serializable} {
		t.Run("keys at "+level.String(), func(t *testing.T) {
			t.Parallel()
			c := newCutter(t)
			keys, runs := idem.New(c.db.With(tx.Options{Isolation: level}), nil), 0
			c.goesOn(func(ctx context.Context) error {
				_, err := idem.Do(ctx, keys, idem.Key{Scope: "s", Name: "n", Value: "slow"}, c.apply("slow", &runs))
				return err
			})
			if n := c.effects("slow"); runs != 1 || n != 1 {
				t.Errorf("%d runs, %d effects", runs, n)
			}
		})
	}
	t.Run("inbox", func(t *testing.T) {
		t.Parallel()
		c := newCutter(t)
		inbox, runs := idem.NewInbox(c.db, "c", nil), 0
		c.goesOn(func(ctx context.Context) error {
			_, err := inbox.Do(ctx, "slow", func(ctx context.Context, t pgx.Tx) error {
				_, err := c.apply("slow", &runs)(ctx, t)
				return err
			})
			return err
		})
		if n := c.effects("slow"); runs != 1 || n != 1 {
			t.Errorf("%d runs, %d effects", runs, n)
		}
	})
}

// goesOn breaks the connection of do while its commit waits for a lock, and lets the commit go on once do has
// looked several times.
func (c *cutter) goesOn(do func(ctx context.Context) error) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	c.proxy.LoseCancels()
	gate := strconv.Itoa(int(rand.Int32()))
	for _, query := range []string{
		"create function wait() returns trigger language plpgsql as 'begin perform pg_advisory_xact_lock(tg_argv[0]::int); return null; end'",
		"create constraint trigger waits after insert on effect deferrable initially deferred for each row execute function wait(" + gate + ")",
	} {
		if _, err := c.direct.Conn().Exec(ctx, query); err != nil {
			c.Fatal(err)
		}
	}
	done := make(chan error, 1)
	err := c.direct.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
		if _, err := t.Exec(ctx, "select pg_advisory_xact_lock("+gate+")"); err != nil {
			return err
		}
		go func() { done <- do(c.Context()) }()
		waits := "select count(*) from pg_locks where locktype = 'advisory' and not granted and objid = " + gate
		for n := 0; n == 0; {
			if err := t.QueryRow(ctx, waits).Scan(&n); err != nil {
				return err
			}
		}
		asksKey, asksMark := wire.Runs("select case when not exists"), wire.Runs("with lock as materialized")
		looks := c.proxy.Watch(func(m wire.Message) bool { return asksKey(m) || asksMark(m) })
		c.proxy.Break()
		for looks.Hits() < 5 {
			select {
			case err := <-done:
				c.Errorf("it did not wait for the commit: %v", err)
				done <- nil
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			default:
			}
		}
		return nil
	})
	if err != nil {
		c.Fatal(err)
	}
	if err := <-done; err != nil {
		c.Errorf("the commit went through, and got %v", err)
	}
}
