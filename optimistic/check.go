package optimistic

import (
	"context"
	"database/sql"
	"errors"

	"github.com/holdfast-go/holdfast/tx"
)

// Where returns the predicate for a statement of the caller's own: the key and the version, compared with the placeholders
// given, as in
//
//	"update document set title = $3, " + docs.Bump() + " where " + docs.Where("$1", "$2")
//
// It is a fixed text. Code that is generated from SQL files has the same written out.
func (r *Rows[T]) Where(key, version string) string {
	return r.sql.key + " = " + key + " and " + r.sql.version + " = " + version
}

// Bump returns "version = version + 1" for the set clause of a statement of the caller's own.
func (r *Rows[T]) Bump() string { return r.sql.version + " = " + r.sql.version + " + 1" }

// Affected makes of the result of a guarded statement, the number of rows that it affected and its error, what it means. It
// costs nothing if a row was affected, and one statement otherwise:
//
//	n, err := queries.RenameDocument(ctx, t, …) // :execrows
//	version, err := docs.Affected(ctx, t, want, n, err)
//
// It returns the new version, which is the one of w plus 1, and for [Any] unset; or [*ConflictError], [ErrNotFound],
// [ErrNoVersion], [ErrUnmatched], [ErrInvalid] when several rows were affected, and the error of the statement as it is: at
// REPEATABLE READ and SERIALIZABLE a lost race is a serialization failure, and not ErrConflict. Return it from the closure,
// so that the rest is not committed.
func (r *Rows[T]) Affected(ctx context.Context, t T, w Want, n int64, err error) (Version, error) {
	switch ready := r.ready(w); {
	case errors.Is(err, ErrNoVersion), !w.Version.IsSet():
		return Version{}, ErrNoVersion
	case err != nil:
		return Version{}, err
	case ready != nil:
		return Version{}, ready
	case n > 1:
		return Version{}, invalid("the statement affected %d rows: its key is not unique, or it lacks the predicate", n)
	case n == 1:
		return w.Version.next(), nil
	}
	return r.lost(ctx, r.db.Tx(t), w)
}

// Returned is [Rows.Affected] for a statement with a RETURNING clause: err is that of its Scan. "No rows" of package tx, of
// database/sql and of pgx all mean that none was affected. Whoever returns the version from the statement has it from there.
func (r *Rows[T]) Returned(ctx context.Context, t T, w Want, err error) (Version, error) {
	switch {
	case err == nil:
		return r.Affected(ctx, t, w, 1, nil)
	case errors.Is(err, tx.ErrNoRows), errors.Is(err, sql.ErrNoRows): // that of pgx is one too
		return r.Affected(ctx, t, w, 0, nil)
	}
	return r.Affected(ctx, t, w, 0, err)
}

func (v Version) next() Version {
	if n, ok := v.Int64(); ok {
		return At(n + 1)
	}
	return Version{}
}

// lost finds out why a statement matched no row.
func (r *Rows[T]) lost(ctx context.Context, conn tx.Conn, w Want) (Version, error) {
	current, token, err := r.look(ctx, conn, w.Key)
	if err != nil {
		return Version{}, err
	}
	return r.judge(ctx, w, current, token)
}

// judge tells what a row that was not written means for w.
func (r *Rows[T]) judge(ctx context.Context, w Want, current Version, token string) (Version, error) {
	switch {
	case w.Token != "" && token == w.Token:
		r.observe(ctx, EventSelfConflict, w.Key, nil)
		return current, nil
	case w.Version == current || w.Version == Any():
		return Version{}, ErrUnmatched
	}
	err := &ConflictError{Table: r.table.Name, Key: w.Key, Expected: w.Version, Current: current}
	r.observe(ctx, EventConflict, w.Key, err)
	return Version{}, err
}

func (r *Rows[T]) look(ctx context.Context, conn tx.Conn, key any) (current Version, token string, err error) {
	var n int64
	err = conn.QueryRow(ctx, r.sql.look, key).Scan(&n, &token)
	if errors.Is(err, tx.ErrNoRows) {
		return Version{}, "", ErrNotFound
	}
	return At(n), token, explain(err)
}
