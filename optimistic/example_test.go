package optimistic_test

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// SQL of the caller's own has the predicate in it; the check makes of its result what it means.
func ExampleRows_Affected() {
	var pool *pgxpool.Pool // open
	db := pgxtx.New(pool)
	docs := optimistic.New(db, optimistic.Table{Name: "document"}, nil)

	rename := func(ctx context.Context, id, title string, read optimistic.Version) (v optimistic.Version, err error) {
		want := optimistic.Want{Key: id, Version: read}
		err = db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
			tag, err := t.Exec(ctx, "update document set title = $3, version = version + 1 where id = $1 and version = $2", id, read, title)
			v, err = docs.Affected(ctx, t, want, tag.RowsAffected(), err)
			return err
		})
		return v, err
	}
	_ = rename
}

// The version comes with the form, and goes into the write as it came.
func ExampleRows_Set() {
	var pool *pgxpool.Pool // open
	docs := optimistic.New(pgxtx.New(pool), optimistic.Table{Name: "document"}, nil)

	http.HandleFunc("POST /documents/{id}", func(w http.ResponseWriter, r *http.Request) {
		var form struct {
			Title   string             `json:"title"`
			Version optimistic.Version `json:"version"` // absent is not 0
		}
		if err := json.NewDecoder(r.Body).Decode(&form); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		want := optimistic.Want{Key: r.PathValue("id"), Version: form.Version}
		v, err := docs.Set(r.Context(), want, map[string]any{"title": form.Title})
		if optimistic.Refuse(w, err) {
			return
		}
		w.Header().Set("ETag", v.ETag())
	})
}

// A decision that is made on what the row says is made again when somebody else was faster.
func ExampleRows_Edit() {
	var pool *pgxpool.Pool // open
	docs := optimistic.New(pgxtx.New(pool), optimistic.Table{Name: "document"}, nil)

	appendLine := func(ctx context.Context, id, line string) (optimistic.Version, error) {
		var body string
		read := map[string]any{"body": &body}
		return docs.Edit(ctx, optimistic.Want{Key: id}, read, func(context.Context, pgx.Tx) (map[string]any, error) {
			return map[string]any{"body": body + line + "\n"}, nil
		})
	}
	_ = appendLine
}

// What is read may come from anywhere in the database. The guarded write waits for the commit, which is refused if the document
// was changed meanwhile, and then all of it is done again.
func ExampleRows_SetAtCommit() {
	var pool *pgxpool.Pool // open
	docs := optimistic.New(pgxtx.New(pool), optimistic.Table{Name: "document"}, nil)

	countWords := func(ctx context.Context, id string) error {
		return docs.Update(ctx, id, func(ctx context.Context, t pgx.Tx) error {
			var words int
			want := optimistic.Want{Key: id}
			err := t.QueryRow(ctx, "select d.version, (select sum(p.words) from page p where p.document = d.id) from document d where d.id = $1", id).
				Scan(&want.Version, &words)
			if err != nil {
				return err
			}
			_, err = docs.SetAtCommit(ctx, t, want, map[string]any{"words": words})
			return err
		})
	}
	_ = countWords
}
