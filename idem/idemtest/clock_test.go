package idemtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// The server's clock alone decides what has expired. Here it is two hours ahead of that of the process, or two hours
// behind, and then moves on.
func TestOnlyTheServersClockCounts(t *testing.T) {
	t.Parallel()
	for _, skew := range []string{"2 hours", "-2 hours"} {
		address := testdb.Postgres(t)
		if err := idem.Migrate(t.Context(), pgxtx.New(pgxdb.Pool(t, address, 8)), idem.Names{}); err != nil {
			t.Fatal(err)
		}
		path := parameter(t, address, "search_path") + ",pg_catalog" // what stands there hides what is built in
		pool := pgxdb.Pool(t, with(t, address, "search_path", path), 8)
		set := func(skew string) {
			t.Helper()
			for _, clock := range []string{"clock_timestamp", "now"} {
				body := " returns timestamptz language sql as $$ select pg_catalog.clock_timestamp() + interval '" + skew + "' $$"
				if _, err := pool.Exec(t.Context(), "create or replace function "+clock+"()"+body); err != nil {
					t.Fatal(err)
				}
			}
		}
		set(skew)
		db, runs := pgxtx.New(pool), 0
		do := func(fresh bool, want error) {
			t.Helper()
			runs = 0
			for _, level := range []tx.Isolation{tx.ReadCommitted, tx.Serializable} {
				// It waits, since the rollback of a refusal goes on after the call.
				keys := idem.New(db.With(tx.Options{Isolation: level}), &idem.Options{TTL: time.Hour, Wait: time.Minute})
				key := idem.Key{Scope: "s", Name: "n", Value: level.String()}
				_, err := idem.Do(t.Context(), keys, key, func(context.Context, pgx.Tx) (int, error) { runs++; return 1, nil })
				if !errors.Is(err, want) || (runs > 0) != fresh {
					t.Errorf("skew %s, %v: got %v after %d runs, want %v", skew, level, err, runs, want)
				}
			}
		}
		inbox := idem.NewInbox(db, "c", &idem.InboxOptions{TTL: time.Hour})
		message := func(want bool) {
			t.Helper()
			got, err := inbox.Do(t.Context(), "m", func(context.Context, pgx.Tx) error { return nil })
			if err != nil || got != want {
				t.Errorf("skew %s: handled %v, %v", skew, got, err)
			}
		}
		sweep := func(want int64) {
			t.Helper()
			keys, err := idem.New(db, &idem.Options{Tombstone: -1}).Sweep(t.Context())
			messages, inboxErr := inbox.Sweep(t.Context())
			if err = errors.Join(err, inboxErr); err != nil || keys != 2*want || messages != want {
				t.Errorf("skew %s: swept %d keys and %d messages, %v", skew, keys, messages, err)
			}
		}
		do(true, nil)
		message(true)
		sweep(0)
		do(false, nil)
		message(false)
		set(skew + " 61 minutes")
		do(false, idem.ErrKeyExpired)
		sweep(1)
		do(true, nil)
		message(true)
	}
}
