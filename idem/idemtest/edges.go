package idemtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

func edgeRules[T any]() []rule[T] {
	return []rule[T]{
		{"InsideItself", "a key that is called from its own closure is in flight, through whatever Keys, and is told so", insideItself[T]},
		{"InsideAnotherTable", "keys of two tables that are equal nest", insideAnotherTable[T]},
		{"Discard", "a closure that returns tx.ErrDiscard is not told that its work was done", discards[T]},
		{"Interface", "a result of an interface type is replayed whatever it holds", interfaces[T]},
		{"FailureBytes", "a failure comes back byte for byte, and without its body above the limit", failureBytes[T]},
		{"ConflictOfAnother", "a conflict of another database that a closure returns undoes the savepoint of the caller's transaction", conflictOfAnother[T]},
		{"TerminalConflict", "a conflict is no answer, also where the closure takes it for a final failure: it runs again", terminalConflict[T]},
		{"JoinedConflict", "a conflict inside a joined call starts the outermost closure over, even if it is dropped", joinedConflict[T]},
	}
}

func insideItself[T any](s *suite[T]) {
	for _, level := range s.levels() {
		db := s.DB.With(tx.Options{Isolation: level})
		outer := idem.New(db, nil)
		others := map[string]*idem.Keys[T]{
			"the same": outer, "another": idem.New(s.DB, nil), "one that waits": idem.New(db, &idem.Options{Wait: time.Hour}),
		}
		if s.DB.Dialect().Capabilities.Schemas {
			var schema string
			s.must(s.DB.Conn().QueryRow(s.ctx, "select current_schema()").Scan(&schema))
			others["one that names the schema"] = idem.New(db, &idem.Options{Schema: schema, AllowReuse: true})
		}
		for what, inner := range others {
			name, runs := fmt.Sprint(what, " at ", level), &counter{}
			refused := func(err error) {
				var inFlight *idem.InFlightError
				if !errors.As(err, &inFlight) || !inFlight.Nested || !strings.Contains(err.Error(), "inside") {
					s.Errorf("%s: got %v", name, err)
				}
			}
			_, err := idem.Do(s.ctx, outer, key(name), func(ctx context.Context, t T) (int, error) {
				runs.add()
				_, err := idem.Do(ctx, inner, key(name), work(s, "inner", runs, 1))
				refused(err)
				_, err = idem.DoTx(ctx, inner, t, key(name), work(s, "inner", runs, 1))
				refused(err)
				_, err = idem.Do(ctx, inner, key(name+" in between"), func(ctx context.Context, t T) (int, error) {
					_, err := idem.DoTx(ctx, inner, t, key(name), work(s, "inner", runs, 1))
					refused(err)
					return 1, nil
				})
				return 1, errors.Join(err, s.apply(ctx, t, name))
			})
			s.must(err)
			s.count(runs, 1)
			s.wantEffects(name, 1)
		}
	}
	f := s.begin()
	_, err := idem.DoTx(s.ctx, idem.New(s.DB, nil), f.Tx, key("foreign"), func(ctx context.Context, t T) (int, error) {
		_, err := idem.DoTx(ctx, idem.New(s.DB, nil), t, key("foreign"), work(s, "inner", &counter{}, 1))
		s.want(err, idem.ErrInFlight)
		return 1, nil
	})
	s.must(errors.Join(err, f.Commit(s.ctx)))
	s.wantEffects("inner", 0)
}

func insideAnotherTable[T any](s *suite[T]) {
	s.must(idem.Migrate(s.ctx, s.DB, idem.Names{Keys: "other"}))
	outer, inner := idem.New(s.DB, nil), idem.New(s.DB, &idem.Options{Table: "other"})
	for i := range 2 {
		res, err := idem.Do(s.ctx, outer, key("nest"), func(ctx context.Context, _ T) (string, error) {
			res, err := idem.Do(ctx, inner, key("nest"), work(s, "nest", &counter{}, "inner"))
			return res.Value, err
		})
		if err != nil || res.Value != "inner" || res.Replayed != (i > 0) {
			s.Fatalf("got %+v, %v", res, err)
		}
	}
	s.wantEffects("nest", 1)
}

func discards[T any](s *suite[T]) {
	keys, inbox := idem.New(s.DB, nil), idem.NewInbox(s.DB, "c", nil)
	discard := func(ctx context.Context, t T) error {
		return errors.Join(s.apply(ctx, t, "discarded"), tx.ErrDiscard)
	}
	_, err := idem.Do(s.ctx, keys, key("discard"), func(ctx context.Context, t T) (int, error) { return 1, discard(ctx, t) })
	handled, inboxErr := inbox.Do(s.ctx, "m", discard)
	ids, batchErr := inbox.DoBatch(s.ctx, []string{"m"}, func(ctx context.Context, t T, _ []string) error { return discard(ctx, t) })
	for _, err := range []error{err, inboxErr, batchErr, s.DB.Do(s.ctx, discard)} {
		if err == nil {
			s.Error("a discarded transaction was told as done")
		}
	}
	if handled || len(ids) > 0 {
		s.Errorf("handled %v, %v", handled, ids)
	}
	s.wantEffects("discarded", 0)
}

func interfaces[T any](s *suite[T]) {
	for name, value := range map[string]any{"bytes": []byte("raw"), "text": "text", "nil": nil} {
		for range 2 {
			res, err := idem.Do(s.ctx, idem.New(s.DB, nil), key(name), func(context.Context, T) (any, error) { return value, nil })
			if err != nil || res.Body == nil {
				s.Fatalf("%s: got %+v, %v", name, res, err)
			}
		}
	}
}

func failureBytes[T any](s *suite[T]) {
	keys := idem.New(s.DB, &idem.Options{MaxBody: 16})
	for name, f := range map[string]*idem.Failure{
		"strange": {Status: 422, Message: "\xff\x00é", Body: []byte{}}, "no body": {Status: 422}, "large": {Status: 422, Body: []byte(strings.Repeat("x", 17))},
	} {
		for i := range 2 {
			_, err := idem.Do(s.ctx, keys, key(name), func(context.Context, T) (int, error) { return 0, f })
			var got *idem.Failure
			if !errors.As(err, &got) || got.Status != f.Status || got.Message != f.Message {
				s.Fatalf("%s: got %#v", name, err)
			}
			want := f.Body
			if i == 1 && len(want) > 16 {
				want = nil
			}
			if string(got.Body) != string(want) || (got.Body == nil) != (want == nil) {
				s.Fatalf("%s, call %d: got the body %q", name, i+1, got.Body)
			}
		}
	}
}

func conflictOfAnother[T any](s *suite[T]) {
	f := s.begin()
	conflict := &tx.AbortError{Err: errPlain, Class: tx.Retryable}
	err := s.DB.Nested(s.ctx, f.Tx, func(ctx context.Context, t T) error {
		return errors.Join(s.apply(ctx, t, "nested"), conflict)
	})
	s.want(err, errPlain)
	s.must(f.Commit(s.ctx))
	s.wantEffects("nested", 0)
}

func joinedConflict[T any](s *suite[T]) {
	keys, attempts := idem.New(s.DB, nil), &counter{}
	conflict := &stateError{"40001"}
	err := s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		attempts.add()
		_, _ = idem.Do(ctx, keys, key("joined conflict"), func(ctx context.Context, t T) (int, error) {
			if attempts.get() == 1 {
				return 0, conflict
			}
			return 1, s.apply(ctx, t, "joined conflict")
		})
		return nil // the closure does not look
	})
	s.must(err)
	s.count(attempts, 2)
	s.wantEffects("joined conflict", 1)
}

// stateError is an error of a server.
type stateError struct{ state string }

func (e *stateError) Error() string    { return "server error " + e.state }
func (e *stateError) SQLState() string { return e.state }

func terminalConflict[T any](s *suite[T]) {
	keys := idem.New(s.DB, nil)
	for name, final := range map[string]func(error) error{
		"terminal": idem.Terminal,
		"joined":   func(err error) error { return errors.Join(&idem.Failure{Status: 402}, err) },
	} {
		runs := &counter{}
		fn := func(ctx context.Context, t T) (int, error) {
			if runs.add(); runs.get() == 1 {
				return 0, final(&stateError{"40001"})
			}
			return 1, s.apply(ctx, t, name)
		}
		res, err := idem.Do(s.ctx, keys, key(name), fn)
		if err != nil || res.Value != 1 {
			s.Errorf("%s: got %+v, %v", name, res, err)
		}
		s.count(runs, 2)
		s.wantEffects(name, 1)

		f := s.begin()
		_, err = idem.DoTx(s.ctx, keys, f.Tx, key(name+" in the caller's"), func(context.Context, T) (int, error) { return 0, final(&stateError{"40001"}) })
		s.must(errors.Join(f.Rollback(s.ctx)))
		if s.DB.Classify(err) != tx.Retryable {
			s.Errorf("%s in the caller's: got %v", name, err)
		}

		handled := &counter{}
		w := s.serve(nil, nil, func(http.ResponseWriter, *http.Request, T) error {
			if handled.add(); handled.get() == 1 {
				return final(&stateError{"40001"})
			}
			return nil
		})
		w.answer(name, w.post(name, ""), http.StatusOK, "", false)

		// That of another database is for the closure to judge.
		other := s.serve(nil, nil, func(http.ResponseWriter, *http.Request, T) error {
			return final(&tx.AbortError{Err: errPlain, Class: tx.Retryable})
		})
		first, again := other.post(name+" of another", ""), other.post(name+" of another", "")
		if first.Code != again.Code || first.Body.String() != again.Body.String() || again.Header().Get(marker) == "" {
			s.Errorf("%s of another database: got %d %s, then %d %s", name, first.Code, first.Body, again.Code, again.Body)
		}
	}
}
