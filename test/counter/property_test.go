package counter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/test/history"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// Random calls, one after the other, against counters in memory. HOLDFAST_SEED repeats the choices.

func TestPropertiesPgx(t *testing.T) { properties(t, pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8))) }

func TestPropertiesSQLite(t *testing.T) {
	properties(t, stddb.SQLite("sqlite", sqliteParams)(t).DB)
}

func properties[T any](t *testing.T, db *tx.DB[T]) {
	t.Parallel()
	migrate(t, db)
	seed := history.Seed(t)
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := &round[T]{TB: t, db: db, slots: true, started: time.Now()}
	r.processes = []*counter.Counters[T]{counter.New(db, nil), counter.New(db, &counter.Options{MaxBatch: 1})}
	states := map[string]state{}
	for i := range 400 {
		w := &worker[T]{r, random, i}
		if random.IntN(10) == 0 {
			many(t, w, states)
			continue
		}
		w.call(fmt.Sprint(i))
		rec := r.history[len(r.history)-1]
		s, ok := states[rec.key]
		if !ok {
			s.slots = 1
		}
		next, _ := s.apply(rec)
		if len(s.step(rec)) != 1 || rec.saw == nothing {
			t.Fatalf("%v of %+v", rec, s)
		}
		states[rec.key] = next
	}
	for key, s := range states {
		if n, err := r.processes[0].Get(t.Context(), key); err != nil || n != s.value {
			t.Errorf("%s is %d, %v, want %+v", key, n, err, s)
		}
	}
}

// many changes all counters at once, and none of them if one is refused.
func many[T any](t *testing.T, w *worker[T], states map[string]state) {
	t.Helper()
	var changes []counter.Change
	refused, after := false, map[string]state{}
	for i := range fewKeys {
		rec := &record{key: w.key(i), verb: add, n: w.Int64N(9) - 4}
		s, ok := states[rec.key]
		if !ok {
			s.slots = 1
		}
		next, saw := s.apply(rec)
		refused = refused || saw != done
		after[rec.key] = next
		changes = append(changes, counter.Change{Key: rec.key, N: rec.n})
	}
	w.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	err := w.processes[w.number%2].AddMany(context.Background(), changes)
	if refused != (errors.Is(err, counter.ErrInsufficient) || errors.Is(err, counter.ErrOverflow)) || !refused && err != nil {
		t.Fatalf("%+v of %+v: got %v, want a refusal: %v", changes, states, err, refused)
	}
	if !refused {
		for key, s := range after {
			states[key] = s
		}
	}
}
