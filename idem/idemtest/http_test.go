package idemtest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// service returns a function that sends a request with a key to a service on db, whose handler is work.
func service(t *testing.T, db *tx.DB[pgx.Tx], work func(context.Context, pgx.Tx) (int, error)) func(key string) *httptest.ResponseRecorder {
	m := idemhttp.New(idem.New(db, nil), idemhttp.NoScope, &idemhttp.Options{KeyOptional: true})
	handler := m.Handler(func(w http.ResponseWriter, r *http.Request, t pgx.Tx) error {
		w.WriteHeader(http.StatusCreated)
		_, err := work(r.Context(), t)
		return err
	})
	return func(key string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		return rec
	}
}

func wantStatus(t *testing.T, what string, rec *httptest.ResponseRecorder, status int, code string, replayed bool) {
	t.Helper()
	if rec.Code != status || !strings.Contains(rec.Body.String(), code) || (rec.Header().Get("Idempotency-Replayed") != "") != replayed {
		t.Fatalf("%s: got %d %s with %v", what, rec.Code, rec.Body, rec.Header())
	}
}

// The client gets the answer of a commit whose reply was lost, since it is looked up, and so does its retry.
func TestHTTPLostReplyToCommit(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	runs := 0
	post := service(t, c.db, c.apply("landed", &runs))
	cut := c.proxy.CutReplyTo(wire.Runs("commit"))
	wantStatus(t, "first", post("k"), http.StatusCreated, "", false)
	wantStatus(t, "retry", post("k"), http.StatusCreated, "", true)
	if runs != 1 || c.effects("landed") != 1 || cut.Hits() != 1 {
		t.Fatalf("%d runs, %d effects, %d cuts", runs, c.effects("landed"), cut.Hits())
	}
}

func TestHTTPOutcomeUnknown(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	for key, code := range map[string]string{"k": idemhttp.CodeOutcomeUnknown, "": "nobody knows"} {
		runs := 0
		commit := c.proxy.CutReplyTo(wire.Runs("commit"))
		var begin *wire.Hook
		work := c.apply("unknown"+key, &runs)
		post := service(t, c.db.With(tx.Options{CommitTimeout: 300 * time.Millisecond}), func(ctx context.Context, t pgx.Tx) (int, error) {
			begin = c.proxy.CutBefore(wire.Runs("begin")).Always() // from now on there is no way to look
			return work(ctx, t)
		})
		status := http.StatusInternalServerError
		if key != "" {
			status = http.StatusServiceUnavailable
		}
		wantStatus(t, "first", post(key), status, code, false)
		begin.Disarm()
		if key != "" {
			wantStatus(t, "retry", post(key), http.StatusCreated, "", true)
		}
		if runs != 1 || c.effects("unknown"+key) != 1 || commit.Hits() != 1 {
			t.Fatalf("%d runs, %d effects, %d cuts", runs, c.effects("unknown"+key), commit.Hits())
		}
	}
}

func TestHTTPStoreIsDown(t *testing.T) {
	t.Parallel()
	server := testdb.PostgresServer(t)
	db := pgxtx.New(newPool(t, server.URL()))
	if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	post := service(t, db, func(context.Context, pgx.Tx) (int, error) {
		t.Error("a request ran unprotected")
		return 0, nil
	})
	for _, key := range []string{"k", ""} {
		rec := post(key)
		wantStatus(t, "down", rec, http.StatusServiceUnavailable, idemhttp.CodeStoreUnavailable, false)
		if rec.Header().Get("Retry-After") != "1" {
			t.Errorf("got %v", rec.Header())
		}
	}
}
