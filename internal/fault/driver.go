package fault

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/tx"
)

// Driver returns a driver of package tx that the injector breaks. It sees what patterns do: begin with the statements that
// ride with it, statements and batches through [tx.Tx], savepoints, commit, rollback. What a closure sends through the
// native transaction passes by it; the connector and the wire see that too.
//
// A cut is a rollback after which the transaction answers nothing. One that the caller began cannot be cut from here: it
// gets the errors of a lost connection.
func Driver[T any](d tx.Driver[T], in *Injector) tx.Driver[T] {
	w := &txDriver[T]{Driver: d, in: in}
	in.OnStop(w.stop)
	return w
}

type txDriver[T any] struct {
	tx.Driver[T]
	in   *Injector
	open sync.Map // any(T) to *state: the transactions that it began
}

// state is that of a transaction.
type state struct {
	mu   sync.Mutex // guards cut
	cut  bool
	undo func()
}

func (s *state) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cut {
		s.cut = true
		s.undo()
	}
}

func (s *state) gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}

func (d *txDriver[T]) stop() {
	d.open.Range(func(_, s any) bool {
		s.(*state).end()
		return true
	})
}

// Pool, Root and Listen are the optional powers of a driver. What is heard is not broken from here.
func (d *txDriver[T]) Pool() any {
	if p, ok := d.Driver.(interface{ Pool() any }); ok {
		return p.Pool()
	}
	return d.Driver
}

func (d *txDriver[T]) Root(t T) T {
	if r, ok := d.Driver.(interface{ Root(t T) T }); ok {
		return r.Root(t)
	}
	return t
}

func (d *txDriver[T]) Listen(ctx context.Context) (tx.Notifications, error) {
	if l, ok := d.Driver.(tx.Listener); ok {
		return l.Listen(ctx)
	}
	return nil, tx.ErrNoListen
}

func (d *txDriver[T]) Begin(ctx context.Context, o tx.Options, lead []*tx.Stmt) (t T, err error) {
	s := &state{cut: true, undo: func() { _ = d.Driver.Rollback(context.WithoutCancel(ctx), t) }}
	err = d.in.do("begin", allModes, s.end, func() (err error) {
		if t, err = d.Driver.Begin(ctx, o, lead); err != nil {
			return err
		}
		s.cut = false
		return nil
	})
	if err != nil {
		s.end()
		var none T
		return none, err
	}
	d.open.Store(any(t), s)
	return t, nil
}

// Commit ends the transaction whatever happens, and says of a lost reply what a driver says.
func (d *txDriver[T]) Commit(ctx context.Context, t T, tail []*tx.Stmt) error {
	s := d.take(t)
	if s == nil {
		return d.Driver.Commit(ctx, t, tail)
	}
	if s.gone() {
		return ErrUnsent
	}
	defer s.end()
	sent := false
	err := d.in.do("commit", allModes, s.end, func() error {
		s.mu.Lock()
		s.cut = true // it ends here
		s.mu.Unlock()
		err := d.Driver.Commit(ctx, t, tail)
		sent = err == nil
		return err
	})
	switch {
	case sent && err != nil, errors.Is(err, ErrUnsent), errors.Is(err, ErrCrashed):
		return &tx.CommitUnknownError{Err: err}
	}
	return err
}

func (d *txDriver[T]) Rollback(ctx context.Context, t T) error {
	s := d.take(t)
	if s == nil {
		return d.Driver.Rollback(ctx, t)
	}
	defer s.end()
	return d.in.do("rollback", allModes, s.end, func() error {
		if s.gone() {
			return nil
		}
		s.mu.Lock()
		s.cut = true
		s.mu.Unlock()
		return d.Driver.Rollback(ctx, t)
	})
}

func (d *txDriver[T]) take(t T) *state {
	s, ok := d.open.LoadAndDelete(any(t))
	if !ok {
		return nil
	}
	return s.(*state)
}

func (d *txDriver[T]) Wrap(t T) tx.Tx {
	s := &state{undo: func() {}}
	if own, ok := d.open.Load(any(t)); ok {
		s = own.(*state)
	}
	inner := d.Driver.Wrap(t)
	return txConn{Conn: inner, batch: inner.Batch, in: d.in, s: s}
}

func (d *txDriver[T]) Conn() tx.Conn {
	return txConn{Conn: d.Driver.Conn(), in: d.in, s: &state{undo: func() {}}}
}
