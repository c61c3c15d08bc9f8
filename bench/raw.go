package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// rawSchema is what a careful hand-written service has.
const rawSchema = `
create table effect (id bigint generated always as identity primary key, account text not null, amount bigint not null);
create table raw_key (
	k text primary key, fp bytea not null, done boolean not null default false, response bytea,
	created_at timestamptz not null default now())`

const (
	claimSQL  = `insert into raw_key (k, fp) values ($1, $2) on conflict do nothing returning 1`
	doneSQL   = `update raw_key set done = true, response = $2 where k = $1`
	effectSQL = `insert into effect (account, amount) values ($1, $2)`
	replaySQL = `select response from raw_key where k = $1`
)

// A receipt is what an operation answers.
type receipt struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Amount  int64  `json:"amount"`
	State   string `json:"state"`
}

func receiptFor(key string) receipt {
	return receipt{ID: key, Account: "account-7", Amount: 1250, State: "captured"}
}

var errTaken = errors.New("the key is taken")

func keyOf(seq int64) string { return "key-" + strconv.FormatInt(seq, 10) }

func fingerprint(key string) []byte {
	sum := sha256.Sum256([]byte(key + "|1250"))
	return sum[:]
}

// threeTrips is the reference: BEGIN with the claim, the work, the answer with COMMIT.
func (s *setup) threeTrips(ctx context.Context, _ int, seq int64) error {
	key := keyOf(seq)
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	first := &pgx.Batch{}
	first.Queue("begin")
	first.Queue(claimSQL, key, fingerprint(key))
	results := conn.SendBatch(ctx, first)
	if _, err := results.Exec(); err != nil {
		return errors.Join(err, results.Close())
	}
	tag, err := results.Exec()
	if err := errors.Join(err, results.Close()); err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		_, err := conn.Exec(ctx, "rollback")
		return errors.Join(errTaken, err)
	}
	r := receiptFor(key)
	if _, err := conn.Exec(ctx, effectSQL, r.Account, r.Amount); err != nil {
		return err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	last := &pgx.Batch{}
	last.Queue(doneSQL, key, body)
	last.Queue("commit")
	return conn.SendBatch(ctx, last).Close()
}

// fiveTrips sends each statement by itself.
func (s *setup) fiveTrips(ctx context.Context, _ int, seq int64) error {
	key := keyOf(seq)
	return pgx.BeginFunc(ctx, s.pool, func(t pgx.Tx) error {
		var one int
		if err := t.QueryRow(ctx, claimSQL, key, fingerprint(key)).Scan(&one); err != nil {
			return err
		}
		return finish(ctx, t, key)
	})
}

// twoCommits commits the claim first, as most hand-written middleware does.
func (s *setup) twoCommits(ctx context.Context, _ int, seq int64) error {
	key := keyOf(seq)
	var one int
	if err := s.pool.QueryRow(ctx, claimSQL, key, fingerprint(key)).Scan(&one); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.pool, func(t pgx.Tx) error { return finish(ctx, t, key) })
}

func finish(ctx context.Context, t pgx.Tx, key string) error {
	r := receiptFor(key)
	if _, err := t.Exec(ctx, effectSQL, r.Account, r.Amount); err != nil {
		return err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, doneSQL, key, body)
	return err
}

// bare is the work without a key.
func (s *setup) bare(ctx context.Context, _ int, seq int64) error {
	r := receiptFor(keyOf(seq))
	return pgx.BeginFunc(ctx, s.pool, func(t pgx.Tx) error {
		_, err := t.Exec(ctx, effectSQL, r.Account, r.Amount)
		return err
	})
}

// bareSelect reads a stored answer by its primary key.
func (s *setup) bareSelect(ctx context.Context, _ int, seq int64) error {
	var body []byte
	if err := s.pool.QueryRow(ctx, replaySQL, known(seq)).Scan(&body); err != nil {
		return err
	}
	var r receipt
	return json.Unmarshal(body, &r)
}

// knownKeys is how many answers are stored before replays are measured.
const knownKeys = 1000

func known(seq int64) string { return "known-" + strconv.FormatInt(seq%knownKeys, 10) }
