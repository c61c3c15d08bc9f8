package story

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
)

func TestAStoryThatDidNotRunHasNoNumbers(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Result{Story: "a", Hazard: "b", NotRun: "needs a server"})
	want := `{"story":"a","hazard":"b","not_run":"needs a server","backend":null,"operations":null,"naive_damage":null,"damage":null,"ok":null}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v", text, err)
	}
	text, err = json.Marshal(Result{Story: "a", Hazard: "b", Backend: "sqlite", Operations: 3, NaiveDamage: 2, OK: true})
	want = `{"story":"a","hazard":"b","backend":"sqlite","operations":3,"naive_damage":2,"damage":0,"ok":true}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestAPlaceIsEmptyAndRemoved(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"", testdb.Postgres(t)} {
		place, err := NewPlace(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		if err := place.On(t.Context(), makeTable[*sql.Tx], makeTable[pgx.Tx]); err != nil {
			t.Error(err)
		}
		place.Remove()
		if err := place.On(t.Context(), makeTable[*sql.Tx], makeTable[pgx.Tx]); err == nil {
			t.Errorf("%s is still there", place.URL)
		}
		if dir := filepath.Dir(strings.TrimPrefix(place.URL, "file:")); dsn == "" {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s is still there", dir)
			}
		}
	}
}

func makeTable[T any](ctx context.Context, db *tx.DB[T]) error {
	_, err := db.Conn().Exec(ctx, "create table mine (id integer)")
	return err
}

func TestTheDSNMustBeAURL(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"host=127.0.0.1 dbname=postgres", "mysql://127.0.0.1/x", "://"} {
		if _, err := NewPlace(t.Context(), dsn); err == nil || !strings.Contains(err.Error(), "postgres://") {
			t.Errorf("%s: got %v", dsn, err)
		}
	}
}
