package idemtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/wire/wiretest"
)

// leasedPins: a claim is one trip and the answer one; a business transaction of two statements costs the four that it costs by
// itself, and stores the answer with them; a repetition is one, and a takeover two before the closure.
var leasedPins = []struct {
	name string
	want trips
	call func(r *rig, keys *idem.Leased[*idem.RunTx[pgx.Tx]])
}{
	{"DoLeased", trips{{2, 4}, {2, 2}, {2, 4}, {4, 4}, {2, 2}}, func(r *rig, keys *idem.Leased[*idem.RunTx[pgx.Tx]]) {
		r.doLeased(keys, r.next(), noWork, nil)
	}},
	{"DoLeased, then an error", trips{{2, 4}, {2, 2}, {2, 4}, {4, 4}, {2, 2}}, func(r *rig, keys *idem.Leased[*idem.RunTx[pgx.Tx]]) {
		r.doLeased(keys, r.next(), func(context.Context, *idem.RunTx[pgx.Tx]) (string, error) { return "", errNo }, errNo)
	}},
	{"a step costs two", trips{{4, 7}, {4, 4}, {4, 7}, {8, 8}, {4, 4}}, func(r *rig, keys *idem.Leased[*idem.RunTx[pgx.Tx]]) {
		r.doLeased(keys, r.next(), oneStep, nil)
	}},
	{"Finish costs what the bare transaction does", trips{{5, 8}, {5, 5}, {5, 8}, {8, 8}, {8, 8}}, func(r *rig, keys *idem.Leased[*idem.RunTx[pgx.Tx]]) {
		r.doLeased(keys, r.next(), func(ctx context.Context, run *idem.RunTx[pgx.Tx]) (string, error) { return idem.Finish(ctx, run, two) }, nil)
	}},
	{"replay", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func(r *rig, keys *idem.Leased[*idem.RunTx[pgx.Tx]]) {
		r.doLeased(keys, "known", noWork, nil)
	}},
	{"mismatch", trips{{1, 2}, {1, 1}, {1, 2}, {2, 2}, {1, 1}}, func(r *rig, keys *idem.Leased[*idem.RunTx[pgx.Tx]]) {
		_, err := idem.DoLeased(r.ctx, keys, r.paid("paid", "200"), noWork)
		r.want(err, idem.ErrMismatch)
	}},
	{"takeover", trips{{3, 6}, {3, 3}, {3, 6}, {6, 6}, {3, 3}}, func(r *rig, keys *idem.Leased[*idem.RunTx[pgx.Tx]]) {
		value := r.next()
		r.abandon(value)
		r.doLeased(keys, value, noWork, nil)
	}},
}

func noWork(context.Context, *idem.RunTx[pgx.Tx]) (string, error) { return "done", nil }

func oneStep(ctx context.Context, run *idem.RunTx[pgx.Tx]) (string, error) {
	return idem.Step(ctx, run, idem.External[string]{Name: "charge", Call: func(context.Context, string) (string, error) { return "done", nil }})
}

func (r *rig) doLeased(keys *idem.Leased[*idem.RunTx[pgx.Tx]], value string, fn func(context.Context, *idem.RunTx[pgx.Tx]) (string, error), want error) {
	r.Helper()
	if _, err := idem.DoLeased(r.ctx, keys, r.key(value), fn); !errors.Is(err, want) {
		r.Errorf("got error %v, want %v", err, want)
	}
}

// abandon leaves a key whose lease has run out, by a connection that is neither counted nor in a transaction.
func (r *rig) abandon(value string) {
	r.Helper()
	conn, err := pgx.ConnectConfig(r.ctx, r.Direct.Config())
	r.must(err)
	defer func() { r.must(conn.Close(r.ctx)) }()
	id := r.key(value).ID()
	_, err = conn.Exec(r.ctx, `insert into idem_key (k, scope, name, state, fp, nonce, epoch, lease_until, expires_at)
		values ($1, $2, 'charge', 1, '', 1, 1, clock_timestamp(), 'infinity')`, id[:], r.scope)
	r.must(err)
}

func TestRoundTripsOfLeases(t *testing.T) {
	for i, mode := range wiretest.Modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			r := openRig(t, mode)
			r.prepare()
			keys := idem.NewLeased(r.keys, nil)
			for _, pin := range leasedPins {
				t.Run(pin.name, func(t *testing.T) {
					r.Rig.TB, r.ctx = t, t.Context()
					r.Cold()
					got := r.WarmAndCold(func() { pin.call(r, keys) })
					if got != pin.want[i] {
						t.Errorf("%d trips warm and %d cold, want %v", got[0], got[1], pin.want[i])
					}
				})
			}
		})
	}
}
