package idem_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

type order struct {
	Account string
	Amount  int64
}

type receipt struct {
	ID int64 `json:"id"`
}

func insertCharge(ctx context.Context, t pgx.Tx, o order) (r receipt, err error) {
	err = t.QueryRow(ctx, "insert into charge (account, amount) values ($1, $2) returning id", o.Account, o.Amount).Scan(&r.ID)
	return r, err
}

// A payment that is charged once, however often and wherever it is sent. Each error says whether to send it again.
func ExampleDo() {
	var pool *pgxpool.Pool // open, and migrated with idem.Migrate
	keys := idem.New(pgxtx.New(pool), &idem.Options{TTL: 7 * 24 * time.Hour, Wait: 2 * time.Second})

	charge := func(ctx context.Context, tenant, requestKey string, o order) (status int, body []byte) {
		key := idem.Key{
			Scope: tenant, Name: "charge", Value: requestKey,
			Fingerprint: idem.FingerprintOf(o.Account, fmt.Sprint(o.Amount)),
		}
		res, err := idem.Do(ctx, keys, key, func(ctx context.Context, t pgx.Tx) (receipt, error) {
			if o.Amount > 1_000_000 {
				return receipt{}, &idem.Failure{Status: http.StatusPaymentRequired, Message: "over the limit"} // an answer, stored
			}
			return insertCharge(ctx, t, o) // any other error leaves the key free
		})
		var failure *idem.Failure
		switch {
		case err == nil:
			return http.StatusCreated, res.Body // the same bytes for a repetition
		case errors.As(err, &failure):
			return failure.Status, []byte(failure.Message)
		case errors.Is(err, idem.ErrMismatch):
			return http.StatusUnprocessableEntity, nil
		case errors.Is(err, idem.ErrInFlight):
			return http.StatusConflict, nil
		}
		return http.StatusServiceUnavailable, nil // to be sent again, with the same key
	}
	_ = charge
}

// The key joins a transaction that was begun by other means, and commits with it.
func ExampleDoTx() {
	var pool *pgxpool.Pool // open, and migrated with idem.Migrate
	keys := idem.New(pgxtx.New(pool), nil)

	charge := func(ctx context.Context, key idem.Key, o order) (r receipt, err error) {
		err = pgx.BeginFunc(ctx, pool, func(t pgx.Tx) error {
			res, err := idem.DoTx(ctx, keys, t, key, func(ctx context.Context, t pgx.Tx) (receipt, error) {
				return insertCharge(ctx, t, o)
			})
			r = res.Value
			return err
		})
		return r, err
	}
	_ = charge
}

// A consumer that handles each event once and acknowledges what it has handled.
func ExampleInbox_Do() {
	var pool *sql.DB // open, and migrated with idem.Migrate
	inbox := idem.NewInbox(sqltx.New(pool, tx.PostgreSQL, nil), "ledger", nil)

	deliver := func(ctx context.Context, eventID string, amount int64, ack, nack func()) {
		handled, err := inbox.Do(ctx, eventID, func(ctx context.Context, t *sql.Tx) error {
			_, err := t.ExecContext(ctx, "insert into ledger (amount) values ($1)", amount)
			return err
		})
		if err != nil {
			nack() // it comes again
			return
		}
		_ = handled // false: it had been handled before
		ack()
	}
	_ = deliver
}

// A key for a caller that sends none: the same actor, operation and payload make the same key.
func ExampleDerive() {
	key, err := idem.Derive("tenant-1", "refund", idem.Field{Name: "payment", Value: "pay_17"}, idem.Field{Name: "amount", Value: 1250})
	if err != nil {
		return
	}
	_ = key
}

// Stored answers are encrypted, each bound to its key. The codec's ID stays with an answer, so that the secret can change.
func ExampleAESGCM() {
	var pool *pgxpool.Pool
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	codec, err := idem.AESGCM(1, secret)
	if err != nil {
		return
	}
	keys := idem.New(pgxtx.New(pool), &idem.Options{Codecs: []idem.Codec{codec}})
	_ = keys
}

// What an error says of the effect, whatever its type.
func Example_outcome() {
	handle := func(err error) string {
		switch holdfast.OutcomeOf(err) {
		case holdfast.Applied:
			return "done"
		case holdfast.NotApplied:
			return "nothing happened"
		default:
			return "send it again with the same key, which finds out"
		}
	}
	_ = handle
}
