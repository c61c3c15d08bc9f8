package optimistic

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/tx"
)

// Set writes named columns of a row that has the version of w, increases the version, and returns the new one. It is one
// statement outside a transaction, one round trip, and two when it is refused; in a closure of a DB on the same pool it joins
// the transaction.
//
// It returns [*ConflictError], [ErrNotFound], [ErrNoVersion], [ErrInvalid], and errors of the database in a [tx.AbortError],
// which proves that nothing was written, or a [tx.CommitUnknownError] when the reply was lost: never a conflict with
// itself. With a token, the row is then looked at: if it carries the token, the write is done.
func (r *Rows[T]) Set(ctx context.Context, w Want, set map[string]any) (Version, error) {
	return r.alone(ctx, w, func(ctx context.Context, conn tx.Conn) (Version, error) { return r.set(ctx, conn, w, set) })
}

// SetTx is [Rows.Set] in a transaction of the caller's. A refusal leaves the transaction usable. Errors of the database come
// as they are.
func (r *Rows[T]) SetTx(ctx context.Context, t T, w Want, set map[string]any) (Version, error) {
	return r.set(ctx, r.db.Tx(t), w, set)
}

func (r *Rows[T]) set(ctx context.Context, conn tx.Conn, w Want, set map[string]any) (Version, error) {
	if err := r.writable(w, set); err != nil {
		return Version{}, err
	}
	query, args := r.sql.update(w, set, r.sql.version)
	return r.guarded(ctx, conn, w, query, args)
}

// writable returns what is wrong with a write of set, before anything is sent.
func (r *Rows[T]) writable(w Want, set map[string]any) error {
	if err := r.ready(w); err != nil {
		return err
	}
	if !w.Version.IsSet() {
		return ErrNoVersion
	}
	return r.columns(set)
}

// Delete deletes a row that has the version of w, and returns that version. See [Rows.Set] for the errors. What is gone
// cannot carry a token: a retry after a lost reply finds no row, and gets [ErrNotFound].
func (r *Rows[T]) Delete(ctx context.Context, w Want) (Version, error) {
	return r.alone(ctx, w, func(ctx context.Context, conn tx.Conn) (Version, error) { return r.remove(ctx, conn, w) })
}

// DeleteTx is [Rows.Delete] in a transaction of the caller's.
func (r *Rows[T]) DeleteTx(ctx context.Context, t T, w Want) (Version, error) {
	return r.remove(ctx, r.db.Tx(t), w)
}

func (r *Rows[T]) remove(ctx context.Context, conn tx.Conn, w Want) (Version, error) {
	if err := r.ready(w); err != nil {
		return Version{}, err
	}
	if !w.Version.IsSet() {
		return Version{}, ErrNoVersion
	}
	w.Token = ""
	query, args := r.sql.remove(w)
	return r.guarded(ctx, conn, w, query, args)
}

// Insert makes a row, and returns its first version. w has no version. If the row is there already it returns a
// [*ConflictError] that matches [ErrExists]; with a token, a retry of the very insert that made it gets its version. See
// [Rows.Set] for the other errors.
func (r *Rows[T]) Insert(ctx context.Context, w Want, values map[string]any) (Version, error) {
	return r.alone(ctx, w, func(ctx context.Context, conn tx.Conn) (Version, error) { return r.insert(ctx, conn, w, values) })
}

// InsertTx is [Rows.Insert] in a transaction of the caller's.
func (r *Rows[T]) InsertTx(ctx context.Context, t T, w Want, values map[string]any) (Version, error) {
	return r.insert(ctx, r.db.Tx(t), w, values)
}

func (r *Rows[T]) insert(ctx context.Context, conn tx.Conn, w Want, values map[string]any) (Version, error) {
	if err := r.ready(w); err != nil {
		return Version{}, err
	}
	if w.Version.IsSet() {
		return Version{}, invalid("a row that is to be new has no version yet: leave Want.Version unset")
	}
	if err := r.columns(values); err != nil {
		return Version{}, err
	}
	query, args := r.sql.insert(w, values, r.o.SeedVersions)
	return r.guarded(ctx, conn, w, query, args)
}

// guarded runs a statement that returns the version of the row that it matched.
func (r *Rows[T]) guarded(ctx context.Context, conn tx.Conn, w Want, query string, args []any) (Version, error) {
	var n int64
	switch err := conn.QueryRow(ctx, query, args...).Scan(&n); {
	case errors.Is(err, tx.ErrNoRows):
		return r.lost(ctx, conn, w)
	case err != nil:
		return Version{}, explain(err)
	}
	r.mark(ctx, w)
	return At(n), nil
}
