package main

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/holdfast-go/holdfast/idem"
)

// sqlFiveTrips is fiveTrips on database/sql, which cannot pipeline.
func (s *setup) sqlFiveTrips(ctx context.Context, _ int, seq int64) error {
	key := keyOf(seq)
	t, err := s.std.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback() }()
	var one int
	if err := t.QueryRowContext(ctx, claimSQL, key, fingerprint(key)).Scan(&one); err != nil {
		return err
	}
	r := receiptFor(key)
	if _, err := t.ExecContext(ctx, effectSQL, r.Account, r.Amount); err != nil {
		return err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx, doneSQL, key, body); err != nil {
		return err
	}
	return t.Commit()
}

func (s *setup) sqlDo(ctx context.Context, _ int, seq int64) error {
	key := keyOf(seq)
	_, err := idem.Do(ctx, s.stdKeys, idemKey(key), func(ctx context.Context, t *sql.Tx) (receipt, error) {
		r := receiptFor(key)
		_, err := t.ExecContext(ctx, effectSQL, r.Account, r.Amount)
		return r, err
	})
	return err
}
