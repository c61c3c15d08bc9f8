package idemtest_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tx"
)

// charging returns a function that sends a request with key "k" to a service whose handler makes a step, which is counted, and then
// writes and answers in Finish.
func charging(t *testing.T, db *tx.DB[pgx.Tx], charges *int, work func(context.Context, pgx.Tx) (int, error)) func() *httptest.ResponseRecorder {
	keys := idem.NewLeased(idem.New(db, nil), &idem.LeaseOptions{RetryAfter: time.Millisecond, LongestRetry: time.Millisecond, Lease: 3 * time.Second})
	m := idemhttp.NewLeased(keys, idemhttp.NoScope, &idemhttp.Options{ErrorLog: slog.New(slog.DiscardHandler)})
	handler := m.Handler(func(w http.ResponseWriter, r *http.Request, run *idem.RunTx[pgx.Tx]) error {
		_, err := idem.Step(r.Context(), run, idem.External[int]{Name: "charge", Call: func(context.Context, string) (int, error) {
			*charges++
			return *charges, nil
		}})
		if err != nil {
			return err
		}
		return idemhttp.Finish(r.Context(), run, func(ctx context.Context, t pgx.Tx) error {
			w.WriteHeader(http.StatusCreated)
			_, err := work(ctx, t)
			return err
		})
	})
	return func() *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.Header.Set("Idempotency-Key", "k")
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		return rec
	}
}

// The reply to the COMMIT of Finish is lost: the client gets the answer all the same, since it is looked up.
func TestHTTPLeasedLostReplyToCommit(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	charges, runs := 0, 0
	post := charging(t, c.db, &charges, c.apply("landed", &runs))
	cut := c.proxy.CutReplyTo(wire.Runs("commit"))
	wantStatus(t, "first", post(), http.StatusCreated, "", false)
	wantStatus(t, "retry", post(), http.StatusCreated, "", true)
	if runs != 1 || charges != 1 || c.effects("landed") != 1 || cut.Hits() != 1 {
		t.Fatalf("%d runs, %d charges, %d effects, %d cuts", runs, charges, c.effects("landed"), cut.Hits())
	}
}

// Nobody can look it up: the client is told so, the key is kept, and a retry finds out.
func TestHTTPLeasedOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for what, arm := range map[string]func(p *wire.Proxy) *wire.Hook{
		"committed":     func(p *wire.Proxy) *wire.Hook { return p.CutReplyTo(wire.Runs("commit")) },
		"not committed": func(p *wire.Proxy) *wire.Hook { return p.CutBefore(wire.Runs("commit")) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := newCutter(t)
			charges, runs := 0, 0
			work := c.apply("unknown", &runs)
			var look *wire.Hook
			cut := arm(c.proxy)
			post := charging(t, c.db.With(tx.Options{CommitTimeout: 300 * time.Millisecond}), &charges, func(ctx context.Context, t pgx.Tx) (int, error) {
				if look == nil { // from now on there is no way to look
					look = c.proxy.CutBefore(wire.Runs("select")).Always()
				}
				return work(ctx, t)
			})
			wantStatus(t, "first", post(), http.StatusServiceUnavailable, idemhttp.CodeOutcomeUnknown, false)
			if runs != 1 {
				t.Fatalf("Finish ran %d times", runs)
			}
			look.Disarm()
			rec := post()
			for rec.Code == http.StatusConflict { // until the lease has run out
				rec = post()
			}
			wantStatus(t, "retry", rec, http.StatusCreated, "", what == "committed")
			wantStatus(t, "again", post(), http.StatusCreated, "", true)
			if charges != 1 || c.effects("unknown") != 1 || cut.Hits() != 1 {
				t.Fatalf("%d charges, %d effects, %d cuts", charges, c.effects("unknown"), cut.Hits())
			}
		})
	}
}
