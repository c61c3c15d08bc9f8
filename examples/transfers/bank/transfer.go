// Package bank is the transfers story: money moves between accounts, in all directions at once.
package bank

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
)

// ErrInsufficient: the account does not have the money.
var ErrInsufficient = errors.New("insufficient funds")

var accounts = pessimistic.Table{Name: "account"}

const (
	readSQL  = "select balance from account where id = $1"
	lockSQL  = "select balance from account where id = $1 for no key update"
	writeSQL = "update account set balance = $2 where id = $1"
)

// Transfer locks both accounts, reads their balances in the same round trip, decides, and lets the updates ride with COMMIT:
// two round trips in all.
func Transfer[T any](ctx context.Context, db *tx.DB[T], from, to, amount int64) error {
	var id, balance int64
	balances := map[int64]int64{}
	both := accounts.Rows(from, to).Read([]string{"id", "balance"}, []any{&id, &balance}, func(int) error {
		balances[id] = balance
		return nil
	})
	return pessimistic.New(db, nil).Do(ctx, []pessimistic.Rows{both}, func(ctx context.Context, t T) error {
		if balances[from] < amount {
			return ErrInsufficient
		}
		return db.Defer(ctx, t,
			&tx.Stmt{SQL: writeSQL, Args: []any{from, balances[from] - amount}},
			&tx.Stmt{SQL: writeSQL, Args: []any{to, balances[to] + amount}})
	})
}

// NaiveRead reads, decides and writes, without a lock. What it writes is right for the balances that it read.
func NaiveRead[T any](ctx context.Context, db *tx.DB[T], from, to, amount int64) error {
	have, err := balanceOf(ctx, db.Conn(), readSQL, from)
	if err != nil {
		return err
	}
	theirs, err := balanceOf(ctx, db.Conn(), readSQL, to)
	if err != nil {
		return err
	}
	if have < amount {
		return ErrInsufficient
	}
	if err := story.Elsewhere(ctx); err != nil { // the fraud check
		return err
	}
	return db.Do(ctx, func(ctx context.Context, t T) error {
		return write(ctx, db.Tx(t), from, have-amount, to, theirs+amount)
	})
}

// NaiveLock locks, but in the order of the request.
func NaiveLock[T any](ctx context.Context, db *tx.DB[T], from, to, amount int64) error {
	return db.Do(ctx, func(ctx context.Context, t T) error {
		have, err := balanceOf(ctx, db.Tx(t), lockSQL, from)
		if err != nil {
			return err
		}
		if err := story.Elsewhere(ctx); err != nil { // the fraud check
			return err
		}
		theirs, err := balanceOf(ctx, db.Tx(t), lockSQL, to)
		if err != nil {
			return err
		}
		if have < amount {
			return ErrInsufficient
		}
		return write(ctx, db.Tx(t), from, have-amount, to, theirs+amount)
	})
}

// Notify tries to tell the receiver's bank while both accounts are locked. client has a transport of pessimistic.Guard, which
// refuses.
func Notify[T any](ctx context.Context, db *tx.DB[T], client *http.Client, url string, from, to int64) error {
	return pessimistic.New(db, nil).Do(ctx, []pessimistic.Rows{accounts.Rows(from, to)}, func(ctx context.Context, _ T) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
}

func balanceOf(ctx context.Context, conn tx.Conn, query string, id int64) (balance int64, err error) {
	err = conn.QueryRow(ctx, query, id).Scan(&balance)
	return balance, err
}

// write writes the lower account first, so that the naive ways show one fault each.
func write(ctx context.Context, t tx.Tx, from, fromBalance, to, toBalance int64) error {
	if to < from {
		from, fromBalance, to, toBalance = to, toBalance, from, fromBalance
	}
	if _, err := t.Exec(ctx, writeSQL, from, fromBalance); err != nil {
		return err
	}
	_, err := t.Exec(ctx, writeSQL, to, toBalance)
	return err
}
