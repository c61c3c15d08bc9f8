package optimistictest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func batchRules[T any]() []rule[T] {
	return []rule[T]{
		{"BatchTellsOfEach", "a batch tells for each item what became of it, in order", batch[T]},
		{"BatchRefuses", "a row that occurs twice, differing columns and too many items are refused before anything is written", batchRefuses[T]},
		{"BatchesDoNotDeadlock", "batches of the same rows in any order do not deadlock, and each row is won by one", batchesTogether[T]}, // B37d
		{"BatchLocksInOrder", "a batch locks its rows in the order of their keys, whatever the planner does", batchLocksInOrder[T]},
	}
}

func batch[T any](s *suite[T]) {
	s.make("z", 0)
	s.make("a", 7)
	s.make(`quote"'`, 3)
	s.make("mine", 5)
	s.version(s.docs.Set(s.ctx, token("mine", 5, "op-9"), nil))(6)
	item := func(w optimistic.Want, text any) optimistic.Item {
		return optimistic.Item{Want: w, Set: map[string]any{"title": text, "size": int64(1<<53 + 1)}}
	}
	results, err := s.docs.SetMany(s.ctx, []optimistic.Item{
		item(at("z", 0), "é\n\"x\""), item(at("a", 6), "stale"), item(at("nobody", 1), "x"), item(optimistic.Want{Key: "q"}, "x"),
		item(token(`quote"'`, 3, "op-1"), "applied"), item(token("mine", 5, "op-9"), "again"), item(at("A", 1<<62), "x"),
	})
	s.must(err)
	if len(results) != 7 {
		s.Fatalf("%d results", len(results))
	}
	s.version(results[0].Version, results[0].Err)(1)
	s.conflict(results[1].Err, optimistic.At(6), optimistic.At(7))
	s.want(results[2].Err, optimistic.ErrNotFound)
	s.want(results[3].Err, optimistic.ErrNoVersion)
	s.version(results[4].Version, results[4].Err)(4)
	s.version(results[5].Version, results[5].Err)(6)
	s.want(results[6].Err, optimistic.ErrNotFound)
	if results[1].Version != optimistic.At(7) || results[3].Key != "q" {
		s.Fatalf("got %+v", results)
	}
	s.is("z", "é\n\"x\"", 1)
	s.is("a", "made", 7)
	s.is(`quote"'`, "applied", 4)
	var size int64
	s.must(s.DB.Conn().QueryRow(s.ctx, "select size from doc where id = 'z'").Scan(&size))
	if size != 1<<53+1 {
		s.Fatalf("size %d", size)
	}
	none, err := s.docs.SetMany(s.ctx, nil)
	if s.must(err); len(none) != 0 {
		s.Fatal("results of nothing")
	}
	results, err = s.docs.SetMany(s.ctx, []optimistic.Item{{Want: at("z", 1), Set: map[string]any{"size": nil}}, {Want: at("a", 7), Set: map[string]any{"size": int64(2)}}})
	s.must(err)
	s.version(results[0].Version, results[0].Err)(2)
	s.version(results[1].Version, results[1].Err)(8)
}

func batchRefuses[T any](s *suite[T]) {
	s.make("a", 0)
	many := make([]optimistic.Item, 1001)
	for i := range many {
		many[i] = optimistic.Item{Want: at(fmt.Sprint(i), 0)}
	}
	for name, items := range map[string][]optimistic.Item{
		"twice":   {{Want: at("a", 0), Set: title("x")}, {Want: at("a", 0), Set: title("y")}},
		"columns": {{Want: at("a", 0), Set: title("x")}, {Want: at("b", 0), Set: map[string]any{"size": 1}}},
		"any":     {{Want: optimistic.Want{Key: "a", Version: optimistic.Any()}, Set: title("x")}},
		"key":     {{Want: at("a", 0), Set: title("x")}, {Want: at("\xff", 0), Set: title("x")}},
		"own":     {{Want: at("a", 0), Set: map[string]any{"version": 7}}},
		"many":    many,
	} {
		_, err := s.docs.SetMany(s.ctx, items)
		if s.want(err, optimistic.ErrInvalid); err == nil {
			s.Fatal(name)
		}
	}
	s.is("a", "made", 0)
}

func batchesTogether[T any](s *suite[T]) {
	const rows = 120
	for i := range rows {
		s.make(fmt.Sprint("row ", i), 0)
	}
	attempts := 1 // a deadlock must not hide behind a retry
	if s.snapshots() {
		attempts = 100
	}
	docs := optimistic.New(s.DB.With(tx.Options{Isolation: s.level, Attempts: attempts}), table, nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for w := range 6 {
		wg.Go(func() {
			order := rand.Perm(rows)[:100]
			var items []optimistic.Item
			for _, i := range order {
				items = append(items, optimistic.Item{Want: at(fmt.Sprint("row ", i), 0), Set: title(fmt.Sprint("writer ", w))})
			}
			var results []optimistic.Result
			err := s.DB.With(tx.Options{Isolation: s.level, Attempts: attempts}).Do(s.ctx, func(ctx context.Context, t T) (err error) {
				results, err = docs.SetManyTx(ctx, t, items)
				return err
			})
			if err != nil {
				s.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range results {
				if r.Err == nil {
					won++
				} else if r.Version != optimistic.At(1) {
					s.Errorf("got %+v", r)
				}
			}
		})
	}
	wg.Wait()
	var total, most int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select sum(version), max(version) from doc").Scan(&total, &most))
	if total != won || most != 1 {
		s.Fatalf("%d writes won, the rows say %d, at most %d of one", won, total, most)
	}
}
