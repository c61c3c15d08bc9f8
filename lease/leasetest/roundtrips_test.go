package leasetest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/wire/wiretest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// A rig is a store that is reached through a proxy which counts.
type rig struct {
	*wiretest.Rig

	db     *tx.DB[pgx.Tx]
	store  *lease.SQL[pgx.Tx]
	leases *lease.Leases[*lease.Held]
	ctx    context.Context //nolint:containedctx // it is that of the test
	n      int
}

func openRig(t *testing.T, mode pgx.QueryExecMode) *rig {
	t.Helper()
	r := &rig{Rig: wiretest.Open(t, mode), ctx: t.Context()}
	r.db = pgxtx.New(r.Pool)
	if err := lease.Migrate(r.ctx, r.db, lease.Names{}); err != nil {
		t.Fatal(err)
	}
	r.store = lease.NewSQL(r.db, lease.Names{})
	r.leases = lease.New(r.store, &lease.Options{TTL: time.Hour})
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
}

func (r *rig) hold() *lease.Held {
	r.Helper()
	r.n++
	h, err := r.leases.TryAcquire(r.ctx, fmt.Sprint("lease ", r.n))
	if err != nil {
		r.Fatal(err)
	}
	return h
}

func (r *rig) work(_ context.Context, t pgx.Tx) error {
	_, err := t.Exec(r.ctx, "select $1::int", 1)
	return err
}

// trips are warm and cold, in the order of wiretest.Modes.
type trips [5][2]int

func TestRoundTrips(t *testing.T) {
	for i, mode := range wiretest.Modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r := openRig(t, mode)
			h, dead := r.hold(), r.hold()
			slots, full := lease.NewSemaphore(r.leases, "slots", 100), lease.NewSemaphore(r.leases, "full", 20)
			for range 20 {
				if _, err := full.TryAcquire(r.ctx); err != nil {
					t.Fatal(err)
				}
			}
			term := lease.Term{Name: h.Name(), Token: h.Fence().Token, Nonce: h.Fence().Nonce, TTL: time.Hour}
			for _, pin := range []struct {
				name string
				want trips
				call func()
			}{
				{"an acquisition costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func() { r.hold() }},
				{"a refusal costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func() {
					if _, err := r.leases.TryAcquire(r.ctx, h.Name()); !errors.Is(err, lease.ErrHeld) {
						r.Error(err)
					}
				}},
				{"a take-over from a holder that died costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func() {
					r.Exec("update lease set expires_at = '2000-01-01' where name = $1", dead.Name())
					if _, err := r.store.TryAcquire(r.ctx, lease.Claim{Name: dead.Name(), Nonce: rand.Text(), TTL: time.Hour}); err != nil {
						r.Error(err)
					}
				}},
				{"a renewal costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func() {
					_, err := r.store.Renew(r.ctx, []lease.Term{term})
					r.must(err)
				}},
				{"a release costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func() {
					_, err := r.store.Release(r.ctx, lease.Term{Name: "nobody's", Nonce: "none"})
					r.must(err)
				}},
				{"a try in turn costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func() {
					_, err := r.store.TryInTurn(r.ctx, lease.Claim{Name: h.Name(), Nonce: "n", TTL: time.Hour}, lease.Waiter{ID: "w", TTL: time.Hour})
					r.must(err)
				}},
				{"a slot of a semaphore costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func() {
					_, err := slots.TryAcquire(r.ctx)
					r.must(err)
				}},
				{"a refusal by a semaphore whose slots are all held costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func() {
					if _, err := full.TryAcquire(r.ctx); !errors.Is(err, lease.ErrHeld) {
						r.Error(err)
					}
				}},
				{"a look at one costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func() {
					_, err := r.leases.Leader(r.ctx, h.Name())
					r.must(err)
				}},
				{"a page of the list costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func() {
					_, err := r.leases.List(r.ctx, lease.Page{})
					r.must(err)
				}},
				{"the wish that a holder resign costs one", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func() {
					_, err := r.leases.RequestResign(r.ctx, h.Name())
					r.must(err)
				}},
				{"a guard in Do costs nothing", trips{{3, 4}, {3, 3}, {3, 4}, {4, 4}, {4, 4}}, func() {
					r.must(lease.Do(r.ctx, r.db, h, r.work))
				}},
				{"a bare transaction", trips{{3, 4}, {3, 3}, {3, 4}, {4, 4}, {3, 3}}, func() { r.must(r.db.Do(r.ctx, r.work)) }},
				{"a guard by itself costs one", trips{{4, 5}, {4, 4}, {4, 5}, {5, 5}, {4, 4}}, func() {
					r.must(r.db.Do(r.ctx, func(ctx context.Context, t pgx.Tx) error {
						if err := h.Fence().Guard(ctx, r.db.Tx(t)); err != nil {
							return err
						}
						return r.work(ctx, t)
					}))
				}},
			} {
				t.Run(pin.name, func(t *testing.T) {
					r.TB, r.ctx = t, t.Context()
					r.Cold()
					if got := r.WarmAndCold(pin.call); got != pin.want[i] {
						t.Errorf("%d trips warm and %d cold, want %v", got[0], got[1], pin.want[i])
					}
				})
			}
		})
	}
}

// A process that holds a thousand leases renews them in two statements.
func TestAThousandLeases(t *testing.T) {
	t.Parallel()
	r := openRig(t, pgx.QueryExecModeCacheStatement)
	counting := &renewals{SQL: r.store, seen: make(chan int, 100)}
	leases := lease.New(counting, &lease.Options{TTL: 30 * time.Second, RenewEvery: 5 * time.Second})
	for i := range 1000 {
		if _, err := leases.TryAcquire(t.Context(), fmt.Sprint("many ", i)); err != nil {
			t.Fatal(err)
		}
	}
	// Those that were taken one after the other come together.
	for tries := 0; <-counting.seen != 1000; tries++ {
		if tries == 10 {
			t.Fatal("1000 leases are not renewed in one statement")
		}
	}
}

type renewals struct {
	*lease.SQL[pgx.Tx]

	seen chan int
}

func (c *renewals) Renew(ctx context.Context, terms []lease.Term) ([]lease.Renewal, error) {
	c.seen <- len(terms)
	return c.SQL.Renew(ctx, terms)
}

// A try that fails writes nothing: no version of the row, no transaction ID, no write-ahead log.
func TestRefusalsWriteNothing(t *testing.T) {
	t.Parallel()
	r := openRig(t, pgx.QueryExecModeCacheStatement)
	h := r.hold()
	slots := lease.NewSemaphore(r.leases, "slots", 3)
	for range 3 {
		if _, err := slots.TryAcquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() (rows string) {
		const versions = "select string_agg(name || xmin::text || ' ' || xmax::text || ' ' || ctid::text, ', ' order by name) from lease"
		if err := r.Direct.QueryRow(t.Context(), versions).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	before := rows()
	for range 1000 {
		if _, err := r.leases.TryAcquire(t.Context(), h.Name()); !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		if _, err := slots.TryAcquire(t.Context()); !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
	}
	if after := rows(); before != after {
		t.Errorf("the rows were %s and are %s", before, after)
	}
}
