package contention_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func item(key any, title string) optimistic.Item {
	return optimistic.Item{Want: optimistic.Want{Key: key, Version: optimistic.At(0)}, Set: map[string]any{"title": title}}
}

// Two keys may be one row to the database: then nothing of the batch is written.
func TestKeysThatAreOneRow(t *testing.T) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) { t.Parallel(); db, _ := pgxDB(t, 4); oneRow(t, db) })
	t.Run("database/sql", func(t *testing.T) { t.Parallel(); db, _ := sqlDB(t, "pgx", 4); oneRow(t, db) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); db, _ := sqlDB(t, "sqlite", 4); oneRow(t, db) })
}

func oneRow[T any](t *testing.T, db *tx.DB[T]) {
	t.Helper()
	exec(t, db, doc)
	exec(t, db, `insert into doc (id, title) values (1, 'old'), (2, 'old')`)
	rows := optimistic.New(db, optimistic.Table{Name: "doc"}, nil)
	for _, items := range [][]optimistic.Item{
		{item("1", "a"), item("01", "b")},
		{item("2", "a"), item("1", "b"), item("01", "c")},
		{item(1, "a"), item("01", "b")},
	} {
		results, err := rows.SetMany(t.Context(), items)
		if !errors.Is(err, optimistic.ErrInvalid) {
			t.Errorf("got %+v, %v", results, err)
		}
	}
	var untouched int
	must(t, db.Conn().QueryRow(t.Context(), "select count(*) from doc where title = 'old' and version = 0").Scan(&untouched))
	if untouched != 2 {
		t.Errorf("%d of 2 rows are as they were", untouched)
	}
}

// What JSON would change on its way is refused, as Set refuses it.
func TestTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	db, _ := pgxDB(t, 4)
	exec(t, db, doc)
	exec(t, db, `insert into doc (id, title) values (1, 'old')`)
	rows := optimistic.New(db, optimistic.Table{Name: "doc"}, nil)
	_, err := rows.SetMany(t.Context(), []optimistic.Item{item(1, "a\xffb")})
	_, alone := rows.Set(t.Context(), item(1, "").Want, map[string]any{"title": "a\xffb"})
	if !errors.Is(err, optimistic.ErrInvalid) || !errors.Is(alone, optimistic.ErrInvalid) {
		t.Errorf("SetMany: %v; Set: %v", err, alone)
	}
}

// RFC 9110, section 13.1.2: If-None-Match with other versions is true of what is not there.
func TestPutUnlessItHasAVersion(t *testing.T) {
	t.Parallel()
	db, _ := pgxDB(t, 4)
	exec(t, db, doc)
	rows := optimistic.New(db, optimistic.Table{Name: "doc", Token: "op"}, nil)
	unless := func(etag string) optimistic.Condition {
		c, err := optimistic.ParseCondition(http.Header{"If-None-Match": {etag}})
		must(t, err)
		return c
	}
	for _, c := range []struct {
		etag    string
		created bool
		status  int
	}{{`"7"`, true, 0}, {`"0"`, false, http.StatusPreconditionFailed}, {`"7"`, false, 0}} {
		_, created, err := rows.Put(t.Context(), optimistic.Want{Key: 1}, unless(c.etag), optimistic.PlainRefuse, map[string]any{"title": "x"})
		if status, _ := optimistic.Status(err); created != c.created || status != c.status && err != nil || c.status == 0 && err != nil {
			t.Errorf("unless it is %s: created %v, status %d, %v", c.etag, created, status, err)
		}
	}
}
