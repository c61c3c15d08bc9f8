package idemtest_test

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// A sweeper that deletes all that is due in one statement holds a million locks; one that waits for another's locks, or makes
// calls wait for its own, stops the service. HOLDFAST_ROUNDS thousands of rows, 20 by default.
func TestSweepOfMany(t *testing.T) {
	t.Parallel()
	rows := int64(20_000)
	if n, err := strconv.ParseInt(os.Getenv("HOLDFAST_ROUNDS"), 10, 64); err == nil {
		rows = max(rows, n*1000)
	}
	pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
	db := pgxtx.New(pool)
	if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	insert := `insert into idem_key (k, scope, name, state, fp, nonce, codec, body, expires_at)
		select sha256(n::text::bytea), 's', 'n', 2, '', n, 2, '"answer"', now() - n * interval '1 millisecond' from generate_series(1, $1) n`
	if _, err := pool.Exec(t.Context(), insert, rows); err != nil {
		t.Fatal(err)
	}
	keys := idem.New(db, &idem.Options{Tombstone: -1})

	// Another transaction holds some of what is due, as another sweeper does.
	const held = 1500
	other, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(context.Background()) }()
	if _, err := other.Exec(t.Context(), "delete from idem_key where k in (select k from idem_key order by expires_at limit $1)", held); err != nil {
		t.Fatal(err)
	}
	var (
		all          sync.WaitGroup
		swept, calls atomic.Int64
		over         = make(chan struct{})
		started      = time.Now()
	)
	all.Go(func() {
		for n := 0; ; n++ {
			key := idem.Key{Scope: "s", Name: "n", Value: strconv.Itoa(n)}
			if _, err := idem.Do(t.Context(), keys, key, func(context.Context, pgx.Tx) (int, error) { return n, nil }); err != nil {
				t.Error(err)
			}
			calls.Add(1)
			select {
			case <-over:
				return
			default:
			}
		}
	})
	var sweepers sync.WaitGroup
	for range 2 {
		sweepers.Go(func() {
			n, err := keys.Sweep(t.Context())
			if err != nil {
				t.Error(err)
			}
			swept.Add(n)
		})
	}
	sweepers.Wait()
	close(over)
	all.Wait()
	if swept.Load() != rows-held {
		t.Errorf("swept %d, want %d", swept.Load(), rows-held)
	}
	t.Logf("%d rows in %v by two sweepers, with %d calls meanwhile", swept.Load(), time.Since(started).Round(time.Millisecond), calls.Load())
}
