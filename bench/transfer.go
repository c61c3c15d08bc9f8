package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
)

// transfer is a group whose operation moves money between two of 1000 accounts.
var transfer = group{
	name: "transfer",
	variants: func(s *setup) []variant {
		return []variant{
			{"pgx, 2 trips: begin+lock, updates+commit", s.transferTwoTrips},
			{"pgx, 6 trips: one statement each", s.transferSixTrips},
			{"pessimistic.Do", s.transferDo},
		}
	},
	bars: []bar{{at: 2, reference: 0, direct: 0.85, remote: 0.95}, {at: 2, reference: 1, direct: 1.2, remote: 1.5, byCallers: map[int]float64{8: 1.3, 32: 1.5}}},
}

const (
	transferAccounts = 1000

	transferSchema  = `create table if not exists wallet (id bigint primary key, balance bigint not null); insert into wallet select i, 1000000 from generate_series(0, 999) i on conflict do nothing`
	transferLock    = `select id, balance from wallet where id in ($1, $2) order by id for no key update`
	transferLockOne = `select balance from wallet where id = $1 for no key update`
	transferWrite   = `update wallet set balance = $2 where id = $1`
)

// transferPair spreads the transfers over the accounts.
func transferPair(seq int64) (from, to int64) {
	from = seq * 7919 % transferAccounts
	return from, (from + 1 + seq*104729%(transferAccounts-1)) % transferAccounts
}

func (s *setup) transferTwoTrips(ctx context.Context, _ int, seq int64) error {
	from, to := transferPair(seq)
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	first := &pgx.Batch{}
	first.Queue("begin")
	first.Queue(transferLock, from, to)
	results := conn.SendBatch(ctx, first)
	if _, err := results.Exec(); err != nil {
		return errors.Join(err, results.Close())
	}
	rows, err := results.Query()
	if err != nil {
		return errors.Join(err, results.Close())
	}
	balances := make(map[int64]int64, 2)
	var id, balance int64
	_, err = pgx.ForEachRow(rows, []any{&id, &balance}, func() error {
		balances[id] = balance
		return nil
	})
	if err := errors.Join(err, results.Close()); err != nil {
		return err
	}
	last := &pgx.Batch{}
	last.Queue(transferWrite, from, balances[from]-1)
	last.Queue(transferWrite, to, balances[to]+1)
	last.Queue("commit")
	return conn.SendBatch(ctx, last).Close()
}

func (s *setup) transferSixTrips(ctx context.Context, _ int, seq int64) error {
	from, to := transferPair(seq)
	return pgx.BeginFunc(ctx, s.pool, func(t pgx.Tx) error {
		low, high := min(from, to), max(from, to)
		var lowest, highest int64
		if err := t.QueryRow(ctx, transferLockOne, low).Scan(&lowest); err != nil {
			return err
		}
		if err := t.QueryRow(ctx, transferLockOne, high).Scan(&highest); err != nil {
			return err
		}
		move := int64(1)
		if low == from {
			move = -1
		}
		if _, err := t.Exec(ctx, transferWrite, low, lowest+move); err != nil {
			return err
		}
		_, err := t.Exec(ctx, transferWrite, high, highest-move)
		return err
	})
}

func (s *setup) transferDo(ctx context.Context, _ int, seq int64) error {
	from, to := transferPair(seq)
	balances := make(map[int64]int64, 2)
	var id, balance int64
	both := pessimistic.Table{Name: "wallet"}.Rows(from, to).Read([]string{"id", "balance"}, []any{&id, &balance}, func(int) error {
		balances[id] = balance
		return nil
	})
	return s.locks.Do(ctx, []pessimistic.Rows{both}, func(ctx context.Context, t pgx.Tx) error {
		return s.db.Defer(ctx, t,
			&tx.Stmt{SQL: transferWrite, Args: []any{from, balances[from] - 1}},
			&tx.Stmt{SQL: transferWrite, Args: []any{to, balances[to] + 1}})
	})
}
