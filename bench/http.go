package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/valyala/fasthttp"
	_ "modernc.org/sqlite" // a database without a network

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

const (
	payment = `{"account":"account-7","amount":1250,"currency":"EUR","order":"order-17"}`
	asJSON  = "application/json"
)

// web is what the HTTP variants share. Ours commits to SQLite in a file that is not synced; fiber keeps answers in the
// memory of the process, without a transaction, scope or fingerprint. Compare each with the bare handler of its own.
type web struct {
	pool          *sql.DB
	keys          *idem.Keys[*sql.Tx]
	dir           string
	bare, keyed   http.Handler
	canonical     http.Handler
	fiber, fiber1 fasthttp.RequestHandler
}

func openWeb(ctx context.Context) (w *web, err error) {
	w = &web{}
	defer func() {
		if err != nil {
			_ = w.close()
		}
	}()
	if w.dir, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return nil, err
	}
	file := "file:" + filepath.ToSlash(filepath.Join(w.dir, "bench.db")) + "?_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	if w.pool, err = sql.Open("sqlite", file); err != nil {
		return nil, err
	}
	db := sqltx.New(w.pool, tx.SQLite, nil)
	if err := idem.Migrate(ctx, db, idem.Names{}); err != nil {
		return nil, err
	}
	if _, err := db.Conn().Exec(ctx, "create table effect (id integer primary key, account text not null, amount integer not null)"); err != nil {
		return nil, err
	}
	w.keys = idem.New(db, nil)
	w.keyed = idemhttp.New(w.keys, idemhttp.NoScope, nil).Handler(pay)
	w.canonical = idemhttp.New(w.keys, idemhttp.NoScope, &idemhttp.Options{CanonicalJSON: true}).Handler(pay)
	w.bare = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		err := db.Do(r.Context(), func(ctx context.Context, t *sql.Tx) error { return pay(rw, r.WithContext(ctx), t) })
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
		}
	})
	w.fiber, w.fiber1 = fiberApp(), fiberApp(idempotency.New(idempotency.Config{
		KeyHeader: "Idempotency-Key", KeyHeaderValidate: func(string) error { return nil }, Lifetime: time.Hour,
	}))
	return w, w.fill(ctx)
}

// fill does the operations that are repeated.
func (w *web) fill(ctx context.Context) error {
	for i := range int64(knownKeys) {
		if err := errors.Join(post(ctx, w.keyed, known(i), false), postFiber(w.fiber1, known(i))); err != nil {
			return err
		}
	}
	return nil
}

func (w *web) close() error {
	var err error
	if w.pool != nil {
		err = w.pool.Close()
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

// pay is the handler: it reads the request, writes a row and answers.
func pay(w http.ResponseWriter, r *http.Request, t *sql.Tx) error {
	var p receipt
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		return err
	}
	if _, err := t.ExecContext(r.Context(), effectSQL, p.Account, p.Amount); err != nil {
		return err
	}
	w.Header().Set("Content-Type", asJSON)
	w.WriteHeader(http.StatusCreated)
	return json.NewEncoder(w).Encode(receiptFor("1"))
}

// fiberApp has the same handler without its row.
func fiberApp(middleware ...fiber.Handler) fasthttp.RequestHandler {
	app := fiber.New()
	for _, m := range middleware {
		app.Use(m)
	}
	app.Post("/payments", func(c fiber.Ctx) error {
		var p receipt
		if err := json.Unmarshal(c.Body(), &p); err != nil {
			return err
		}
		return c.Status(http.StatusCreated).JSON(receiptFor("1"))
	})
	return app.Handler()
}

func post(ctx context.Context, h http.Handler, key string, replayed bool) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/payments", strings.NewReader(payment))
	if err != nil {
		return err
	}
	r.Header["Idempotency-Key"], r.Header["Content-Type"] = []string{key}, []string{asJSON}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code != http.StatusCreated || (rec.Header().Get("Idempotency-Replayed") != "") != replayed {
		return fmt.Errorf("got %d %s with %v", rec.Code, rec.Body, rec.Header())
	}
	return nil
}

func postFiber(h fasthttp.RequestHandler, key string) error {
	var request fasthttp.Request
	request.Header.SetMethod(http.MethodPost)
	request.SetRequestURI("/payments")
	request.Header.Set("Idempotency-Key", key)
	request.Header.SetContentType(asJSON)
	request.SetBodyString(payment)
	var c fasthttp.RequestCtx
	c.Init(&request, nil, nil)
	h(&c)
	if c.Response.StatusCode() != http.StatusCreated {
		return fmt.Errorf("fiber: got %d %s", c.Response.StatusCode(), c.Response.Body())
	}
	return nil
}

// do is the database's part of a first request.
func (w *web) do(ctx context.Context, _ int, seq int64) error {
	res, err := idem.Do(ctx, w.keys, idemKey(keyOf(seq)), func(ctx context.Context, t *sql.Tx) (receipt, error) {
		r := receiptFor("1")
		_, err := t.ExecContext(ctx, effectSQL, r.Account, r.Amount)
		return r, err
	})
	if err == nil && res.Replayed {
		return errTaken
	}
	return err
}

// variants of the group "http".
func (w *web) variants() []variant {
	serve := func(h http.Handler, key func(int64) string, replayed bool) func(context.Context, int, int64) error {
		return func(ctx context.Context, _ int, seq int64) error { return post(ctx, h, key(seq), replayed) }
	}
	fast := func(h fasthttp.RequestHandler, key func(int64) string) func(context.Context, int, int64) error {
		return func(_ context.Context, _ int, seq int64) error { return postFiber(h, key(seq)) }
	}
	return []variant{
		{"net/http, SQLite, no key: begin, work, commit", serve(w.bare, keyOf, false)},
		{"idem.Do, SQLite, no HTTP", w.do},
		{"idemhttp, SQLite, first request", serve(w.keyed, keyOf, false)},
		{"idemhttp, SQLite, first request, canonical JSON", serve(w.canonical, keyOf, false)},
		{"idemhttp, SQLite, repetition", serve(w.keyed, known, true)},
		{"fiber, nothing stored", fast(w.fiber, keyOf)},
		{"fiber idempotency, process memory, first request", fast(w.fiber1, keyOf)},
		{"fiber idempotency, process memory, repetition", fast(w.fiber1, known)},
	}
}
