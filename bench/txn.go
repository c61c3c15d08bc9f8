package main

import (
	"context"
	"errors"

	trmpgx "github.com/avito-tech/go-transaction-manager/drivers/pgxv5/v2"
	"github.com/avito-tech/go-transaction-manager/trm/v2/manager"
	"github.com/cockroachdb/cockroach-go/v2/crdb"
	crdbpgx "github.com/cockroachdb/cockroach-go/v2/crdb/crdbpgxv5"
	"github.com/jackc/pgx/v5"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/holdfast-go/holdfast/tx"
)

// txn is one insert in a transaction, by each library's own runner.
var txn = group{
	name: "tx",
	variants: func(s *setup) []variant {
		return []variant{
			{"pgx.BeginFunc", s.bare},
			{"tx.DB.Do", s.txDo},
			{"cockroach-go ExecuteTx", s.crdbTx},
			{"go-transaction-manager", s.trmDo},
			{"gorm Transaction", s.gormTx},
		}
	},
	bars: []bar{{at: 1, reference: 0, direct: 0.85, remote: 0.95}},
}

// serial is a transfer at SERIALIZABLE between two of a few rows that everybody wants.
var serial = group{
	name:    "serial",
	callers: []int{64},
	rounds:  5, // of some minutes: callers who begin again at once keep each other from finishing
	variants: func(s *setup) []variant {
		return []variant{
			{"cockroach-go Execute around pgx.BeginTxFunc", s.crdbLoop},
			{"tx.DB.Do", s.serialDo},
			{"cockroach-go ExecuteTx, again until it succeeds", s.crdbTransfer},
		}
	},
	bars:  []bar{{at: 1, reference: 0, direct: 2, remote: 2}},
	local: true,
}

const (
	hotAccounts  = 10
	accountSQL   = `create table account (id bigint primary key, balance bigint not null)`
	accountsSQL  = `insert into account select i, 1000000000 from generate_series(0, $1::bigint - 1) i`
	balanceSQL   = `select balance from account where id = $1`
	depositSQL   = `update account set balance = balance + $2 where id = $1`
	transferUnit = 7
)

var errPoor = errors.New("not enough money")

// payBetween reads, decides and writes: what SERIALIZABLE is for.
func payBetween(ctx context.Context, t pgx.Tx, seq int64) error {
	from := seq % hotAccounts
	to := (from + 1 + seq/hotAccounts%(hotAccounts-1)) % hotAccounts
	var balance int64
	if err := t.QueryRow(ctx, balanceSQL, from).Scan(&balance); err != nil {
		return err
	}
	if balance < transferUnit {
		return errPoor
	}
	if _, err := t.Exec(ctx, depositSQL, from, -transferUnit); err != nil {
		return err
	}
	_, err := t.Exec(ctx, depositSQL, to, transferUnit)
	return err
}

func (s *setup) serialDo(ctx context.Context, _ int, seq int64) error {
	return s.serializable.Do(ctx, func(ctx context.Context, t pgx.Tx) error { return payBetween(ctx, t, seq) })
}

var pgxSerializable = pgx.TxOptions{IsoLevel: pgx.Serializable}

// crdbLoop begins again at once. cockroach-go does not know of deadlocks, after which we call it again.
func (s *setup) crdbLoop(ctx context.Context, _ int, seq int64) error {
	return again(func() error {
		return crdb.Execute(func() error {
			return pgx.BeginTxFunc(ctx, s.pool, pgxSerializable, func(t pgx.Tx) error { return payBetween(ctx, t, seq) })
		})
	})
}

// crdbTransfer returns to a savepoint, which does not give PostgreSQL a new snapshot, and does not look at the error of COMMIT.
func (s *setup) crdbTransfer(ctx context.Context, _ int, seq int64) error {
	return again(func() error {
		return crdbpgx.ExecuteTx(ctx, s.pool, pgxSerializable, func(t pgx.Tx) error { return payBetween(ctx, t, seq) })
	})
}

// again calls fn until it succeeds, or fails for a reason that a fresh transaction does not cure.
func again(fn func() error) error {
	for {
		err := fn()
		var retries *crdb.MaxRetriesExceededError
		if err == nil || tx.Classify(err) != tx.Retryable && !errors.As(err, &retries) {
			return err
		}
	}
}

func (s *setup) txDo(ctx context.Context, _ int, seq int64) error {
	r := receiptFor(keyOf(seq))
	return s.db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
		_, err := t.Exec(ctx, effectSQL, r.Account, r.Amount)
		return err
	})
}

func (s *setup) crdbTx(ctx context.Context, _ int, seq int64) error {
	r := receiptFor(keyOf(seq))
	return crdbpgx.ExecuteTx(ctx, s.pool, pgx.TxOptions{}, func(t pgx.Tx) error {
		_, err := t.Exec(ctx, effectSQL, r.Account, r.Amount)
		return err
	})
}

func (s *setup) trmDo(ctx context.Context, _ int, seq int64) error {
	r := receiptFor(keyOf(seq))
	return s.trm.Do(ctx, func(ctx context.Context) error {
		_, err := trmpgx.DefaultCtxGetter.DefaultTrOrDB(ctx, s.pool).Exec(ctx, effectSQL, r.Account, r.Amount)
		return err
	})
}

func (s *setup) gormTx(ctx context.Context, _ int, seq int64) error {
	r := receiptFor(keyOf(seq))
	return s.gorm.WithContext(ctx).Transaction(func(t *gorm.DB) error {
		return t.Exec("insert into effect (account, amount) values (?, ?)", r.Account, r.Amount).Error
	})
}

// openRunners makes what the groups of this file need beside the pools.
func (s *setup) openRunners(ctx context.Context) (err error) {
	s.serializable = s.db.With(tx.Options{Isolation: tx.Serializable, Attempts: 1000})
	if s.trm, err = manager.New(trmpgx.NewDefaultFactory(s.pool)); err != nil {
		return err
	}
	if s.gorm, err = gorm.Open(postgres.New(postgres.Config{Conn: s.std}), &gorm.Config{}); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, accountSQL); err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, accountsSQL, hotAccounts)
	return err
}
