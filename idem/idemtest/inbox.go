package idemtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

func inboxRules[T any]() []rule[T] {
	return []rule[T]{
		{"InboxOnce", "each consumer handles a message once", inboxOnce[T]},
		{"InboxFailure", "a handler that fails or panics leaves no mark: no message is lost, and it is a duplicate only once it is handled", inboxFailure[T]},
		{"InboxTogether", "deliveries at once are handled once", inboxTogether[T]},
		{"InboxBatch", "a batch hands over what is new, once and in order", inboxBatch[T]},
		{"InboxBatchesTogether", "overlapping batches neither handle twice nor deadlock", inboxBatches[T]},
		{"InboxBatchBesideSingles", "a message that comes in a batch and alone at once is handled once", inboxBeside[T]},
		{"InboxForeign", "in the caller's transaction, marks live and die with it", inboxForeign[T]},
		{"InboxBadIDs", "an unusable ID is a KeyError", inboxBadIDs[T]},
		{"InboxSweep", "expired IDs are removed", inboxSweep[T]},
	}
}

func inboxOnce[T any](s *suite[T]) {
	heard := &events{}
	ctx := holdfast.WithCorrelationID(s.ctx, "evt")
	for _, consumer := range []string{"mail", "ledger"} {
		inbox := idem.NewInbox(s.DB, consumer, &idem.InboxOptions{Observer: heard})
		s.must(inbox.Check(ctx))
		for i := range 3 {
			handled, err := inbox.Do(ctx, "event-1", func(ctx context.Context, t T) error { return s.apply(ctx, t, consumer) })
			s.must(err)
			if handled != (i == 0) {
				s.Fatalf("%s: delivery %d handled: %v", consumer, i, handled)
			}
		}
		s.wantEffects(consumer, 1)
		if got := heard.kinds(s, "evt"); got != "idem.received idem.duplicate idem.duplicate " {
			s.Fatalf("heard %q", got)
		}
	}
}

func inboxFailure[T any](s *suite[T]) {
	inbox := idem.NewInbox(s.DB, "c", nil)
	for range 2 {
		handled, err := inbox.Do(s.ctx, "m", func(ctx context.Context, t T) error {
			s.must(s.apply(ctx, t, "failed"))
			return errPlain
		})
		if s.want(err, errPlain); handled {
			s.Fatal("handled")
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = inbox.Do(s.ctx, "m", func(ctx context.Context, t T) error { panic("boom") })
	}()
	for i := range 2 {
		handled, err := inbox.Do(s.ctx, "m", func(ctx context.Context, t T) error { return s.apply(ctx, t, "handled") })
		s.must(err)
		if handled != (i == 0) {
			s.Fatalf("delivery %d after the failures: handled %v", i+1, handled)
		}
	}
	s.wantEffects("failed", 0)
	s.wantEffects("handled", 1)
}

func inboxTogether[T any](s *suite[T]) {
	for _, wait := range []time.Duration{0, time.Minute} {
		name := fmt.Sprint("storm ", wait)
		inbox := idem.NewInbox(s.DB, "c", &idem.InboxOptions{Wait: wait})
		var wg sync.WaitGroup
		var handled counter
		for range 24 {
			wg.Go(func() {
				ok, err := inbox.Do(s.ctx, name, func(ctx context.Context, t T) error {
					for range 3 {
						if err := s.apply(ctx, t, name); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil && (wait > 0 || !errors.Is(err, idem.ErrInFlight)) {
					s.Error(err)
				}
				if ok {
					handled.add()
				}
			})
		}
		wg.Wait()
		s.count(&handled, 1)
		s.wantEffects(name, 3)
	}
}

func inboxBatch[T any](s *suite[T]) {
	inbox := idem.NewInbox(s.DB, "c", nil)
	none, err := inbox.DoBatch(s.ctx, nil, func(context.Context, T, []string) error { return errPlain })
	s.must(err)
	if len(none) != 0 {
		s.Fatalf("handled %v", none)
	}
	ids := []string{"z", "a", `quote"'`, "z", "é", "a,b", "{x}", "m"}
	want := []string{"z", "a", `quote"'`, "é", "a,b", "{x}", "m"}
	_, err = inbox.DoBatch(s.ctx, ids, func(context.Context, T, []string) error { return errPlain })
	s.want(err, errPlain)
	for i := range 2 {
		got, err := inbox.DoBatch(s.ctx, ids, func(ctx context.Context, t T, fresh []string) error {
			for _, id := range fresh {
				if err := s.apply(ctx, t, "batch "+id); err != nil {
					return err
				}
			}
			return nil
		})
		s.must(err)
		if i == 0 && !slices.Equal(got, want) || i == 1 && len(got) != 0 {
			s.Fatalf("pass %d: got %q", i, got)
		}
	}
	for _, id := range want {
		s.wantEffects("batch "+id, 1)
	}
	got, err := inbox.DoBatch(s.ctx, []string{"m", "new"}, func(context.Context, T, []string) error { return nil })
	s.must(err)
	if !slices.Equal(got, []string{"new"}) {
		s.Fatalf("got %q", got)
	}
}

func inboxBatches[T any](s *suite[T]) {
	inbox := idem.NewInbox(s.DB.With(tx.Options{Attempts: 1}), "c", nil) // a deadlock must not hide behind a retry
	ids := make([]string, 600)
	for i := range ids {
		ids[i] = fmt.Sprint("id ", i)
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			mine := slices.Clone(ids)
			rand.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			_, err := inbox.DoBatch(s.ctx, mine[:500], func(ctx context.Context, t T, fresh []string) error {
				_, err := s.DB.Tx(t).Exec(ctx, "insert into effect (name) values ('"+strings.Join(fresh, "'), ('")+"')")
				return err
			})
			if err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	var rows, unique int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*), count(distinct name) from effect").Scan(&rows, &unique))
	if rows != unique || rows < 500 {
		s.Fatalf("%d effects of %d messages", rows, unique)
	}
}

func inboxBeside[T any](s *suite[T]) {
	inbox := idem.NewInbox(s.DB, "c", &idem.InboxOptions{Wait: time.Minute})
	ids := []string{"a", "b", "c", "d", "e", "f"}
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i, id := range ids {
		wg.Go(func() {
			<-start
			_, err := inbox.Do(s.ctx, id, func(ctx context.Context, t T) error { return s.apply(ctx, t, id) })
			if err != nil {
				s.Error(err)
			}
		})
		wg.Go(func() {
			<-start
			_, err := inbox.DoBatch(s.ctx, ids[i:], func(ctx context.Context, t T, fresh []string) error {
				for _, id := range fresh {
					if err := s.apply(ctx, t, id); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				s.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	for _, id := range ids {
		s.wantEffects(id, 1)
	}
}

func inboxForeign[T any](s *suite[T]) {
	inbox := idem.NewInbox(s.DB, "c", nil)
	f := s.begin()
	_, err := inbox.DoTx(s.ctx, f.Tx, "fails", func(context.Context, T) error { return errPlain })
	s.want(err, errPlain)
	func() {
		defer func() { _ = recover() }()
		_, _ = inbox.DoTx(s.ctx, f.Tx, "panics", func(context.Context, T) error { panic("boom") })
	}()
	handled, err := inbox.DoTx(s.ctx, f.Tx, "works", func(ctx context.Context, t T) error { return s.apply(ctx, t, "works") })
	s.must(err)
	if !handled {
		s.Fatal("not handled")
	}
	fresh, err := inbox.FreshTx(s.ctx, f.Tx, "works", "fails", "panics", "new")
	s.must(err)
	if !slices.Equal(fresh, []string{"fails", "panics", "new"}) {
		s.Fatalf("fresh %q", fresh)
	}
	s.must(f.Commit(s.ctx))
	f = s.begin()
	fresh, err = inbox.FreshTx(s.ctx, f.Tx, "new", "later")
	s.must(err)
	if !slices.Equal(fresh, []string{"later"}) {
		s.Fatalf("fresh %q", fresh)
	}
	s.must(f.Rollback(s.ctx))
	handled, err = inbox.Do(s.ctx, "later", func(ctx context.Context, t T) error { return s.apply(ctx, t, "later") })
	s.must(err)
	if !handled {
		s.Fatal("a mark outlived its transaction")
	}
	s.wantEffects("works", 1)
}

func inboxBadIDs[T any](s *suite[T]) {
	inbox := idem.NewInbox(s.DB, "c", nil)
	for _, id := range []string{"", strings.Repeat("x", 10<<20), "\xff", "a\x00b"} {
		_, err := inbox.Do(s.ctx, id, func(context.Context, T) error { return nil })
		s.want(err, idem.ErrKeyInvalid)
		_, err = inbox.DoBatch(s.ctx, []string{"good", id}, func(context.Context, T, []string) error { return nil })
		s.want(err, idem.ErrKeyInvalid)
	}
	_, err := idem.NewInbox(s.DB, "", nil).Do(s.ctx, "m", func(context.Context, T) error { return nil })
	s.want(err, idem.ErrKeyInvalid)
	handled, err := inbox.Do(s.ctx, "good", func(context.Context, T) error { return nil })
	s.must(err)
	if !handled {
		s.Fatal("a refused batch left a mark")
	}
}

func inboxSweep[T any](s *suite[T]) {
	short := idem.NewInbox(s.DB, "c", &idem.InboxOptions{TTL: time.Millisecond})
	ids := make([]string, 2300)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	_, err := short.DoBatch(s.ctx, ids, func(context.Context, T, []string) error { return nil })
	s.must(err)
	_, err = idem.NewInbox(s.DB, "c", nil).Do(s.ctx, "kept", func(context.Context, T) error { return nil })
	s.must(err)
	s.awaitExpiry("idem_inbox", 1)
	n, err := short.Sweep(s.ctx)
	s.must(err)
	if n != int64(len(ids)) {
		s.Fatalf("swept %d", n)
	}
	handled, err := short.Do(s.ctx, "kept", func(context.Context, T) error { return nil })
	s.must(err)
	if handled {
		s.Fatal("the sweep took a live mark")
	}
}
