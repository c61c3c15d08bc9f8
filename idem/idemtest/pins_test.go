package idemtest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/wire/wiretest"
)

// Each call has two business statements. The transaction of these alone costs 4 warm, and 6 cold in the modes that ask
// the server about a statement first; see the pins of package pgxtx.
var pins = []struct {
	name string
	want trips
	call func(r *rig)
}{
	{"Do costs what the bare transaction does", trips{{4, 6}, {4, 4}, {4, 6}, {6, 6}, {8, 8}}, func(r *rig) { r.do(r.next(), two, nil) }},
	{"Do, then an error", trips{{4, 6}, {4, 4}, {4, 6}, {6, 6}, {7, 7}}, func(r *rig) { r.do(r.next(), then(errNo), errNo) }},
	{"Do, then a failure to store", trips{{4, 6}, {4, 4}, {4, 6}, {6, 6}, {9, 9}}, func(r *rig) { r.do(r.next(), then(idem.Terminal(errNo)), errNo) }},
	{"Do, then a failure that keeps its writes", trips{{4, 6}, {4, 4}, {4, 6}, {6, 6}, {8, 8}}, func(r *rig) {
		keys := idem.New(r.db, &idem.Options{KeepFailedWrites: true})
		_, err := idem.Do(r.ctx, keys, r.key(r.next()), then(idem.Terminal(errNo)))
		r.want(err, errNo)
	}},
	{"replay", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {5, 5}}, func(r *rig) { r.forget(); r.do("known", two, nil) }},
	{"replay of what this process has seen", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func(r *rig) { r.do("known", two, nil) }},
	{"replay from the cache", trips{}, func(r *rig) {
		_, err := idem.Do(r.ctx, r.cache, r.key("known"), two)
		r.must(err)
	}},
	{"Delete", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {4, 4}}, func(r *rig) {
		_, err := r.keys.Delete(r.ctx, r.key(r.next()))
		r.must(err)
	}},
	{"replay of a failure", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {5, 5}}, func(r *rig) { r.forget(); r.do("failed", two, idem.ErrFailed) }},
	{"mismatch", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {5, 5}}, func(r *rig) {
		r.forget()
		_, err := idem.Do(r.ctx, r.keys, r.paid("paid", "200"), two)
		r.want(err, idem.ErrMismatch)
	}},
	{"in flight", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {5, 5}}, func(r *rig) { r.do("running", two, idem.ErrInFlight) }},
	{"DoTx costs two more", trips{{6, 10}, {6, 6}, {6, 10}, {10, 10}, {6, 6}}, func(r *rig) { r.doTx(r.next(), two, nil) }},
	{"DoTx, then an error", trips{{6, 10}, {6, 6}, {6, 10}, {10, 10}, {6, 6}}, func(r *rig) { r.doTx(r.next(), then(errNo), errNo) }},
	{"DoTx, then a failure to store", trips{{6, 10}, {6, 6}, {6, 10}, {10, 10}, {6, 6}}, func(r *rig) { r.doTx(r.next(), then(idem.Terminal(errNo)), errNo) }},
	{"DoTx, replay", trips{{4, 5}, {4, 4}, {4, 5}, {5, 5}, {4, 4}}, func(r *rig) { r.doTx("known", two, nil) }},
	{"DoTx, in flight", trips{{4, 5}, {4, 4}, {4, 5}, {5, 5}, {4, 4}}, func(r *rig) { r.doTx("running", two, idem.ErrInFlight) }},
	{"Do in Do of the same database", trips{{6, 8}, {6, 6}, {6, 8}, {8, 8}, {9, 9}}, func(r *rig) {
		r.must(r.db.Do(r.ctx, func(ctx context.Context, _ pgx.Tx) error {
			_, err := idem.Do(ctx, r.keys, r.key(r.next()), two)
			return err
		}))
	}},
	{"Inbox.Do costs what the bare transaction does", trips{{4, 6}, {4, 4}, {4, 6}, {6, 6}, {5, 5}}, func(r *rig) {
		_, err := r.inbox.Do(r.ctx, r.next(), handle)
		r.must(err)
	}},
	{"Inbox.Do of a duplicate", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {3, 3}}, func(r *rig) {
		_, err := r.inbox.Do(r.ctx, "known", handle)
		r.must(err)
	}},
	{"Inbox.DoBatch of 100 costs what the bare transaction does", trips{{4, 6}, {4, 4}, {4, 6}, {6, 6}, {5, 5}}, func(r *rig) {
		_, err := r.inbox.DoBatch(r.ctx, ids(r), func(ctx context.Context, t pgx.Tx, _ []string) error { return handle(ctx, t) })
		r.must(err)
	}},
	{"Inbox.DoBatch of duplicates", trips{{2, 2}, {2, 2}, {2, 2}, {2, 2}, {3, 3}}, func(r *rig) {
		_, err := r.inbox.DoBatch(r.ctx, []string{"known", "known"}, func(ctx context.Context, t pgx.Tx, _ []string) error { return handle(ctx, t) })
		r.must(err)
	}},
	{"Inbox.DoTx costs one more", trips{{5, 8}, {5, 5}, {5, 8}, {8, 8}, {5, 5}}, func(r *rig) {
		r.foreign(func(t pgx.Tx) {
			_, err := r.inbox.DoTx(r.ctx, t, r.next(), handle)
			r.must(err)
		})
	}},
	{"Inbox.DoTx of a duplicate costs one", trips{{3, 4}, {3, 3}, {3, 4}, {4, 4}, {3, 3}}, func(r *rig) {
		r.foreign(func(t pgx.Tx) {
			_, err := r.inbox.DoTx(r.ctx, t, "known", handle)
			r.must(err)
		})
	}},
	{"Inbox.FreshTx of 100 costs one", trips{{3, 4}, {3, 3}, {3, 4}, {4, 4}, {3, 3}}, func(r *rig) {
		r.foreign(func(t pgx.Tx) {
			_, err := r.inbox.FreshTx(r.ctx, t, ids(r)...)
			r.must(err)
		})
	}},
}

func TestRoundTrips(t *testing.T) {
	for i, mode := range wiretest.Modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r := openRig(t, mode)
			r.prepare()
			for _, pin := range pins {
				t.Run(pin.name, func(t *testing.T) {
					r.Rig.TB, r.ctx = t, t.Context()
					r.Cold()
					got := r.WarmAndCold(func() { pin.call(r) })
					if got != pin.want[i] {
						t.Errorf("%d trips warm and %d cold, want %v", got[0], got[1], pin.want[i])
					}
				})
			}
		})
	}
}
