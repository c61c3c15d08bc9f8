package lease_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func TestJobStormPgx(t *testing.T) {
	t.Parallel()
	db := pgxtx.New(openPool(t, testdb.Postgres(t)))
	migrateEffects(t, db)
	jobStorm[pgx.Tx](t, db)
}

func TestJobStormSQLite(t *testing.T) {
	t.Parallel()
	db := sqliteDB(t)
	if _, err := db.Conn().Exec(t.Context(), "create table effect (name text not null)"); err != nil {
		t.Fatal(err)
	}
	jobStorm[*sql.Tx](t, db)
}

// Replicas with clocks up to two periods ahead and behind come for each slot, whose job takes from nothing to three periods: each
// slot has one run, of each kind. HOLDFAST_ROUNDS is how many slots there are.
func jobStorm[T any](t *testing.T, db *tx.DB[T]) {
	const replicas, period = 5, 50 * time.Millisecond
	slots := int(number("HOLDFAST_ROUNDS", 25)) //nolint:gosec // a small number
	seed := number("HOLDFAST_SEED", uint64(time.Now().UnixNano()))
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a storm needs no secret
	takes := []time.Duration{0, period / 10, period, 3 * period}
	first := time.Now().Add(3 * period).Truncate(time.Millisecond)
	var all sync.WaitGroup
	for replica := range replicas {
		ahead := time.Duration(random.Int64N(int64(4*period))) - 2*period
		job := lease.NewJob(lease.NewSQL(db, lease.Names{}), "storm", nil)
		inTx := lease.NewJob(lease.NewSQL(db, lease.Names{}), "storm in transactions", nil)
		for n := range slots {
			slot := first.Add(time.Duration(n) * period)
			work := takes[(n+replica)%len(takes)]
			all.Go(func() {
				time.Sleep(time.Until(slot.Add(-ahead))) // the replica's clock
				_, err := job.Once(t.Context(), slot, func(ctx context.Context, s *lease.Slot) error {
					_, err := db.Conn().Exec(ctx, "insert into effect (name) values ($1)", fmt.Sprint("once ", s.At.UnixMilli()))
					time.Sleep(work) // the job
					return err
				})
				if err != nil {
					t.Error(err)
				}
				_, err = inTx.OnceTx(t.Context(), slot, func(ctx context.Context, tr T) error {
					_, err := db.Tx(tr).Exec(ctx, "insert into effect (name) values ($1)", fmt.Sprint("tx ", slot.UnixMilli()))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	var effects, distinct int
	if err := db.Conn().QueryRow(t.Context(), "select count(*), count(distinct name) from effect").Scan(&effects, &distinct); err != nil {
		t.Fatal(err)
	}
	if effects != 2*slots || distinct != 2*slots {
		t.Errorf("%d effects, %d of them different, want %d", effects, distinct, 2*slots)
	}
}
