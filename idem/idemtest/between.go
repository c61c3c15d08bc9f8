package idemtest

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

func betweenRules[T any]() []rule[T] {
	return []rule[T]{
		{"GoneInBetween", "an answer that expires or is removed while a claim is under way keeps nobody from the key", goneInBetween[T]},
	}
}

// between returns the database with something that happens after the first statement of each batch, be it one that rides
// with BEGIN.
func (s *suite[T]) between(happens func()) *tx.DB[T] {
	return s.DB.Wrapped(func(d tx.Driver[T]) tx.Driver[T] { return &betweenDriver[T]{d, happens} })
}

type betweenDriver[T any] struct {
	tx.Driver[T]
	happens func()
}

func (d *betweenDriver[T]) Pool() any {
	if p, ok := d.Driver.(interface{ Pool() any }); ok {
		return p.Pool()
	}
	return d.Driver
}

func (d *betweenDriver[T]) Root(t T) T {
	if r, ok := d.Driver.(interface{ Root(t T) T }); ok {
		return r.Root(t)
	}
	return t
}

func (d *betweenDriver[T]) Begin(ctx context.Context, o tx.Options, lead []*tx.Stmt) (t T, err error) {
	if t, err = d.Driver.Begin(ctx, o, nil); err != nil {
		return t, err
	}
	if err = d.Wrap(t).Batch(ctx, lead...); err != nil {
		_ = d.Rollback(ctx, t)
	}
	return t, err
}

func (d *betweenDriver[T]) Wrap(t T) tx.Tx { return betweenTx{d.Driver.Wrap(t), d.happens} }

type betweenTx struct {
	tx.Tx
	happens func()
}

func (t betweenTx) Batch(ctx context.Context, stmts ...*tx.Stmt) error {
	if len(stmts) < 2 {
		return t.Tx.Batch(ctx, stmts...)
	}
	if err := t.Tx.Batch(ctx, stmts[0]); err != nil {
		return err
	}
	t.happens()
	return t.Tx.Batch(ctx, stmts[1:]...)
}

func goneInBetween[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		s.Log("one writer at a time: nothing happens in between")
		return
	}
	for what, c := range map[string]struct {
		happens string
		keys    *idem.Options
	}{
		"expires": {"update idem_key set expires_at = created_at", &idem.Options{AllowReuse: true}},
		"buried":  {"update idem_key set state = 4, body = null, expires_at = created_at", &idem.Options{AllowReuse: true}},
		"removed": {"delete from idem_key", nil},
	} {
		for _, level := range s.levels() {
			var armed atomic.Bool
			db := s.between(func() {
				if armed.CompareAndSwap(true, false) {
					s.exec(c.happens)
				}
			}).With(tx.Options{Isolation: level})
			first := func(k string) {
				_, err := idem.Do(s.ctx, idem.New(s.DB, nil), key(k), work(s, k, &counter{}, 1))
				s.must(err)
				armed.Store(true)
			}
			name := what + " at " + level.String()
			first(name)
			res, err := idem.Do(s.ctx, idem.New(db, c.keys), key(name), work(s, name, &counter{}, 2))
			if level > tx.ReadCommitted && err == nil && res.Replayed { // it answers by its snapshot
				continue
			}
			if err != nil || res.Value != 2 {
				s.Fatalf("%s: got %+v, %v", name, res, err)
			}
			s.wantEffects(name, 2)
			if level > tx.ReadCommitted {
				continue
			}
			inCallers := name + ", in the caller's transaction"
			first(inCallers)
			f := s.begin()
			res, err = idem.DoTx(s.ctx, idem.New(db, c.keys), f.Tx, key(inCallers), work(s, inCallers, &counter{}, 2))
			if err != nil || res.Value != 2 {
				s.Fatalf("%s: got %+v, %v", inCallers, res, err)
			}
			s.must(f.Commit(s.ctx))
			s.wantEffects(inCallers, 2)
		}
	}
}
