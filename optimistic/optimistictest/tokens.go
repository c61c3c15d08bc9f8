package optimistictest

import (
	"context"
	"strings"

	"github.com/holdfast-go/holdfast/optimistic"
)

func tokenRules[T any]() []rule[T] {
	return []rule[T]{
		{"SelfConflictIsSuccess", "a retry of the operation that wrote the row last is a success, and writes nothing", selfConflict[T]}, // O1
		{"RetryWithFreshVersion", "nor does a retry write that has read the new version", retryFresh[T]},
		{"TokenOfAnother", "the token of another operation is no excuse, and a write without one removes it", otherToken[T]},
		{"TokenWithOwnSQL", "SQL of the caller's own that stores the token is judged by it", ownToken[T]},
		{"InsertAgain", "a retry of the insert that made the row gets its version", insertAgain[T]},
		{"TokenNeedsAColumn", "a token is refused where there is no column for it", tokenColumn[T]},
	}
}

func token(id string, n int64, token string) optimistic.Want {
	return optimistic.Want{Key: id, Version: optimistic.At(n), Token: token}
}

func selfConflict[T any](s *suite[T]) {
	s.make("a", 0)
	for range 3 {
		s.version(s.docs.Set(s.ctx, token("a", 0, "op-1"), title("mine")))(1)
	}
	s.is("a", "mine", 1)
}

func retryFresh[T any](s *suite[T]) {
	s.make("a", 0)
	s.version(s.docs.Set(s.ctx, token("a", 0, "op-1"), title("mine")))(1)
	s.version(s.docs.Set(s.ctx, token("a", 1, "op-1"), title("twice")))(1)
	s.is("a", "mine", 1)
	results, err := s.docs.SetMany(s.ctx, []optimistic.Item{{Want: token("a", 1, "op-1"), Set: title("twice")}})
	s.must(err)
	s.version(results[0].Version, results[0].Err)(1)
	s.is("a", "mine", 1)
}

func otherToken[T any](s *suite[T]) {
	s.make("a", 0)
	s.version(s.docs.Set(s.ctx, token("a", 0, "op-1"), title("mine")))(1)
	_, err := s.docs.Set(s.ctx, token("a", 0, "op-2"), title("other"))
	s.conflict(err, optimistic.At(0), optimistic.At(1))
	s.version(s.docs.Set(s.ctx, at("a", 1), title("other")))(2)
	_, err = s.docs.Set(s.ctx, token("a", 0, "op-1"), title("mine"))
	s.conflict(err, optimistic.At(0), optimistic.At(2))
	s.is("a", "other", 2)
}

func ownToken[T any](s *suite[T]) {
	s.make("a", 0)
	for range 2 {
		s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
			w := token("a", 0, "op-1")
			n, err := s.DB.Tx(t).Exec(ctx, "update doc set title = 'mine', op = $3, version = version + 1 where id = $1 and version = $2",
				w.Key, w.Version, w.Token)
			s.version(s.docs.Affected(ctx, t, w, n, err))(1)
			return nil
		}))
	}
	s.is("a", "mine", 1)
}

func insertAgain[T any](s *suite[T]) {
	w := optimistic.Want{Key: "a", Token: "op-1"}
	for range 3 {
		s.version(s.docs.Insert(s.ctx, w, title("mine")))(0)
	}
	_, err := s.docs.Insert(s.ctx, optimistic.Want{Key: "a", Token: "op-2"}, title("other"))
	s.want(err, optimistic.ErrExists)
	s.is("a", "mine", 0)
}

func tokenColumn[T any](s *suite[T]) {
	s.make("a", 0)
	_, err := optimistic.New(s.DB, optimistic.Table{Name: "doc"}, nil).Set(s.ctx, token("a", 0, "op-1"), nil)
	s.want(err, optimistic.ErrInvalid)
	for _, bad := range []string{"\xff", "a\x00", strings.Repeat("x", 256)} {
		_, err := s.docs.Set(s.ctx, token("a", 0, bad), nil)
		s.want(err, optimistic.ErrInvalid)
	}
	s.is("a", "made", 0)
}
