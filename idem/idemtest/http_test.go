package idemtest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// service returns a function that sends a request with a key to a service on db, whose handler is work.
func service(t *testing.T, db *tx.DB[pgx.Tx], work func(context.Context, pgx.Tx) (int, error)) func(key string) *httptest.ResponseRecorder {
	m := idemhttp.New(idem.New(db, nil), idemhttp.NoScope, &idemhttp.Options{KeyOptional: true, ErrorLog: slog.New(slog.DiscardHandler)})
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

// logged keeps what a service tells its operator.
type logged struct{ bytes.Buffer }

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// A store that fails is told to the client as what it may do about it, and to the operator as what is wrong.
func TestHTTPStoreFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		db      func(t *testing.T) *tx.DB[pgx.Tx]
		options *idem.Options
		timeout time.Duration
		status  int
		code    string
		level   string
		log     string
	}{
		"down":         {db: downDB, status: 503, code: idemhttp.CodeStoreUnavailable, level: "WARN", log: "tx: the database could not be reached|postmaster exit|unexpected EOF|connection reset"},
		"read-only":    {db: readOnlyDB, status: 503, code: idemhttp.CodeStoreUnavailable, level: "WARN", log: "connect to the primary"},
		"not migrated": {db: emptyDB, status: 500, code: idemhttp.CodeMisconfigured, level: "ERROR", log: "apply the package's migrations"},
		"half migrated": {
			db:     func(t *testing.T) *tx.DB[pgx.Tx] { return alteredDB(t, "alter table idem_key drop column nonce") },
			status: 500, code: idemhttp.CodeMisconfigured, level: "ERROR", log: "apply the package's migrations",
		},
		"slow":   {db: busyDB, timeout: 50 * time.Millisecond, status: 503, code: idemhttp.CodeStoreUnavailable, level: "WARN", log: "deadline exceeded"},
		"locked": {db: lockedDB, status: 503, code: idemhttp.CodeStoreUnavailable, level: "WARN", log: "statement timeout"},
		"no such options": {
			db: emptyDB, options: &idem.Options{TTL: -1}, status: 500, code: idemhttp.CodeMisconfigured, level: "ERROR", log: "Options.TTL",
		},
	} {
		test := func(t *testing.T, make func(keys *idem.Keys[pgx.Tx], o *idemhttp.Options) http.Handler) {
			t.Parallel()
			var log logged
			handler := make(idem.New(c.db(t), c.options), &idemhttp.Options{ErrorLog: log.logger()})
			ctx, cancel := context.WithTimeout(holdfast.WithCorrelationID(t.Context(), "trace me"), cmp.Or(c.timeout, time.Minute))
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
			r.Header.Set("Idempotency-Key", "secret")
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, r)
			wantStatus(t, name, rec, c.status, c.code, false)
			if (rec.Header().Get("Retry-After") == "1") != (c.status == http.StatusServiceUnavailable) {
				t.Errorf("got %v", rec.Header())
			}
			if body := rec.Body.String(); !strings.Contains(body, "nothing was done") || strings.Contains(body, "tx:") {
				t.Errorf("got %s", body)
			}
			var line struct {
				Level, Msg, Code, Name, Error string
				CorrelationID                 string `json:"correlation_id"`
			}
			if err := json.Unmarshal(log.Bytes(), &line); err != nil { // one line
				t.Fatalf("logged %q: %v", log.String(), err)
			}
			if line.Level != c.level || line.Code != c.code || line.Name != "POST" || line.CorrelationID != "trace me" ||
				!strings.HasPrefix(line.Msg, "idemhttp: ") || !containsAny(line.Error, c.log) || strings.Contains(log.String(), "secret") {
				t.Errorf("logged %s", log.String())
			}
		}
		t.Run(name, func(t *testing.T) {
			test(t, func(keys *idem.Keys[pgx.Tx], o *idemhttp.Options) http.Handler {
				return idemhttp.New(keys, idemhttp.NoScope, o).Handler(func(http.ResponseWriter, *http.Request, pgx.Tx) error {
					if name != "read-only" { // which is found out at the end
						t.Error("a request ran unprotected")
					}
					return nil
				})
			})
		})
		t.Run(name+", leased", func(t *testing.T) {
			test(t, func(keys *idem.Keys[pgx.Tx], o *idemhttp.Options) http.Handler {
				m := idemhttp.NewLeased(idem.NewLeased(keys, nil), idemhttp.NoScope, o)
				return m.Handler(func(http.ResponseWriter, *http.Request, *idem.RunTx[pgx.Tx]) error {
					t.Error("a request ran unprotected")
					return nil
				})
			})
		})
	}
}

// containsAny reports whether one of the texts, with | between, is in text.
func containsAny(text, texts string) bool {
	return slices.ContainsFunc(strings.Split(texts, "|"), func(part string) bool { return strings.Contains(text, part) })
}

func emptyDB(t *testing.T) *tx.DB[pgx.Tx] {
	t.Helper()
	return pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8))
}

func alteredDB(t *testing.T, query string) *tx.DB[pgx.Tx] {
	t.Helper()
	db := emptyDB(t)
	if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Conn().Exec(t.Context(), query); err != nil {
		t.Fatal(err)
	}
	return db
}

func readOnlyDB(t *testing.T) *tx.DB[pgx.Tx] {
	t.Helper()
	address := testdb.Postgres(t)
	if err := idem.Migrate(t.Context(), pgxtx.New(pgxdb.Pool(t, address, 8)), idem.Names{}); err != nil {
		t.Fatal(err)
	}
	return pgxtx.New(pgxdb.Pool(t, with(t, address, "default_transaction_read_only", "on"), 8))
}

// busyDB has no connection for anybody.
func busyDB(t *testing.T) *tx.DB[pgx.Tx] {
	t.Helper()
	pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
	for range pool.Config().MaxConns {
		taken, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(taken.Release)
	}
	return pgxtx.New(pool)
}

// lockedDB has a table that somebody else has locked for long.
func lockedDB(t *testing.T) *tx.DB[pgx.Tx] {
	t.Helper()
	address := testdb.Postgres(t)
	pool := pgxdb.Pool(t, address, 8)
	if err := idem.Migrate(t.Context(), pgxtx.New(pool), idem.Names{}); err != nil {
		t.Fatal(err)
	}
	other, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Rollback(context.Background()) })
	if _, err := other.Exec(t.Context(), "lock table idem_key"); err != nil {
		t.Fatal(err)
	}
	return pgxtx.New(pgxdb.Pool(t, with(t, address, "statement_timeout", "50ms"), 8))
}

func downDB(t *testing.T) *tx.DB[pgx.Tx] {
	t.Helper()
	server := testdb.PostgresServer(t)
	db := pgxtx.New(pgxdb.Pool(t, server.URL(), 8))
	if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestHTTPStoreIsDownWithoutAKey(t *testing.T) {
	t.Parallel()
	post := service(t, downDB(t), func(context.Context, pgx.Tx) (int, error) {
		t.Error("a request ran unprotected")
		return 0, nil
	})
	wantStatus(t, "down", post(""), http.StatusServiceUnavailable, idemhttp.CodeStoreUnavailable, false)
}
