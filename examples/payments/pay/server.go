package pay

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// handler parses the request and writes the answer. It knows nothing of idempotency but the name of a header.
func handler(pay func(ctx context.Context, tenant, key string, p Payment) (body []byte, replayed bool, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p Payment
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&p); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		tenant, err := tenantOf(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		body, replayed, err := pay(r.Context(), tenant, r.Header.Get("Idempotency-Key"), p)
		if replayed {
			w.Header().Set("Idempotency-Replayed", "true")
		}
		if err != nil {
			status := statusOf(err)
			if status == http.StatusConflict || status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "1")
			}
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	})
}

func statusOf(err error) int {
	var failure *idem.Failure
	switch {
	case errors.As(err, &failure) && failure.Status != 0:
		return failure.Status
	case errors.Is(err, idem.ErrKeyInvalid):
		return http.StatusBadRequest
	case errors.Is(err, idem.ErrMismatch):
		return http.StatusUnprocessableEntity
	case errors.Is(err, idem.ErrKeyExpired):
		return http.StatusGone
	case errors.Is(err, idem.ErrInFlight):
		return http.StatusConflict
	default: // a retry with the same key is safe, whatever happened
		return http.StatusServiceUnavailable
	}
}

// Routes of the servers.
var paths = []string{"/payments", "/checkout"}

// serveOurs has the boundary in the service on one route, and in the middleware on the other. serveNaive serves the naive
// service on both.
func serveOurs[T any](db *tx.DB[T]) http.Handler {
	s := NewService(db)
	mux := http.NewServeMux()
	mux.Handle("POST "+paths[0], handler(func(ctx context.Context, tenant, key string, p Payment) ([]byte, bool, error) {
		res, err := s.Pay(ctx, tenant, key, p)
		return res.Body, res.Replayed, err
	}))
	mux.Handle("POST "+paths[1], screened(checkout(db, s.shop)))
	return mux
}

func serveNaive[T any](db *tx.DB[T]) http.Handler {
	s := &Naive[T]{db: db, shop: newShop()}
	return handler(func(ctx context.Context, tenant, key string, p Payment) ([]byte, bool, error) {
		r, replayed, err := s.Pay(ctx, tenant, key, p)
		if err != nil {
			return nil, false, err
		}
		body, err := json.Marshal(r)
		return body, replayed, err
	})
}

// Names of the servers, also as processes of their own.
const (
	oursServer  = "payments"
	naiveServer = "payments, naive"
)

func init() {
	story.RegisterServer(oursServer, serveOurs[*sql.Tx], serveOurs[pgx.Tx])
	story.RegisterServer(naiveServer, serveNaive[*sql.Tx], serveNaive[pgx.Tx])
}
