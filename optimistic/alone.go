package optimistic

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// lookTimeout bounds the look for a token after a reply was lost.
const lookTimeout = 5 * time.Second

// alone runs a write that is an operation by itself. On PostgreSQL it takes no transaction but that of its one statement. On
// SQLite it does: a commit that fails would be told by closing the rows, which database/sql makes easy to miss.
func (r *Rows[T]) alone(ctx context.Context, w Want, write func(context.Context, tx.Conn) (Version, error)) (v Version, err error) {
	if t, ok := r.db.Current(ctx); ok {
		return write(ctx, r.db.Tx(t))
	}
	if cause := context.Cause(ctx); cause != nil {
		return Version{}, &tx.AbortError{Err: cause}
	}
	if r.db.Dialect() == tx.PostgreSQL {
		v, err = write(ctx, r.db.Conn())
		if err == nil || ours(err) {
			return v, err
		}
		class := r.db.Classify(err)
		switch {
		case class == tx.Retryable: // the server's own default is a higher level
		case refused(class, err) && (w.Token == "" || class != tx.Permanent):
			return Version{}, &tx.AbortError{Err: err, Class: class, Attempts: 1}
		case refused(class, err): // what stands between may have made an error of a lost reply: the row knows better
			mine, v, failed := r.mine(context.WithoutCancel(ctx), w)
			switch {
			case mine:
				r.observe(ctx, EventSelfConflict, w.Key, err)
				return v, nil
			case failed != nil && !errors.Is(failed, ErrNotFound):
				return Version{}, &tx.CommitUnknownError{Err: err, Resolve: failed}
			}
			return Version{}, &tx.AbortError{Err: err, Class: class, Attempts: 1}
		default:
			return r.resolve(ctx, w, err)
		}
	}
	err = r.db.Run(ctx, tx.Plan[T]{
		Work: func(ctx context.Context, t T) (err error) {
			v, err = write(ctx, r.db.Tx(t))
			return err
		},
		Resolve: func(ctx context.Context) (holdfast.Outcome, error) {
			mine, _, err := r.mine(ctx, w)
			if mine {
				return holdfast.Applied, nil
			}
			return holdfast.Unknown, err
		},
	})
	if err != nil {
		return Version{}, err
	}
	return v, nil
}

// ours reports whether err says by itself that nothing was written.
func ours(err error) bool {
	var stated interface{ Outcome() holdfast.Outcome }
	return errors.As(err, &stated) && stated.Outcome() == holdfast.NotApplied
}

// refused reports whether err proves that a statement by itself had no effect: the server said so, or never got it.
func refused(class tx.Class, err error) bool {
	var state interface{ SQLState() string }
	return class != tx.Lost && (class != tx.Permanent || errors.As(err, &state))
}

// resolve looks for the token of a write whose reply was lost. That it is not there proves nothing: the server may come to
// the statement later.
func (r *Rows[T]) resolve(ctx context.Context, w Want, lost error) (Version, error) {
	mine, v, err := r.mine(context.WithoutCancel(ctx), w)
	if mine {
		r.observe(ctx, EventSelfConflict, w.Key, lost)
		return v, nil
	}
	return Version{}, &tx.CommitUnknownError{Err: lost, Resolve: err}
}

// mine reports whether the row carries the token of w.
func (r *Rows[T]) mine(ctx context.Context, w Want) (bool, Version, error) {
	if w.Token == "" {
		return false, Version{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	v, token, err := r.look(ctx, r.db.Conn(), w.Key)
	if err != nil {
		return false, Version{}, err
	}
	return token == w.Token, v, nil
}
