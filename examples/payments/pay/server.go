package pay

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// handler parses the request and writes the answer. It knows nothing of idempotency but the name of a header.
func handler(pay func(ctx context.Context, tenant, key string, p Payment) ([]byte, bool, error)) http.Handler {
	busy := &maintenance{seen: map[string]bool{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p Payment
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&p); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		key := r.Header.Get("Idempotency-Key")
		if busy.now(key) {
			http.Error(w, "down for a moment", http.StatusServiceUnavailable)
			return
		}
		// In a real service the tenant comes from the authentication, not from a header.
		body, replayed, err := pay(r.Context(), r.Header.Get("X-Tenant"), key, p)
		if err != nil {
			status := statusOf(err)
			if status == http.StatusConflict {
				w.Header().Set("Retry-After", "1")
			}
			http.Error(w, err.Error(), status)
			return
		}
		if replayed {
			w.Header().Set("Idempotent-Replayed", "true")
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
	case errors.Is(err, idem.ErrInFlight):
		return http.StatusConflict
	default:
		return http.StatusServiceUnavailable
	}
}

// maintenance makes every eighth key meet a server that is down for a moment, once.
type maintenance struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

func (m *maintenance) now(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen[key] || key == "" || key[len(key)-1]%8 != 0 {
		return false
	}
	m.seen[key] = true
	return true
}

// ours serves the service, naive the other one.
func ours[T any](db *tx.DB[T]) http.Handler {
	s := NewService(db)
	return handler(func(ctx context.Context, tenant, key string, p Payment) ([]byte, bool, error) {
		res, err := s.Pay(ctx, tenant, key, p)
		return res.Body, res.Replayed, err
	})
}

func naive[T any](db *tx.DB[T]) http.Handler {
	s := Naive[T]{db: db}
	return handler(func(ctx context.Context, tenant, key string, p Payment) ([]byte, bool, error) {
		r, err := s.Pay(ctx, tenant, key, p)
		if err != nil {
			return nil, false, err
		}
		body, err := json.Marshal(r)
		return body, false, err
	})
}

// serverName is the server that runs in a process of its own, to be killed.
const serverName = "payments"

func init() {
	story.RegisterServer(serverName, func(ctx context.Context, p story.Place) (http.Handler, func(), error) {
		if p.IsPostgres() {
			db, closeDB, err := p.OpenPostgres(ctx)
			if err != nil {
				return nil, nil, err
			}
			return ours(db), closeDB, nil
		}
		db, closeDB, err := p.OpenSQLite()
		if err != nil {
			return nil, nil, err
		}
		return ours(db), closeDB, nil
	})
}
