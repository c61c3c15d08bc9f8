package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

const (
	soakers   = 50
	soakNames = 200
	soakTTL   = 300 * time.Millisecond
	soakRound = 600 * time.Millisecond // a thousand rounds are ten minutes
)

// A standstill is a process that stands still now and then, with its renewals.
type standstill struct {
	lease.FencingStore

	still sync.RWMutex
}

func (s *standstill) Renew(ctx context.Context, terms []lease.Term) ([]lease.Renewal, error) {
	s.still.RLock()
	defer s.still.RUnlock()
	return s.FencingStore.Renew(ctx, terms)
}

// TestSoak has contenders who stand still for longer than their leases last, wake up, and write without looking. A write that
// comes after one with a higher token is a double hold. There are none of guarded ones. How many there are of the others, which
// is what an Advisory lease lets happen to the careless, is printed beside it. HOLDFAST_ROUNDS makes it long.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := &soak{T: t, db: pgxtx.New(openPool(t, testdb.Postgres(t)))}
	migrate(t, s.db)
	for _, table := range []string{"guarded", "loose"} {
		for _, sql := range []string{
			"create table " + table + " (name text primary key, token bigint not null, late bigint not null)",
			fmt.Sprintf("insert into %s select n::text, 0, 0 from generate_series(0, %d) n", table, soakNames-1),
		} {
			if _, err := s.db.Conn().Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	seed := number("HOLDFAST_SEED", rand.Uint64())
	rounds := number("HOLDFAST_ROUNDS", 5)
	end := time.Now().Add(time.Duration(rounds) * soakRound) //nolint:gosec // a number of rounds
	var wg sync.WaitGroup
	for who := range uint64(soakers) {
		random := rand.New(rand.NewPCG(seed, who)) //nolint:gosec // a campaign needs no secret
		wg.Go(func() { s.contend(random, end) })
	}
	wg.Wait()
	t.Logf("seed %d, %d rounds: %d acquisitions, %d refusals, %d guarded commits, %d fenced; double holds by guarded commits %d, by others %d of %d",
		seed, rounds, s.acquired.Load(), s.held.Load(), s.committed.Load(), s.fenced.Load(), s.late("guarded"), s.late("loose"), s.loose.Load())
	if n := s.late("guarded"); n != 0 {
		t.Errorf("%d double holds by guarded commits", n)
	}
	if s.fenced.Load() == 0 || s.late("loose") == 0 {
		t.Error("nobody was fenced, or none of the careless did harm: that proves nothing")
	}
}

type soak struct {
	*testing.T

	db                                       *tx.DB[pgx.Tx]
	acquired, held, committed, fenced, loose atomic.Int64
}

func (s *soak) contend(random *rand.Rand, end time.Time) {
	store := &standstill{FencingStore: lease.NewSQL(s.db, lease.Names{})}
	leases := lease.New(store, &lease.Options{TTL: soakTTL})
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for time.Now().Before(end) {
		time.Sleep(upTo(50 * time.Millisecond))
		h, err := leases.TryAcquire(context.Background(), fmt.Sprint(random.IntN(soakNames)))
		switch {
		case errors.Is(err, lease.ErrHeld):
			s.held.Add(1)
			continue
		case errors.Is(err, lease.ErrLost): // the reply took as long as the lease lasts
			continue
		case err != nil:
			s.Error(err)
			return
		}
		s.acquired.Add(1)
		for range 1 + random.IntN(3) {
			s.write(h)
			if random.IntN(4) > 0 {
				time.Sleep(upTo(30 * time.Millisecond))
				continue
			}
			store.still.Lock()
			time.Sleep(upTo(4 * soakTTL))
			store.still.Unlock()
			s.write(h)
		}
		if _, err := h.Release(context.Background()); err != nil {
			s.Error(err)
		}
	}
}

const markSQL = ` set late = late + (token > $2)::int, token = greatest(token, $2) where name = $1`

// write writes twice, guarded and not, whatever became of the lease.
func (s *soak) write(h *lease.Held) {
	err := s.db.Do(context.Background(), func(ctx context.Context, t pgx.Tx) error {
		if err := h.Fence().Guard(ctx, s.db.Tx(t)); err != nil {
			return err
		}
		_, err := s.db.Tx(t).Exec(ctx, "update guarded"+markSQL, h.Name(), h.Fence().Token)
		return err
	})
	switch {
	case err == nil:
		s.committed.Add(1)
	case errors.Is(err, lease.ErrFenced):
		s.fenced.Add(1)
	default:
		s.Error(err)
	}
	s.loose.Add(1)
	if _, err := s.db.Conn().Exec(context.Background(), "update loose"+markSQL, h.Name(), h.Fence().Token); err != nil {
		s.Error(err)
	}
}

func (s *soak) late(table string) (n int64) {
	s.Helper()
	if err := s.db.Conn().QueryRow(context.Background(), "select sum(late)::bigint from "+table).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}
