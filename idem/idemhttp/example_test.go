package idemhttp_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

type tenantKey struct{}

// tenantOf reads what the authentication, which stands before, put into the context.
func tenantOf(r *http.Request) (string, error) {
	tenant, ok := r.Context().Value(tenantKey{}).(string)
	if !ok {
		return "", errors.New("not authenticated")
	}
	return tenant, nil
}

func insertPayment(context.Context, *sql.Tx, *http.Request) error { return nil }

func ExampleMiddleware_Handler() {
	var pool *sql.DB // an open database, migrated with idem.Migrate
	db := sqltx.New(pool, tx.PostgreSQL, nil)
	m := idemhttp.New(idem.New(db, &idem.Options{TTL: 7 * 24 * time.Hour}), tenantOf, &idemhttp.Options{
		KeyHeaders:    []string{"X-Idempotency-Key"},
		CanonicalJSON: true,
	})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", m.Handler(func(w http.ResponseWriter, r *http.Request, t *sql.Tx) error {
		if r.ContentLength == 0 {
			http.Error(w, "nothing to pay", http.StatusBadRequest) // an answer, which is stored
			return nil
		}
		if err := insertPayment(r.Context(), t, r); err != nil {
			return err // rolled back, the key is free
		}
		w.WriteHeader(http.StatusCreated) // sent after the commit
		return nil
	}))
}

func ExampleMiddleware_Wrap() {
	var pool *sql.DB // an open database, migrated with idem.Migrate
	db := sqltx.New(pool, tx.PostgreSQL, nil)
	m := idemhttp.New(idem.New(db, nil), tenantOf, nil)
	mux := http.NewServeMux()
	mux.Handle("POST /payments", m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// This is as it was before: with a key it joins the transaction of the request, without one it begins its own.
		err := db.Do(r.Context(), func(ctx context.Context, t *sql.Tx) error { return insertPayment(ctx, t, r) })
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable) // rolled back, the key is free
			return
		}
		w.WriteHeader(http.StatusCreated)
	})))
}

type charge struct{ ID string }

// provider is a client of a payment provider.
var provider interface {
	Charge(ctx context.Context, idempotencyKey string) (charge, error)
	Find(ctx context.Context, idempotencyKey string) (c charge, found bool, err error)
}

func insertCharge(context.Context, *sql.Tx, charge) error { return nil }

func ExampleLeased_Handler() {
	var pool *sql.DB // an open database, migrated with idem.Migrate
	keys := idem.New(sqltx.New(pool, tx.PostgreSQL, nil), nil)
	m := idemhttp.NewLeased(idem.NewLeased(keys, nil), tenantOf, &idemhttp.Options{Linger: 10 * time.Second})
	mux := http.NewServeMux()
	mux.Handle("POST /charges", m.Handler(func(w http.ResponseWriter, r *http.Request, run *idem.RunTx[*sql.Tx]) error {
		made, err := idem.Step(r.Context(), run, idem.External[charge]{
			Name: "charge",
			Call: provider.Charge, // recorded before and after
			Reconcile: func(ctx context.Context, key string) (charge, idem.Landing, error) { // if there is no result
				made, found, err := provider.Find(ctx, key)
				if found {
					return made, idem.Landed, nil
				}
				return made, idem.Absent, err
			},
		})
		if err != nil {
			return err
		}
		return idemhttp.Finish(r.Context(), run, func(ctx context.Context, t *sql.Tx) error {
			w.WriteHeader(http.StatusCreated) // stored with the commit, and sent after it
			return insertCharge(ctx, t, made)
		})
	}))
}
