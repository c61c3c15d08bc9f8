// Package idemhttp_test runs the middleware of package idemhttp behind routers, as its documentation shows.
package idemhttp_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// rig is a service with one handler, in the forms that routers take.
type rig struct {
	*testing.T
	db    *tx.DB[*sql.Tx]
	m     *idemhttp.Middleware[*sql.Tx]
	tries int // how often the handler fails with a conflict first
	runs  int
}

func newRig(t *testing.T, o *idemhttp.Options) *rig {
	t.Helper()
	pool := stddb.Open(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "test.db"), 8)
	db := sqltx.New(pool, tx.SQLite, nil)
	if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.ExecContext(t.Context(), "create table effect (name text)"); err != nil {
		t.Fatal(err)
	}
	return &rig{T: t, db: db, m: idemhttp.New(idem.New(db, nil), idemhttp.NoScope, o)}
}

// conflict is a serialization failure.
type conflict struct{}

func (conflict) Error() string    { return "conflict" }
func (conflict) SQLState() string { return "40001" }

var errDeclined = errors.New("declined")

// work is the business of a request.
func (r *rig) work(ctx context.Context, t *sql.Tx, body io.Reader) (string, error) {
	r.runs++
	name, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	if _, err := t.ExecContext(ctx, "insert into effect values (?)", string(name)); err != nil {
		return "", err
	}
	switch {
	case r.runs <= r.tries:
		return "", conflict{}
	case string(name) == "declined":
		return "", errDeclined
	}
	return "made " + string(name), nil
}

// pay is the form of Middleware.Handler.
func (r *rig) pay(w http.ResponseWriter, req *http.Request, t *sql.Tx) error {
	text, err := r.work(req.Context(), t, req.Body)
	if errors.Is(err, errDeclined) {
		http.Error(w, err.Error(), http.StatusPaymentRequired)
		return nil
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusCreated)
	_, err = io.WriteString(w, text)
	return err
}

// joined calls work in the transaction of the request.
func (r *rig) joined(ctx context.Context, body io.Reader) (text string, err error) {
	err = r.db.Do(ctx, func(ctx context.Context, t *sql.Tx) error {
		text, err = r.work(ctx, t, body)
		return err
	})
	return text, err
}

// check sends requests: a conflict, a repetition, a failure that is final.
func (r *rig) check(router http.Handler) {
	r.Helper()
	r.runs, r.tries = 0, 2
	for i, c := range []struct {
		path, key, body, answer string
		status                  int
		replayed                bool
	}{
		{"/payments/1", "a", "one", "made one", 201, false},
		{"/payments/1", "a", "one", "made one", 201, true},
		{"/payments/1", `"a"`, "two", idemhttp.CodeKeyReused, 422, false},
		{"/payments/2", "a", "one", idemhttp.CodeKeyReused, 422, false},
		{"/payments/1", "b", "declined", "declined", 402, false},
		{"/payments/1", "b", "declined", "declined", 402, true},
		{"/payments/1", "", "one", idemhttp.CodeKeyInvalid, 400, false},
	} {
		req := httptest.NewRequestWithContext(r.Context(), http.MethodPost, c.path, strings.NewReader(c.body))
		req.Header.Set("Idempotency-Key", c.key)
		rec := httptest.NewRecorder()
		router.ServeHTTP(rec, req)
		if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.answer) || (rec.Header().Get("Idempotency-Replayed") == "true") != c.replayed {
			r.Fatalf("request %d: got %d %s with %v", i, rec.Code, rec.Body, rec.Header())
		}
	}
	var effects string
	var keys int
	err := errors.Join(
		r.db.Conn().QueryRow(r.Context(), "select group_concat(name) from effect").Scan(&effects),
		r.db.Conn().QueryRow(r.Context(), "select count(*) from idem_key").Scan(&keys))
	if err != nil || effects != "one" || keys != 2 || r.runs != 4 {
		r.Fatalf("the effects are %s, %d keys, %d runs: %v", effects, keys, r.runs, err)
	}
}

func TestServeMux(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	mux := http.NewServeMux()
	mux.Handle("POST /payments/{id}", r.m.Handler(r.pay))
	r.check(mux)
}

func TestChi(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	router := chi.NewRouter()
	router.Method(http.MethodPost, "/payments/{id}", r.m.Handler(r.pay))
	r.check(router)
}

func TestChiMiddleware(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	router := chi.NewRouter()
	router.With(r.m.Wrap).Post("/payments/{id}", func(w http.ResponseWriter, req *http.Request) {
		text, err := r.joined(req.Context(), req.Body)
		switch {
		case errors.Is(err, errDeclined):
			http.Error(w, err.Error(), http.StatusPaymentRequired)
		case err != nil:
			http.Error(w, "no", http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, text)
		}
	})
	r.check(router)
	var name string
	if err := r.db.Conn().QueryRow(t.Context(), "select min(name) from idem_key").Scan(&name); err != nil || name != "POST /payments/{id}" {
		t.Errorf("the operation is %q: %v", name, err)
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	e := echo.New()
	e.POST("/payments/:id", echo.WrapHandler(r.m.Handler(r.pay)))
	r.check(e)
}

func TestEchoMiddleware(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	e := echo.New()
	e.POST("/payments/:id", func(c echo.Context) error {
		text, err := r.joined(c.Request().Context(), c.Request().Body)
		switch {
		case errors.Is(err, errDeclined):
			return echo.NewHTTPError(http.StatusPaymentRequired, err.Error())
		case err != nil:
			return err
		}
		return c.String(http.StatusCreated, text)
	}, echo.WrapMiddleware(r.m.Wrap), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := next(c); err != nil {
				c.Error(err)
			}
			return nil
		}
	})
	r.check(e)
}
