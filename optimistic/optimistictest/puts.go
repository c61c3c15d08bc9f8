package optimistictest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func putRules[T any]() []rule[T] {
	return []rule[T]{
		{"PutCreates", "If-None-Match: * creates once", putCreates[T]},
		{"PutUpdates", "If-Match updates the version that it names, and nothing else", putUpdates[T]},
		{"PutPlain", "without a precondition the policy decides", putPlain[T]}, // O15
		{"PutGone", "a PUT that overwrites writes, also if the row is deleted in that moment", putGone[T]},
		{"PutAtOnce", "of PUTs at the same moment one creates, and one updates", putAtOnce[T]},
	}
}

func ifMatch(values ...string) optimistic.Condition     { return condition("If-Match", values) }
func ifNoneMatch(values ...string) optimistic.Condition { return condition("If-None-Match", values) }

func condition(name string, values []string) optimistic.Condition {
	c, err := optimistic.ParseCondition(http.Header{name: values})
	if err != nil {
		panic(err)
	}
	return c
}

func (s *suite[T]) put(id string, c optimistic.Condition, plain optimistic.PlainPut, text string) (optimistic.Version, bool, error) {
	return s.docs.Put(s.ctx, optimistic.Want{Key: id}, c, plain, title(text))
}

// fails checks the answer to a refused request.
func (s *suite[T]) fails(err error, status int, etag string) {
	s.Helper()
	w := httptest.NewRecorder()
	if !optimistic.Refuse(w, err) || w.Code != status || w.Header().Get("ETag") != etag {
		s.Fatalf("%v is answered with %d, ETag %q, want %d, %q", err, w.Code, w.Header().Get("ETag"), status, etag)
	}
}

func putCreates[T any](s *suite[T]) {
	v, created, err := s.put("a", ifNoneMatch("*"), optimistic.PlainRefuse, "first")
	if s.version(v, err)(0); !created {
		s.Fatal("not created")
	}
	_, created, err = s.put("a", ifNoneMatch("*"), optimistic.PlainRefuse, "second")
	if s.fails(err, http.StatusPreconditionFailed, `"0"`); created {
		s.Fatal("created twice")
	}
	s.want(err, optimistic.ErrExists)
	s.is("a", "first", 0)
}

func putUpdates[T any](s *suite[T]) {
	s.make("a", 7)
	for _, stale := range []optimistic.Condition{
		ifMatch(`"6"`), ifMatch(`W/"7"`), ifMatch(`"6", "8"`), ifMatch(`"abc"`), ifMatch(`"07"`), ifNoneMatch(`"7"`), ifNoneMatch(`W/"7"`),
	} {
		_, _, err := s.put("a", stale, optimistic.PlainOverwrite, "stale")
		s.fails(err, http.StatusPreconditionFailed, `"7"`)
	}
	for _, absent := range []optimistic.Condition{ifMatch(`"7"`), ifMatch("*"), ifMatch(`"1", "2"`)} {
		_, _, err := s.put("nobody", absent, optimistic.PlainOverwrite, "x")
		s.fails(err, http.StatusPreconditionFailed, "")
	}
	for i, good := range []optimistic.Condition{ifMatch(`"7"`), ifMatch(`"9","8"`), ifMatch("*"), ifMatch(`"1"`, `W/"10" , "10"`), ifNoneMatch(`"3"`)} {
		v, created, err := s.put("a", good, optimistic.PlainRefuse, "good")
		if s.version(v, err)(int64(8 + i)); created {
			s.Fatal("created")
		}
	}
	s.is("a", "good", 12)
}

func putPlain[T any](s *suite[T]) {
	none := optimistic.Condition{}
	_, _, err := s.put("a", none, optimistic.PlainRefuse, "x")
	s.fails(err, http.StatusPreconditionRequired, "")
	v, created, err := s.put("a", none, optimistic.PlainCreate, "created")
	if s.version(v, err)(0); !created {
		s.Fatal("not created")
	}
	_, _, err = s.put("a", none, optimistic.PlainCreate, "x")
	s.fails(err, http.StatusPreconditionRequired, "")
	v, created, err = s.put("a", none, optimistic.PlainOverwrite, "overwritten")
	if s.version(v, err)(1); created {
		s.Fatal("created")
	}
	v, created, err = s.put("b", none, optimistic.PlainOverwrite, "new")
	if s.version(v, err)(0); !created {
		s.Fatal("not created")
	}
	_, _, err = s.docs.Put(s.ctx, at("a", 1), none, optimistic.PlainOverwrite, nil)
	s.want(err, optimistic.ErrInvalid)
}

// vanish is a driver beside which somebody deletes the row before each update, as often as left says.
type vanish[T any] struct {
	tx.Driver[T]
	left *atomic.Int64
}

func (v vanish[T]) Conn() tx.Conn { return vanishConn[T]{v.Driver.Conn(), v} }

func (v vanish[T]) Wrap(t T) tx.Tx { return vanishTx[T]{v.Driver.Wrap(t), v} }

type vanishConn[T any] struct {
	tx.Conn
	vanish vanish[T]
}

func (c vanishConn[T]) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	c.vanish.before(ctx, c.Conn, query)
	return c.Conn.QueryRow(ctx, query, args...)
}

type vanishTx[T any] struct {
	tx.Tx
	vanish vanish[T]
}

func (c vanishTx[T]) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	c.vanish.before(ctx, c.Tx, query)
	return c.Tx.QueryRow(ctx, query, args...)
}

func (v vanish[T]) before(ctx context.Context, conn tx.Conn, query string) {
	if strings.HasPrefix(query, "update") && v.left.Add(-1) >= 0 {
		_, _ = conn.Exec(ctx, "delete from doc")
	}
}

func putGone[T any](s *suite[T]) {
	var left atomic.Int64
	db := s.DB.Wrapped(func(d tx.Driver[T]) tx.Driver[T] { return vanish[T]{d, &left} })
	docs := optimistic.New(db, table, &optimistic.Options{Attempts: 4})
	overwrite := func() (optimistic.Version, bool, error) {
		return docs.Put(s.ctx, optimistic.Want{Key: "a"}, optimistic.Condition{}, optimistic.PlainOverwrite, title("new"))
	}
	s.make("a", 7)
	left.Store(1)
	v, created, err := overwrite()
	if s.version(v, err)(0); !created {
		s.Error("not created")
	}
	left.Store(1)
	_, _, err = docs.Put(s.ctx, optimistic.Want{Key: "a"}, ifMatch("*"), optimistic.PlainOverwrite, title("x"))
	s.fails(err, http.StatusPreconditionFailed, "") // a condition that held no longer does
	s.exec("delete from doc")
	s.make("a", 7)
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		left.Store(1)
		_, created, err := docs.PutTx(ctx, t, optimistic.Want{Key: "a"}, optimistic.Condition{}, optimistic.PlainOverwrite, title("new"))
		if err == nil && !created {
			s.Error("not created")
		}
		return err
	}))
	s.is("a", "new", 0)
}

func putAtOnce[T any](s *suite[T]) {
	won := s.rush(func(int) error { _, _, err := s.put("a", ifNoneMatch("*"), optimistic.PlainRefuse, "x"); return err })
	if won != 1 {
		s.Fatalf("%d created", won)
	}
	if won = s.rush(func(int) error { _, _, err := s.put("a", ifMatch(`"0"`), optimistic.PlainRefuse, "x"); return err }); won != 1 {
		s.Fatalf("%d updated", won)
	}
	s.is("a", "x", 1)
}
