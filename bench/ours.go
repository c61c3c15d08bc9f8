package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
)

func idemKey(value string) idem.Key {
	return idem.Key{Scope: "tenant-1", Name: "charge", Value: value, Fingerprint: idem.FingerprintOf(value, "1250")}
}

func charge(key string) func(context.Context, pgx.Tx) (receipt, error) {
	return func(ctx context.Context, t pgx.Tx) (receipt, error) {
		r := receiptFor(key)
		_, err := t.Exec(ctx, effectSQL, r.Account, r.Amount)
		return r, err
	}
}

// do is the same as threeTrips, by idem.Do.
func (s *setup) do(ctx context.Context, _ int, seq int64) error {
	key := keyOf(seq)
	res, err := idem.Do(ctx, s.keys, idemKey(key), charge(key))
	if err == nil && res.Replayed {
		return errTaken
	}
	return err
}

var errRan = errors.New("a replay ran the operation")

// replay is a repetition in the process that ran the operation, or has replayed it before.
func (s *setup) replay(ctx context.Context, _ int, seq int64) error {
	return replayed(ctx, s.keys, known(seq))
}

// replayElsewhere is the first repetition in a process: the keys forget what they have seen after each was used once.
func (s *setup) replayElsewhere(ctx context.Context, worker int, _ int64) error {
	w := &s.elsewhere[worker]
	if w.keys == nil || w.used == knownKeys {
		w.keys, w.used = idem.New(s.db, nil), 0
	}
	w.used++
	return replayed(ctx, w.keys, known(int64(w.used)))
}

// elsewhere is the process of one worker.
type elsewhere struct {
	keys *idem.Keys[pgx.Tx]
	used int
	_    [48]byte // workers are not to share a cache line
}

func replayed(ctx context.Context, keys *idem.Keys[pgx.Tx], key string) error {
	res, err := idem.Do(ctx, keys, idemKey(key), func(context.Context, pgx.Tx) (receipt, error) { return receipt{}, errRan })
	if err == nil && !res.Replayed {
		return errRan
	}
	return err
}

func (s *setup) inboxDo(ctx context.Context, _ int, seq int64) error {
	_, err := s.inbox.Do(ctx, keyOf(seq), func(ctx context.Context, t pgx.Tx) error {
		_, err := t.Exec(ctx, effectSQL, "account-7", 1250)
		return err
	})
	return err
}

// batchSize is how many messages one batch has.
const batchSize = 100

func (s *setup) inboxBatch(ctx context.Context, _ int, seq int64) error {
	ids := make([]string, batchSize)
	for i := range ids {
		ids[i] = "batch-" + strconv.FormatInt(seq, 10) + "-" + strconv.Itoa(i)
	}
	_, err := s.inbox.DoBatch(ctx, ids, func(ctx context.Context, t pgx.Tx, fresh []string) error {
		_, err := t.Exec(ctx, "insert into effect (account, amount) select unnest($1::text[]), 1250", fresh)
		return err
	})
	return err
}
