package optimistic_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/test/history"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// Random calls, one after the other, against rows in memory. HOLDFAST_SEED repeats the choices.

func TestPropertiesPgx(t *testing.T)    { properties(t, pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8))) }
func TestPropertiesSQLite(t *testing.T) { properties(t, openSQLite(t)) }

func properties[T any](t *testing.T, db *tx.DB[T]) {
	t.Parallel()
	prepare(t, db)
	seed := history.Seed(t)
	t.Logf("seed %d", seed)
	random, docs, rows := rand.New(rand.NewPCG(seed, 0)), rowsOf(db), map[string]row{}
	for i := range int64(400) {
		rec := &record{id: fmt.Sprint(i), row: fmt.Sprint("row", random.IntN(4)), value: i, verb: set}
		if rec.expected = rows[rec.row].version + int64(random.IntN(5)/4); random.IntN(8) == 0 {
			rec.expected = anyVersion
		}
		v, err := one(t, docs, random, rec)
		next, version, can := rows[rec.row].apply(rec)
		var lost *optimistic.ConflictError
		switch there := rows[rec.row].there; {
		case can && (err != nil || v != optimistic.At(version)):
			t.Fatalf("%v on %+v: got %v, %v", rec, rows[rec.row], v, err)
		case can:
			rows[rec.row] = next
		case !there && !errors.Is(err, optimistic.ErrNotFound),
			there && (!errors.As(err, &lost) || lost.Current != optimistic.At(rows[rec.row].version)):
			t.Fatalf("%v on %+v: got %v", rec, rows[rec.row], err)
		}
	}
	for name, s := range rows {
		var version, value int64
		err := db.Conn().QueryRow(t.Context(), "select version, size from doc where id = $1", name).Scan(&version, &value)
		if gone := errors.Is(err, tx.ErrNoRows); gone == s.there || !gone && (version != s.version || value != s.value) {
			t.Errorf("%s is at %d, %d, %v, want %+v", name, version, value, err, s)
		}
	}
}

// one makes the call of rec by one of the verbs that mean it.
func one[T any](t *testing.T, docs *optimistic.Rows[T], random *rand.Rand, rec *record) (v optimistic.Version, err error) {
	values := map[string]any{"size": rec.value}
	switch random.IntN(6) {
	case 0:
		rec.verb = remove
		return docs.Delete(t.Context(), wantOf(rec, ""))
	case 1:
		rec.verb = insert
		return docs.Insert(t.Context(), optimistic.Want{Key: rec.row}, values)
	case 2:
		rec.verb = insert
		v, _, err = put(t, docs, rec, "If-None-Match", "*", values)
		return v, err
	case 3:
		tag := optimistic.At(rec.expected).ETag()
		if rec.expected == anyVersion {
			tag = "*"
		}
		v, _, err = put(t, docs, rec, "If-Match", tag, values)
		var failed *optimistic.PreconditionError
		if err != nil && !errors.As(err, &failed) {
			t.Fatalf("%v: got %v", rec, err)
		}
		return v, err
	case 4:
		if rec.expected != anyVersion {
			results, err := docs.SetMany(t.Context(), []optimistic.Item{{Want: wantOf(rec, ""), Set: values}})
			if err != nil {
				return v, err
			}
			return results[0].Version, results[0].Err
		}
	}
	return docs.Set(t.Context(), wantOf(rec, rec.id), values)
}

func put[T any](t *testing.T, docs *optimistic.Rows[T], rec *record, header, tag string, values map[string]any) (optimistic.Version, bool, error) {
	c, err := optimistic.ParseCondition(http.Header{header: []string{tag}})
	if err != nil {
		t.Fatal(err)
	}
	return docs.Put(t.Context(), optimistic.Want{Key: rec.row}, c, optimistic.PlainRefuse, values)
}
