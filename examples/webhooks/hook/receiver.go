// Package hook is the webhooks story: a receiver whose provider delivers at least once.
package hook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// A Handler does the work of one event in the transaction that it is given.
type Handler func(ctx context.Context, conn tx.Conn, id, event string, body []byte) error

// Ours handles each delivery ID once: the mark and the work are one commit.
func Ours[T any](db *tx.DB[T], handle Handler) http.Handler {
	inbox := idem.NewInbox(db, "ledger", nil)
	return receiver(func(ctx context.Context, id, event string, body []byte) error {
		if err := story.Elsewhere(ctx); err != nil { // fetch what the event is about
			return err
		}
		_, err := inbox.Do(ctx, id, func(ctx context.Context, t T) error {
			return handle(ctx, db.Tx(t), id, event, body)
		})
		return err // nil for a duplicate too: it is acknowledged
	})
}

// CheckThenAct looks for a mark, does the work in a transaction, and marks: deliveries that look at the same time both
// work, and a receiver that dies before it marked works again.
func CheckThenAct[T any](db *tx.DB[T], handle Handler) http.Handler {
	conn := db.Conn()
	return receiver(func(ctx context.Context, id, event string, body []byte) error {
		var n int
		if err := conn.QueryRow(ctx, "select count(*) from naive_mark where id = $1", id).Scan(&n); err != nil || n > 0 {
			return err
		}
		if err := story.Elsewhere(ctx); err != nil { // fetch what the event is about
			return err
		}
		err := db.Do(ctx, func(ctx context.Context, t T) error {
			return handle(ctx, db.Tx(t), id, event, body)
		})
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "insert into naive_mark (id) values ($1) on conflict do nothing", id)
		return err
	})
}

// MarkFirst marks, which only one delivery can, and then does the work in a transaction: a failure or a death after the mark
// loses the event, since its redelivery is taken for a duplicate.
func MarkFirst[T any](db *tx.DB[T], handle Handler) http.Handler {
	conn := db.Conn()
	return receiver(func(ctx context.Context, id, event string, body []byte) error {
		n, err := conn.Exec(ctx, "insert into naive_mark (id) values ($1) on conflict do nothing", id)
		if err != nil || n == 0 {
			return err
		}
		if err := story.Elsewhere(ctx); err != nil { // fetch what the event is about
			return err
		}
		return db.Do(ctx, func(ctx context.Context, t T) error {
			return handle(ctx, db.Tx(t), id, event, body)
		})
	})
}

// secret is what the provider and the receiver share.
var secret = []byte("it's a secret to everybody")

// Sign returns the signature of a body, as the header X-Hub-Signature-256 carries it.
func Sign(body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// receiver checks the signature before anything else: an ID that anybody can claim would let a stranger suppress an event.
func receiver(receive func(ctx context.Context, id, event string, body []byte) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 25<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		if !hmac.Equal([]byte(r.Header.Get("X-Hub-Signature-256")), []byte(Sign(body))) {
			http.Error(w, "the signature does not match", http.StatusUnauthorized)
			return
		}
		err = receive(r.Context(), r.Header.Get("X-GitHub-Delivery"), r.Header.Get("X-GitHub-Event"), body)
		switch {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case errors.Is(err, idem.ErrKeyInvalid):
			http.Error(w, err.Error(), http.StatusBadRequest)
		default: // also ErrInFlight: anything but 2xx makes the provider deliver again
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}
