package tx

import "context"

// The statements of a savepoint. One name serves every depth, since SQL finds the innermost savepoint of a name: each
// use sets it, and releases it before the one outside is touched again. A fixed text stays in statement caches.
const (
	SetSavepoint     = "savepoint holdfast"
	BackToSavepoint  = "rollback to savepoint holdfast"
	ReleaseSavepoint = "release savepoint holdfast"
)

// Nested runs fn inside a savepoint of t and undoes what fn did if it returns an error, panics or calls
// runtime.Goexit; t stays usable. t may be a transaction that the caller began. Nested never runs fn again. An error
// that only a fresh transaction can cure is kept, and [DB.Do] starts over whatever the closure makes of it.
//
// Nested returns the error of fn, or that of the savepoint statements.
func (db *DB[T]) Nested(ctx context.Context, t T, fn func(ctx context.Context, t T) error) error {
	if fn == nil {
		return ErrNilFunc
	}
	return db.nested(ctx, t, nil, fn)
}

func (db *DB[T]) nested(ctx context.Context, t T, lead []*Stmt, fn func(context.Context, T) error) (err error) {
	conn := db.driver.Wrap(t)
	s := db.around(ctx, t)
	var deferred, hooks int
	if s != nil {
		deferred, hooks = s.mark()
	}
	returned, set := false, &Stmt{SQL: SetSavepoint, Affected: -1}
	defer func() {
		if returned && err == nil {
			return
		}
		if s != nil {
			s.reset(deferred, hooks)
		}
		// The outermost Do starts over, where there is one. Without a savepoint of our own we would return to that of the
		// closure outside.
		if db.doom(s, err) && s != nil || set.Affected < 0 {
			return
		}
		dctx, cancel := db.detach(ctx)
		defer cancel()
		if err := conn.Batch(dctx, &Stmt{SQL: BackToSavepoint}, &Stmt{SQL: ReleaseSavepoint}); err != nil {
			s.spoil(err)
		}
	}()
	if err := conn.Batch(ctx, append([]*Stmt{set}, lead...)...); err != nil {
		return err
	}
	err = fn(s.enter(ctx), t)
	returned = true
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, ReleaseSavepoint)
	return err
}

// doom reports whether only a fresh transaction can cure err, and makes the outermost Do begin one.
func (db *DB[T]) doom(s *scope, err error) bool {
	if !db.conflict(err) {
		return false
	}
	if s != nil && s.doomed == nil {
		s.doomed = err
	}
	return true
}
