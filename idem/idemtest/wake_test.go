package idemtest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// Two processes share a table.
type sharing struct {
	testing.TB

	ctx    context.Context //nolint:containedctx // it is that of the test
	look   *pgx.Conn
	app    string // the name of the connections
	stores [2]idem.Store
	leased [2]*idem.Leased[*idem.Run]
	tx     *idem.Leased[*idem.RunTx[pgx.Tx]] // of the first
}

func share(t *testing.T) *sharing {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	at := testdb.Postgres(t)
	look, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = look.Close(context.Background()) })
	s := &sharing{TB: t, ctx: ctx, look: look, app: "sharing_" + rand.Text()}
	for i := range s.leased {
		db := pgxtx.New(pgxdb.Pool(t, at+"&application_name="+s.app, 2))
		s.must(idem.Migrate(ctx, db, idem.Names{}))
		keys := idem.New(db, nil)
		s.stores[i] = keys.Store()
		s.leased[i] = idem.NewLeasedOn(s.stores[i], &idem.LeaseOptions{Wait: time.Hour})
		if i == 0 {
			s.tx = idem.NewLeased(keys, nil)
		}
	}
	return s
}

func (s *sharing) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *sharing) until(query string, args ...any) {
	s.Helper()
	for holds := false; !holds; {
		if err := s.look.QueryRow(s.ctx, query, args...).Scan(&holds); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			s.Fatal(err)
		}
	}
}

// announced waits until the store knows that somebody waits for the key.
func (s *sharing) announced(k idem.Key) {
	s.Helper()
	id := k.ID()
	s.until("select waiters from idem_key where k = $1", id[:])
}

// waitsNoMore waits until no process listens.
func (s *sharing) waitsNoMore() { s.until(listening, s.app, 0) }

const listening = "select count(*) = $2 from pg_stat_activity where application_name = $1 and query ~ '^(un)?listen'"

// Whatever ends an execution notifies the duplicate of another process, once. That it wakes it is seen where time stands still.
func TestTheEndOfAnExecutionWakes(t *testing.T) {
	t.Parallel()
	failed := errors.New("nothing was done")
	for _, c := range []struct {
		name string
		run  func(s *sharing, k idem.Key, hold func()) error
		err  error // of the execution
		want error // of the duplicate
	}{
		{name: "answer", run: func(s *sharing, k idem.Key, hold func()) error {
			_, err := idem.DoLeased(s.ctx, s.leased[0], k, func(context.Context, *idem.Run) (string, error) { hold(); return "first", nil })
			return err
		}},
		{name: "commit", run: func(s *sharing, k idem.Key, hold func()) error {
			_, err := idem.DoLeased(s.ctx, s.tx, k, func(ctx context.Context, run *idem.RunTx[pgx.Tx]) (string, error) {
				hold()
				return idem.Finish(ctx, run, func(context.Context, pgx.Tx) (string, error) { return "first", nil })
			})
			return err
		}},
		{name: "release", err: failed, run: func(s *sharing, k idem.Key, hold func()) error {
			_, err := idem.DoLeased(s.ctx, s.leased[0], k, func(context.Context, *idem.Run) (string, error) { hold(); return "", failed })
			return err
		}},
		{name: "park", err: idem.ErrOutcomeUnknown, want: idem.ErrOutcomeUnknown, run: func(s *sharing, k idem.Key, hold func()) error {
			_, err := idem.DoLeased(s.ctx, s.leased[0], k, func(ctx context.Context, run *idem.Run) (string, error) {
				return idem.Step(ctx, run, idem.External[string]{Name: "charge", Call: func(context.Context, string) (string, error) {
					hold()
					return "", failed
				}})
			})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := share(t)
			k := idem.Key{Scope: "s", Name: "n", Value: c.name}
			done := make(chan error, 1)
			_, err := s.look.Exec(s.ctx, "listen "+idem.NotifyChannel)
			s.must(err)
			err = c.run(s, k, func() {
				go func() {
					_, err := idem.DoLeased(s.ctx, s.leased[1], k, func(context.Context, *idem.Run) (string, error) {
						s.waitsNoMore() // it is at work itself
						return "second", nil
					})
					done <- err
				}()
				s.announced(k)
				s.until(listening, s.app, 1)
			})
			if !errors.Is(err, c.err) {
				t.Fatalf("the execution: %v", err)
			}
			for n := (&pgconn.Notification{}); n.Payload != k.ID().String(); { // others use the channel, too
				n, err = s.look.WaitForNotification(s.ctx)
				s.must(err)
			}
			if err := <-done; !errors.Is(err, c.want) {
				t.Fatalf("the duplicate: %v", err)
			}
			var still bool
			err = s.look.QueryRow(s.ctx, "select exists (select from idem_key where waiters)").Scan(&still)
			if err != nil || still {
				t.Errorf("the announcement is good for another notification: %v, %v", still, err)
			}
			s.waitsNoMore()
		})
	}
}

// To announce does not wait for a business transaction, which could keep a connection of the pool for long, and finds out that it cannot
// be done.
func TestAnnounceBesideFinish(t *testing.T) {
	t.Parallel()
	s := share(t)
	k := idem.Key{Scope: "s", Name: "n", Value: "v"}
	_, err := idem.DoLeased(s.ctx, s.tx, k, func(ctx context.Context, run *idem.RunTx[pgx.Tx]) (string, error) {
		return idem.Finish(ctx, run, func(context.Context, pgx.Tx) (string, error) {
			if open, err := s.stores[1].Announce(s.ctx, k.ID()); open || err != nil {
				t.Errorf("announced to a key that is being finished: %v, %v", open, err)
			}
			return "first", nil
		})
	})
	s.must(err)
	if open, err := s.stores[1].Announce(s.ctx, k.ID()); open || err != nil {
		t.Errorf("announced to a key that has an answer: %v, %v", open, err)
	}
}

// Nobody is notified of a key that nobody waits for.
func TestOnlyWhatIsAnnouncedNotifies(t *testing.T) {
	t.Parallel()
	s := share(t)
	_, err := s.look.Exec(s.ctx, "listen "+idem.NotifyChannel)
	s.must(err)
	mine := map[string]int{}
	call := func(value string, during func(k idem.Key)) {
		k := idem.Key{Scope: "s", Name: "n", Value: value}
		mine[k.ID().String()] = 0
		_, err := idem.DoLeased(s.ctx, s.leased[0], k, func(context.Context, *idem.Run) (string, error) {
			during(k)
			return "first", nil
		})
		s.must(err)
	}
	for i := range 20 {
		call(fmt.Sprint(i), func(idem.Key) {})
	}
	var all sync.WaitGroup
	call("awaited", func(k idem.Key) {
		all.Go(func() {
			_, err := idem.DoLeased(s.ctx, s.leased[1], k, func(context.Context, *idem.Run) (string, error) { return "second", nil })
			if err != nil {
				t.Error(err)
			}
		})
		s.announced(k)
	})
	all.Wait()
	end := rand.Text()
	_, err = s.look.Exec(s.ctx, "select pg_notify($1, $2)", idem.NotifyChannel, end)
	s.must(err)
	heard := 0
	for {
		n, err := s.look.WaitForNotification(s.ctx)
		s.must(err)
		if n.Payload == end {
			break
		}
		if _, ok := mine[n.Payload]; ok { // others use the channel, too
			heard++
		}
	}
	if heard != 1 {
		t.Errorf("%d notifications, want 1", heard)
	}
}

// Hundreds who wait hold no connection of the pool, which has two, and share one that listens.
func TestManyWaitOnOneConnection(t *testing.T) {
	t.Parallel()
	s := share(t)
	const keys, each = 100, 5
	name := func(i int) idem.Key { return idem.Key{Scope: "s", Name: "n", Value: fmt.Sprint(i)} }
	release, begun := make(chan struct{}), make(chan struct{}, keys)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			_, err := idem.DoLeased(s.ctx, s.leased[0], name(i), func(context.Context, *idem.Run) (string, error) {
				begun <- struct{}{}
				<-release
				return "first", nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range keys {
		<-begun
	}
	for i := range keys * each {
		all.Go(func() {
			res, err := idem.DoLeased(s.ctx, s.leased[1], name(i%keys), func(context.Context, *idem.Run) (string, error) { return "second", nil })
			if err != nil || res.Value != "first" {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
	s.until("select count(*) = $1 from idem_key where waiters", keys)
	s.until(listening, s.app, 1)
	s.until("select count(*) <= 5 from pg_stat_activity where application_name = $1", s.app) // two pools, and who listens
	close(release)
	all.Wait()
	s.waitsNoMore()
}

// A listener that is lost costs those who wait a pause, is told to the observer, and no caller hears of it.
func TestTheListenerIsLost(t *testing.T) {
	t.Parallel()
	s := share(t)
	told := make(chan holdfast.Event, 100)
	waiter := idem.NewLeasedOn(s.stores[1], &idem.LeaseOptions{Wait: time.Hour, Observer: observer(func(e holdfast.Event) {
		if e.Kind == tx.EventPolling {
			told <- e
		}
	})})
	k := idem.Key{Scope: "s", Name: "n", Value: "v"}
	done := make(chan error, 1)
	_, err := idem.DoLeased(s.ctx, s.leased[0], k, func(context.Context, *idem.Run) (string, error) {
		go func() {
			_, err := idem.DoLeased(s.ctx, waiter, k, func(context.Context, *idem.Run) (string, error) { return "second", nil })
			done <- err
		}()
		s.announced(k)
		s.until(listening, s.app, 1)
		s.until("select count(pg_terminate_backend(pid)) > 0 from pg_stat_activity where application_name = $1 and query ~ '^listen'", s.app)
		if e := <-told; tx.Classify(e.Err) != tx.Lost {
			t.Errorf("told %v", e.Err)
		}
		return "first", nil
	})
	s.must(err)
	s.must(<-done)
}

type observer func(holdfast.Event)

func (o observer) Observe(_ context.Context, e holdfast.Event) { o(e) }
