package optimistictest

import (
	"context"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func guardRules[T any]() []rule[T] {
	return []rule[T]{
		{"Set", "a write is applied if the version is that of the row, and returns the next", set[T]},
		{"StaleWriteIsAnError", "a stale write is an error with the current version, and not found is another", stale[T]}, // O3
		{"UnsetVersionIsRefused", "an unset version is refused, and 0 is a version", unsetVersion[T]},                     // O2
		{"AnyOverwrites", "Any must be asked for, and overwrites", anyOverwrites[T]},
		{"Insert", "an insert makes a row once, and tells that it exists", insert[T]},
		{"Delete", "a delete is guarded as a write is", remove[T]},
		{"OwnSQL", "SQL of the caller's own is judged as it is, by affected rows and by RETURNING", ownSQL[T]},                  // O5
		{"OwnSQLWithOtherConditions", "a statement that matched nothing for another reason is no conflict", otherConditions[T]}, // O5
		{"TwoWritesInOneTick", "two writes in one tick of the clock differ in version", oneTick[T]},                             // O7
		{"ClientsVersionCounts", "the version is that of who decided, not of a fresh read", clientsVersion[T]},                  // O9
		{"DeleteAndInsert", "with seeded versions, a row that is made anew has none of its former versions", aba[T]},            // O18
		{"Events", "a conflict and a self-conflict are told, with the correlation ID", tellsEvents[T]},
	}
}

func set[T any](s *suite[T]) {
	s.must(s.docs.Check(s.ctx))
	s.make("a", 0)
	s.version(s.docs.Set(s.ctx, at("a", 0), title("one")))(1)
	s.version(s.docs.Set(s.ctx, at("a", 1), map[string]any{"title": "two", "size": int64(7)}))(2)
	s.version(s.docs.Set(s.ctx, at("a", 2), nil))(3)
	s.is("a", "two", 3)
	s.make("b", -5)
	s.version(s.docs.Set(s.ctx, at("b", -5), title("negative")))(-4)
}

func stale[T any](s *suite[T]) {
	s.make("a", 7)
	for _, n := range []int64{6, 8, 0, 1<<63 - 1, -1 << 63} {
		_, err := s.docs.Set(s.ctx, at("a", n), title("stale"))
		s.conflict(err, optimistic.At(n), optimistic.At(7))
		_, err = s.docs.Delete(s.ctx, at("a", n))
		s.conflict(err, optimistic.At(n), optimistic.At(7))
	}
	for _, id := range []string{"b", "", "A", `a"`, "' or 1=1 --"} {
		_, err := s.docs.Set(s.ctx, at(id, 7), title("nobody"))
		s.want(err, optimistic.ErrNotFound)
		_, err = s.docs.Delete(s.ctx, at(id, 7))
		s.want(err, optimistic.ErrNotFound)
		if holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("the outcome is %v", holdfast.OutcomeOf(err))
		}
	}
	s.is("a", "made", 7)
}

func unsetVersion[T any](s *suite[T]) {
	s.make("a", 0)
	w := optimistic.Want{Key: "a"}
	_, err := s.docs.Set(s.ctx, w, title("unset"))
	s.want(err, optimistic.ErrNoVersion)
	_, err = s.docs.Delete(s.ctx, w)
	s.want(err, optimistic.ErrNoVersion)
	err = s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		n, err := s.DB.Tx(t).Exec(ctx, "update doc set title = 'unset' where id = 'a'") // without a predicate
		_, err = s.docs.Affected(ctx, t, w, n, err)
		return err
	})
	s.want(err, optimistic.ErrNoVersion)
	err = s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		n, err := s.DB.Tx(t).Exec(ctx, "update doc set title = 'unset' where "+s.docs.Where("$1", "$2"), w.Key, w.Version)
		_, err = s.docs.Affected(ctx, t, w, n, err)
		return err
	})
	s.want(err, optimistic.ErrNoVersion)
	s.is("a", "made", 0)
	s.version(s.docs.Set(s.ctx, at("a", 0), title("zero")))(1)
}

func anyOverwrites[T any](s *suite[T]) {
	s.make("a", 5)
	s.version(s.docs.Set(s.ctx, optimistic.Want{Key: "a", Version: optimistic.Any()}, title("forced")))(6)
	_, err := s.docs.Set(s.ctx, optimistic.Want{Key: "b", Version: optimistic.Any()}, title("forced"))
	s.want(err, optimistic.ErrNotFound)
	s.is("a", "forced", 6)
	s.version(s.docs.Delete(s.ctx, optimistic.Want{Key: "a", Version: optimistic.Any()}))(6)
}

func insert[T any](s *suite[T]) {
	s.version(s.docs.Insert(s.ctx, optimistic.Want{Key: "a"}, title("first")))(0)
	_, err := s.docs.Insert(s.ctx, optimistic.Want{Key: "a"}, title("second"))
	s.want(err, optimistic.ErrExists)
	s.conflict(err, optimistic.Version{}, optimistic.At(0))
	_, err = s.docs.Insert(s.ctx, at("b", 0), nil)
	s.want(err, optimistic.ErrInvalid)
	s.version(s.docs.Insert(s.ctx, optimistic.Want{Key: "b"}, nil))(0)
	s.is("a", "first", 0)
}

func remove[T any](s *suite[T]) {
	s.make("a", 3)
	s.version(s.docs.Delete(s.ctx, at("a", 3)))(3)
	_, err := s.docs.Delete(s.ctx, at("a", 3))
	s.want(err, optimistic.ErrNotFound)
}

// affected and returned are two ways to write SQL of one's own. size + 1 and the constant title show that nothing rewrites
// it.
func affected[T any](ctx context.Context, s *suite[T], t T, w optimistic.Want) (optimistic.Version, error) {
	n, err := s.DB.Tx(t).Exec(ctx, "update doc set title = 'affected', size = coalesce(size, 0) + 1, "+s.docs.Bump()+" where "+
		s.docs.Where("$1", "$2"), w.Key, w.Version)
	return s.docs.Affected(ctx, t, w, n, err)
}

func returned[T any](ctx context.Context, s *suite[T], t T, w optimistic.Want) (v optimistic.Version, err error) {
	err = s.DB.Tx(t).QueryRow(ctx, "update doc set title = 'returned', size = coalesce(size, 0) + 1, version = version + 1 "+
		"where id = $1 and version = $2 returning version", w.Key, w.Version).Scan(&v)
	got, err := s.docs.Returned(ctx, t, w, err)
	if err == nil && got != v {
		s.Errorf("returned %v, the row says %v", got, v)
	}
	return got, err
}

func ownSQL[T any](s *suite[T]) {
	for name, write := range map[string]func(context.Context, *suite[T], T, optimistic.Want) (optimistic.Version, error){
		"affected": affected[T], "returned": returned[T],
	} {
		s.make(name, 4)
		s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
			s.version(write(ctx, s, t, at(name, 4)))(5)
			_, err := write(ctx, s, t, at(name, 4)) // its own earlier write: O11
			s.conflict(err, optimistic.At(4), optimistic.At(5))
			_, err = write(ctx, s, t, at("nobody", 4))
			s.want(err, optimistic.ErrNotFound)
			s.version(write(ctx, s, t, at(name, 5)))(6) // a refusal leaves the transaction usable
			return nil
		}))
		s.is(name, name, 6)
		var size int64
		s.must(s.DB.Conn().QueryRow(s.ctx, "select size from doc where id = $1", name).Scan(&size))
		if size != 2 {
			s.Fatalf("size %d", size)
		}
		err := s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
			_, err := s.DB.Tx(t).Exec(ctx, "update no_such_table set x = 1")
			_, err = s.docs.Affected(ctx, t, at(name, 6), 0, err)
			return err
		})
		s.want(err, tx.ErrNotMigrated)
	}
	err := s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		n, err := s.DB.Tx(t).Exec(ctx, "update doc set version = version + 1")
		_, err = s.docs.Affected(ctx, t, at("affected", 6), n, err)
		return err
	})
	s.want(err, optimistic.ErrInvalid)
}

func otherConditions[T any](s *suite[T]) {
	s.make("a", 4)
	err := s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		n, err := s.DB.Tx(t).Exec(ctx, "update doc set version = version + 1 where id = $1 and version = $2 and size > 0", "a", 4)
		_, err = s.docs.Affected(ctx, t, at("a", 4), n, err)
		return err
	})
	s.want(err, optimistic.ErrUnmatched)
}

func oneTick[T any](s *suite[T]) {
	s.make("a", 0)
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		for n := range int64(5) {
			s.version(s.docs.SetTx(ctx, t, at("a", n), title("tick")))(n + 1)
			if _, err := s.docs.SetTx(ctx, t, at("a", n), title("stale")); err == nil {
				s.Fatal("a second write at one version passed")
			}
		}
		return nil
	}))
}

func clientsVersion[T any](s *suite[T]) {
	s.make("a", 0)
	s.version(s.docs.Set(s.ctx, at("a", 0), title("another editor")))(1)
	err := s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		var fresh optimistic.Version
		if err := s.DB.Tx(t).QueryRow(ctx, "select version from doc where id = 'a'").Scan(&fresh); err != nil {
			return err
		}
		_, err := s.docs.SetTx(ctx, t, at("a", 0), title("from the form"))
		return err
	})
	s.conflict(err, optimistic.At(0), optimistic.At(1))
	s.is("a", "another editor", 1)
}

func aba[T any](s *suite[T]) {
	s.exec("create table seeded (id text primary key, title text not null default '', version bigint not null default 0)")
	rows := optimistic.New(s.DB, optimistic.Table{Name: "seeded"}, &optimistic.Options{SeedVersions: true})
	old, err := rows.Insert(s.ctx, optimistic.Want{Key: "a"}, nil)
	s.must(err)
	for range 20 {
		old, err = rows.Set(s.ctx, optimistic.Want{Key: "a", Version: old}, nil)
		s.must(err)
	}
	_, err = rows.Delete(s.ctx, optimistic.Want{Key: "a", Version: old})
	s.must(err)
	fresh, err := rows.Insert(s.ctx, optimistic.Want{Key: "a"}, nil)
	s.must(err)
	before, _ := old.Int64()
	after, _ := fresh.Int64()
	if after == before || before < 1_500_000_000_000_000 {
		s.Fatalf("version %d after %d", after, before)
	}
	_, err = rows.Set(s.ctx, optimistic.Want{Key: "a", Version: old}, nil)
	s.want(err, optimistic.ErrConflict)
}

func tellsEvents[T any](s *suite[T]) {
	ctx := holdfast.WithCorrelationID(s.ctx, "req-1")
	s.make("a", 3)
	_, err := s.docs.Set(ctx, at("a", 1), nil)
	s.want(err, optimistic.ErrConflict)
	w := at("a", 3)
	w.Token = "op-1"
	s.version(s.docs.Set(ctx, w, nil))(4)
	s.version(s.docs.Set(ctx, w, nil))(4)
	if got := s.heard.kinds(s, "req-1"); got != "optimistic.conflict optimistic.self_conflict " {
		s.Fatalf("heard %q", got)
	}
}
