package optimistic

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfast-go/holdfast/tx"
)

// A PlainPut is what becomes of a PUT without a precondition.
type PlainPut int

const (
	// PlainRefuse refuses it with [ErrRequired], status 428.
	PlainRefuse PlainPut = iota
	// PlainCreate creates what is not there, and refuses to overwrite what is, with [ErrRequired].
	PlainCreate
	// PlainOverwrite creates, or overwrites whatever is there: the last one wins, and loses what others wrote.
	PlainOverwrite
)

// Put creates or updates the row that a stable URL names. If-None-Match: * creates it; If-Match updates the version that it
// names, one of several, or any for *. plain says what happens without either. created tells 201 from 200; for a retry with
// a token of a write that overwrote, it cannot, and says 201.
//
// A precondition that fails is a [*PreconditionError] with the current version, status 412, also where If-Match meets no
// row. A row that is made and deleted again and again, between the statements of a Put that overwrites, is a [*ContendedError] after
// Options.Attempts. See [Rows.Set] for the other errors. w has no version, since the condition has it. Outside a transaction it takes one
// statement for a create or an update of one version.
func (r *Rows[T]) Put(ctx context.Context, w Want, c Condition, plain PlainPut, values map[string]any) (v Version, created bool, err error) {
	v, err = r.alone(ctx, w, func(ctx context.Context, conn tx.Conn) (v Version, err error) {
		v, created, err = r.put(ctx, conn, w, c, plain, values)
		return v, err
	})
	return v, created && err == nil, err
}

// PutTx is [Rows.Put] in a transaction of the caller's.
func (r *Rows[T]) PutTx(ctx context.Context, t T, w Want, c Condition, plain PlainPut, values map[string]any) (v Version, created bool, err error) {
	return r.put(ctx, r.db.Tx(t), w, c, plain, values)
}

func (r *Rows[T]) put(ctx context.Context, conn tx.Conn, w Want, c Condition, plain PlainPut, values map[string]any) (v Version, created bool, err error) {
	if w.Version.IsSet() {
		return v, false, invalid("the condition says which version a Put is for: leave Want.Version unset")
	}
	if c.Empty() || c.Creates() {
		return r.putPlain(ctx, conn, w, c, plain, values)
	}
	if w.Version, err = r.choose(ctx, conn, w, c); err != nil {
		return Version{}, false, err
	}
	if !w.Version.IsSet() {
		v, err = r.insert(ctx, conn, w, values)
		return v, err == nil, failed(err)
	}
	v, err = r.set(ctx, conn, w, values)
	return v, false, failed(err)
}

// putPlain creates, or does what plain says to a row that is there. One that is deleted in that moment is created.
func (r *Rows[T]) putPlain(ctx context.Context, conn tx.Conn, w Want, c Condition, plain PlainPut, values map[string]any) (v Version, created bool, err error) {
	if c.Empty() && plain == PlainRefuse {
		return v, false, ErrRequired
	}
	for range r.o.Attempts {
		w.Version = Version{}
		v, err = r.insert(ctx, conn, w, values)
		switch {
		case !errors.Is(err, ErrExists):
			return v, err == nil, err
		case c.Creates():
			return Version{}, false, failed(err)
		case plain == PlainCreate:
			return Version{}, false, ErrRequired
		}
		w.Version = Any()
		if v, err = r.set(ctx, conn, w, values); !errors.Is(err, ErrNotFound) {
			return v, false, failed(err)
		}
	}
	return Version{}, false, r.gaveUp(ctx, w.Key, &ContendedError{Attempts: r.o.Attempts, Stop: ErrAttempts, Last: err})
}

// choose returns the version that an update under c is for.
func (r *Rows[T]) choose(ctx context.Context, conn tx.Conn, w Want, c Condition) (Version, error) {
	if v := c.Version(); v.IsSet() && len(c.none) == 0 && !c.anyNone {
		return v, nil
	}
	if err := r.ready(w); err != nil {
		return Version{}, err
	}
	current, token, err := r.look(ctx, conn, w.Key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Version{}, err
	}
	if w.Token != "" && token == w.Token {
		return current, nil // a retry: the write finds that it was done
	}
	if c.Evaluate(http.MethodPut, current) != 0 {
		return Version{}, &PreconditionError{Current: current}
	}
	return current, nil // unset if there is no row, which If-None-Match with other versions allows
}

// failed makes a failed precondition of a conflict, and of a row that is not there.
func failed(err error) error {
	var conflict *ConflictError
	switch {
	case errors.As(err, &conflict):
		return &PreconditionError{Current: conflict.Current, Err: err}
	case errors.Is(err, ErrNotFound):
		return &PreconditionError{Err: err}
	}
	return err
}
