// Package edit is the documents story: two editors save one form.
package edit

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

// Migrate makes the table. The version is a column like any other.
func Migrate[T any](ctx context.Context, db *tx.DB[T]) error {
	_, err := db.Conn().Exec(ctx, `create table if not exists document (
		id text primary key, body text not null, version bigint not null default 0)`)
	return err
}

// Ours saves only on top of what the editor has loaded: the ETag that it got comes back in If-Match.
func Ours[T any](db *tx.DB[T]) http.Handler {
	docs := optimistic.New(db, optimistic.Table{Name: "document"}, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /documents/{id}", func(w http.ResponseWriter, r *http.Request) {
		cond, err := optimistic.ParseCondition(r.Header)
		if optimistic.Refuse(w, err) {
			return
		}
		body, version, err := load(r.Context(), db, r.PathValue("id"))
		if optimistic.Refuse(w, err) || failed(w, err) {
			return
		}
		w.Header().Set("ETag", version.ETag())
		if status := cond.Evaluate(r.Method, version); status != 0 {
			w.WriteHeader(status) // 304: the editor has it already
			return
		}
		_, _ = io.WriteString(w, body)
	})
	mux.HandleFunc("PUT /documents/{id}", func(w http.ResponseWriter, r *http.Request) {
		cond, err := optimistic.ParseCondition(r.Header)
		if optimistic.Refuse(w, err) {
			return
		}
		body, err := receive(w, r)
		if failed(w, err) {
			return
		}
		want := optimistic.Want{Key: r.PathValue("id")}
		version, created, err := docs.Put(r.Context(), want, cond, optimistic.PlainRefuse, map[string]any{"body": body})
		if optimistic.Refuse(w, err) || failed(w, err) { // 412 with the current ETag, 428 without a precondition
			return
		}
		w.Header().Set("ETag", version.ETag())
		if created {
			w.WriteHeader(http.StatusCreated)
		}
	})
	return mux
}

// LastWins saves whatever comes.
func LastWins[T any](db *tx.DB[T]) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /documents/{id}", func(w http.ResponseWriter, r *http.Request) {
		body, _, err := load(r.Context(), db, r.PathValue("id"))
		if optimistic.Refuse(w, err) || failed(w, err) {
			return
		}
		_, _ = io.WriteString(w, body)
	})
	mux.HandleFunc("PUT /documents/{id}", func(w http.ResponseWriter, r *http.Request) {
		body, err := receive(w, r)
		if failed(w, err) {
			return
		}
		_, err = db.Conn().Exec(r.Context(), `insert into document (id, body) values ($1, $2)
			on conflict (id) do update set body = excluded.body`, r.PathValue("id"), body)
		failed(w, err)
	})
	return mux
}

func load[T any](ctx context.Context, db *tx.DB[T], id string) (body string, version optimistic.Version, err error) {
	err = db.Conn().QueryRow(ctx, "select body, version from document where id = $1", id).Scan(&body, &version)
	if errors.Is(err, tx.ErrNoRows) {
		err = optimistic.ErrNotFound
	}
	return body, version, err
}

func receive(w http.ResponseWriter, r *http.Request) (string, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil {
		err = story.Elsewhere(r.Context()) // a spelling check
	}
	return string(body), err
}

// failed answers an error that is none of the client's.
func failed(w http.ResponseWriter, err error) bool {
	if err != nil {
		http.Error(w, "not saved", http.StatusServiceUnavailable)
	}
	return err != nil
}
