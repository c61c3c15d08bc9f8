package idem_test

import (
	"context"
	"errors"
	"runtime"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// An endCase is one way for a call to end.
type endCase[T any] struct {
	name string
	run  func(l *leaks[T], v verb[T], key string)
}

func endCases[T any]() []endCase[T] {
	ends := func(name string, want error, end func(cancel func()) error) endCase[T] {
		return endCase[T]{name, func(l *leaks[T], v verb[T], key string) {
			l.call(v, key, want, end)
		}}
	}
	return []endCase[T]{
		ends("success", nil, func(func()) error { return nil }),
		ends("error", errPlain, func(func()) error { return errPlain }),
		ends("failure", idem.ErrFailed, func(func()) error { return &idem.Failure{Status: 402} }),
		ends("panic", nil, func(func()) error { panic(errPlain) }),
		ends("Goexit", nil, func(func()) error { runtime.Goexit(); return nil }),
		ends("cancelled inside", context.Canceled, func(cancel func()) error { cancel(); return context.Canceled }),
		{"cancelled before", func(l *leaks[T], v verb[T], key string) {
			ctx, cancel := context.WithCancel(l.Context())
			cancel()
			if err := v(ctx, key, func(context.Context, T) error { return nil }); !errors.Is(err, context.Canceled) {
				l.Errorf("%s: got %v", key, err)
			}
		}},
		{"cancelled after", func(l *leaks[T], v verb[T], key string) {
			ctx, cancel := context.WithCancel(l.Context())
			// A transaction of the caller's cannot store the answer then, and one of ours commits.
			if err := v(ctx, key, func(context.Context, T) error { cancel(); return nil }); err != nil && !errors.Is(err, context.Canceled) {
				l.Errorf("%s: got %v", key, err)
			}
		}},
		{"replay", func(l *leaks[T], v verb[T], key string) {
			for range 3 {
				l.call(v, key, nil, func(func()) error { return nil })
			}
		}},
		{"mismatch", func(l *leaks[T], v verb[T], key string) {
			other := leftKey(key)
			other.Fingerprint = idem.FingerprintOf("another")
			if _, err := idem.Do(l.Context(), l.keys, other, value(func(context.Context, T) error { return nil })); err != nil {
				l.Errorf("%s: got %v", key, err)
			}
			if err := v(l.Context(), key, func(context.Context, T) error { return nil }); err != nil && !errors.Is(err, idem.ErrMismatch) {
				l.Errorf("%s: got %v", key, err)
			}
		}},
		{"lost reply to the commit", func(l *leaks[T], v verb[T], key string) {
			if l.proxy == nil {
				return // there is no reply to lose
			}
			for _, cut := range []*wire.Hook{l.proxy.CutReplyTo(wire.Runs("commit")), nil} {
				_ = v(l.Context(), key, func(ctx context.Context, t T) error { return l.apply(ctx, t, key, "") })
				if cut != nil && cut.Hits() != 1 {
					l.Errorf("%s: %d cuts", key, cut.Hits())
				}
			}
		}},
	}
}

// call makes one call on a goroutine of its own, which its closure may end, and checks the error if the call returns.
func (l *leaks[T]) call(v verb[T], key string, want error, end func(cancel func()) error) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		err := v(ctx, key, func(ctx context.Context, t T) error {
			if err := l.apply(ctx, t, key, ""); err != nil {
				return err
			}
			return end(cancel)
		})
		if !errors.Is(err, want) {
			l.Errorf("%s: got %v, want %v", key, err, want)
		}
	}()
	<-done
}
