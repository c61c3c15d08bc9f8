package txtest

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

func listenRules[T any]() []rule[T] {
	return []rule[T]{
		{
			name: "listen", rule: "What is sent to a channel is heard by who listens on it then, whatever the names and payloads.",
			conns: 1, check: listening(heard[T]),
		},
		{
			name: "listen interrupted", rule: "The end of a wait for a notification loses none, and the connection goes on.",
			check: listening(heardLater[T]),
		},
		{
			name: "listen refused", rule: "A channel that cannot be listened on as it is spelled is refused, and not another in its place.",
			check: listening(unheardOf[T]),
		},
		{
			name: "no notifications", rule: "An engine without notifications says so.",
			needs: func(c tx.Capabilities) bool { return !c.Notifications }, check: nobodyListens[T],
		},
		{name: "pool", rule: "DBs of one pool tell that they are.", check: onePool[T]},
	}
}

// listening runs check with notifications, and for an adapter that has none only finds out that it says so.
func listening[T any](check func(f *fixture[T], n tx.Notifications)) func(*fixture[T]) {
	return func(f *fixture[T]) {
		n, err := f.DB.Listen(f.ctx)
		if errors.Is(err, tx.ErrNoListen) {
			f.Logf("does not apply: the adapter is no tx.Listener")
			return
		}
		f.must(err)
		defer func() { f.check(n.Close()) }()
		check(f, n)
	}
}

func heard[T any](f *fixture[T], n tx.Notifications) {
	for _, channel := range []string{
		"holdfast_txtest", "Upper And Lower", `a"b`, `'; drop table account; --`, "$1", "ünïcödé", "*", strings.Repeat("x", 63),
	} {
		f.must(n.Listen(f.ctx, channel))
		f.must(n.Listen(f.ctx, channel)) // again
		for _, payload := range []string{"", "plain", `"'\$1`, "ünïcödé\n", strings.Repeat("y", 7999)} {
			f.must(f.DB.Notify(f.ctx, channel, payload)) // on the one connection of the pool
			if c, p, err := n.Next(f.ctx); c != channel || p != payload || err != nil {
				f.Fatalf("heard %q on %q, %v, and %q was sent to %q", p, c, err, payload, channel)
			}
		}
		f.must(n.Unlisten(f.ctx, channel))
		f.must(f.DB.Notify(f.ctx, channel, "to nobody"))
	}
	f.must(n.Listen(f.ctx, "holdfast_txtest"))
	f.must(f.DB.Notify(f.ctx, "holdfast_txtest", "last"))
	if c, p, err := n.Next(f.ctx); c != "holdfast_txtest" || p != "last" || err != nil {
		f.Errorf("heard %q on %q, %v, after nobody listened", p, c, err)
	}
}

func heardLater[T any](f *fixture[T], n tx.Notifications) {
	const channel = "holdfast_txtest_later"
	f.must(n.Listen(f.ctx, channel))
	for range 20 {
		ctx, cancel := context.WithCancel(f.ctx)
		waited := make(chan error, 1)
		go func() {
			_, _, err := n.Next(ctx)
			waited <- err
		}()
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			f.Fatalf("the wait ended with %v", err)
		}
	}
	f.must(f.DB.Notify(f.ctx, channel, "one"))
	f.must(f.DB.Notify(f.ctx, channel, "two"))
	f.must(n.Listen(f.ctx, channel)) // whose answer comes behind both
	f.must(f.DB.Notify(f.ctx, channel, "three"))
	for _, want := range []string{"one", "two", "three"} {
		if _, p, err := n.Next(f.ctx); p != want || err != nil {
			f.Fatalf("heard %q, %v, want %q", p, err, want)
		}
	}
}

func unheardOf[T any](f *fixture[T], n tx.Notifications) {
	for _, channel := range []string{"", strings.Repeat("x", 64), "a\x00b", "a\xffb"} {
		if err := n.Listen(f.ctx, channel); err == nil {
			f.Errorf("listens on %q", channel)
		}
	}
}

func nobodyListens[T any](f *fixture[T]) {
	if _, err := f.DB.Listen(f.ctx); !errors.Is(err, tx.ErrNoListen) || !errors.Is(err, errors.ErrUnsupported) {
		f.Errorf("Listen: %v", err)
	}
	if err := f.DB.Notify(f.ctx, "holdfast_txtest", ""); !errors.Is(err, tx.ErrNoListen) {
		f.Errorf("Notify: %v", err)
	}
}

func onePool[T any](f *fixture[T]) {
	for _, other := range []*tx.DB[T]{f.Twin, f.DB.With(tx.Options{Attempts: 1}), f.DB.Observed(nil)} {
		if other.Pool() != f.DB.Pool() {
			f.Error("two DBs of one pool have different ones")
		}
	}
}
