package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
)

// leasedKeys claim a key, do something outside, which takes no time here, and complete the key.
var leasedKeys = group{
	name: "leased",
	variants: func(s *setup) []variant {
		s.leased = idem.NewLeased(s.keys, nil)
		return []variant{
			{"pgx: insert the key, update it", s.rawLeased(false)},
			{"idem.DoLeased", s.doLeased},
			{"pgx: insert the key; begin, work, done+commit", s.rawLeasedTx},
			{"idem.DoLeased with Finish", s.finishLeased},
			{"pgx: insert the key, note that a step begins, its result, update the key", s.rawLeased(true)},
			{"idem.DoLeased with a step", s.stepLeased},
		}
	},
	bars: []bar{
		{at: 1, reference: 0, direct: 0.85, remote: 0.95},
		{at: 3, reference: 2, direct: 0.85, remote: 0.95},
		{at: 5, reference: 4, direct: 0.85, remote: 0.95},
	},
}

// leasedReplays repeat what is done.
var leasedReplays = group{
	name: "leased-replay",
	variants: func(s *setup) []variant {
		s.leased = idem.NewLeased(s.keys, nil)
		return []variant{
			{"pgx, select by primary key", s.bareSelect},
			{"idem.DoLeased", func(ctx context.Context, _ int, seq int64) error {
				res, err := idem.DoLeased(ctx, s.leased, idemKey(known(seq)), func(context.Context, *idem.RunTx[pgx.Tx]) (receipt, error) { return receipt{}, errRan })
				if err == nil && !res.Replayed {
					return errRan
				}
				return err
			}},
		}
	},
	bars: []bar{{at: 1, reference: 0, direct: 0.85, remote: 0.95}},
}

const (
	beginsSQL = `update raw_key set response = $2 where k = $1 and not done`
	claimed   = `{"step":"charge","begun":true}`
)

// rawLeased claims and completes, each in a commit of its own, with or without a step between.
func (s *setup) rawLeased(step bool) func(context.Context, int, int64) error {
	return func(ctx context.Context, _ int, seq int64) error {
		key := keyOf(seq)
		if err := s.pool.QueryRow(ctx, claimSQL, key, fingerprint(key)).Scan(new(int)); err != nil {
			return err
		}
		body, err := json.Marshal(receiptFor(key))
		if err != nil {
			return err
		}
		if step {
			if _, err := s.pool.Exec(ctx, beginsSQL, key, []byte(claimed)); err != nil {
				return err
			}
			if _, err := s.pool.Exec(ctx, beginsSQL, key, body); err != nil {
				return err
			}
		}
		_, err = s.pool.Exec(ctx, doneSQL, key, body)
		return err
	}
}

// rawLeasedTx commits the claim, and then the work with the answer, in three trips.
func (s *setup) rawLeasedTx(ctx context.Context, _ int, seq int64) error {
	key := keyOf(seq)
	r := receiptFor(key)
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := s.pool.QueryRow(ctx, claimSQL, key, fingerprint(key)).Scan(new(int)); err != nil {
		return err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	first, last := &pgx.Batch{}, &pgx.Batch{}
	first.Queue("begin")
	first.Queue(effectSQL, r.Account, r.Amount)
	last.Queue(doneSQL, key, body)
	last.Queue("commit")
	if err := conn.SendBatch(ctx, first).Close(); err != nil {
		return err
	}
	return conn.SendBatch(ctx, last).Close()
}

func (s *setup) doLeased(ctx context.Context, _ int, seq int64) error {
	key := keyOf(seq)
	return first(idem.DoLeased(ctx, s.leased, idemKey(key), func(context.Context, *idem.RunTx[pgx.Tx]) (receipt, error) {
		return receiptFor(key), nil
	}))
}

func (s *setup) finishLeased(ctx context.Context, _ int, seq int64) error {
	key := keyOf(seq)
	return first(idem.DoLeased(ctx, s.leased, idemKey(key), func(ctx context.Context, run *idem.RunTx[pgx.Tx]) (receipt, error) {
		return idem.Finish(ctx, run, charge(key))
	}))
}

func (s *setup) stepLeased(ctx context.Context, _ int, seq int64) error {
	key := keyOf(seq)
	return first(idem.DoLeased(ctx, s.leased, idemKey(key), func(ctx context.Context, run *idem.RunTx[pgx.Tx]) (receipt, error) {
		return idem.Step(ctx, run, idem.External[receipt]{
			Name: "charge", Call: func(context.Context, string) (receipt, error) { return receiptFor(key), nil },
		})
	}))
}

// first refuses a result that is a repetition.
func first[R any](res idem.Result[R], err error) error {
	if err == nil && res.Replayed {
		return errTaken
	}
	return err
}
