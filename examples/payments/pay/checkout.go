package pay

import (
	"encoding/json"
	"net/http"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
	"github.com/holdfast-go/holdfast/tx"
)

// checkout is the same payment with the boundary in the middleware: the handler is business alone. It gets the
// transaction in which the key is claimed and its response stored, and the response is sent once that is committed.
func checkout[T any](db *tx.DB[T], shop *shop) http.Handler {
	m := idemhttp.New(idem.New(db, nil), tenantOf, nil)
	return m.Handler(func(w http.ResponseWriter, r *http.Request, t T) error {
		var p Payment
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return nil
		}
		tenant, err := tenantOf(r)
		if err != nil {
			return err
		}
		receipt, err := shop.charge(r.Context(), db.Tx(t), tenant, p)
		if err != nil {
			return err // a declined card is an answer, and anything else frees the key
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		return json.NewEncoder(w).Encode(receipt)
	})
}

// tenantOf tells whose request it is. In a real service that comes from the authentication, not from a header.
func tenantOf(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil }

// screened does the fraud check before next: it only reads, so it may run again.
func screened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := story.Elsewhere(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}
