package wake_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/wake"
)

// memory is a database in the process: what time does is seen here, what servers do in the other tests.
type memory struct {
	opened, closed, listens atomic.Int64
	failing                 atomic.Pointer[error]
	conns                   chan *line // the one that is open
	channels                sync.Map   // that it listens to
}

type line struct {
	*memory
	sent chan [2]string
}

func (m *memory) Pool() any { return m }

func (m *memory) Listen(context.Context) (*line, error) {
	if err := m.failing.Load(); err != nil {
		return nil, *err
	}
	m.opened.Add(1)
	c := &line{m, make(chan [2]string, 100)}
	m.conns <- c
	return c, nil
}

func (m *memory) Notify(_ context.Context, channel, payload string) error {
	c := <-m.conns
	c.sent <- [2]string{channel, payload}
	m.conns <- c
	return nil
}

func (c *line) Listen(_ context.Context, channel string) error {
	c.listens.Add(1)
	c.channels.Store(channel, true)
	return nil
}

func (c *line) Unlisten(_ context.Context, channel string) error {
	c.channels.Delete(channel)
	return nil
}

func (c *line) Next(ctx context.Context) (channel, payload string, err error) {
	select {
	case n := <-c.sent:
		return n[0], n[1], nil
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
}

func (c *line) Close() error {
	<-c.conns
	c.closed.Add(1)
	return nil
}

func newMemory() *memory { return &memory{conns: make(chan *line, 1)} }

// While notifications arrive there is little to look for. Where they do not, pauses begin short and grow.
func TestPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const shortest, longest = 25 * time.Millisecond, time.Second
		for _, c := range []struct {
			name string
			line *wake.Line
			grow bool
		}{{"alone", wake.Alone(), true}, {"proved", wake.New(newMemory(), "c", nil), false}} {
			w := c.line.Join("key")
			synctest.Wait()
			var sum time.Duration
			for look := range 200 {
				d := w.Pause(shortest, longest)
				sum += d
				if most := shortest << min(look, 20); c.grow && d > most || d <= 0 || d > longest {
					t.Errorf("%s: the pause before look %d is %v", c.name, look, d)
				}
				if !c.grow && d < longest/2 {
					t.Errorf("%s: the pause before look %d is %v, and notifications arrive", c.name, look, d)
				}
			}
			if mean := sum / 200; mean < longest/4 {
				t.Errorf("%s: the pauses did not grow, %v in the mean", c.name, mean)
			}
			w.Leave()
			time.Sleep(wake.Idle())
			synctest.Wait()
		}
	})
}

// Nothing is left when nobody waits: the bubble ends only when no goroutine does.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := wake.New(m, "c", nil)
		for round := range int64(3) {
			for range 5 { // one after the other, with short gaps
				w := l.Join("key")
				synctest.Wait()
				w.Leave()
				time.Sleep(wake.Idle() / 2)
				synctest.Wait()
				m.channels.Range(func(channel, _ any) bool {
					t.Errorf("listens to %q, and nobody reads what the server sends", channel)
					return true
				})
			}
			if opened, closed := m.opened.Load(), m.closed.Load(); opened != round+1 || closed != round {
				t.Fatalf("round %d: %d connections opened, %d closed", round, opened, closed)
			}
			time.Sleep(wake.Idle())
			synctest.Wait()
			if closed := m.closed.Load(); closed != round+1 || !l.Gone() {
				t.Fatalf("round %d: %d connections closed, gone %v", round, closed, l.Gone())
			}
		}
	})
}

// The server is asked whether it is there, now and then, and not more.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := wake.New(m, "c", nil).Join("key")
		synctest.Wait()
		before := m.listens.Load()
		time.Sleep(100 * wake.KeepAlive())
		synctest.Wait()
		if n := m.listens.Load() - before; n < 90 || n > 112 {
			t.Errorf("%d requests in the time of 100", n)
		}
		w.Leave()
		time.Sleep(wake.Idle())
		synctest.Wait()
	})
}

// A database that cannot be reached is tried less and less often, is told of once, and those who come and go do not hurry that.
func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, tries := newMemory(), 0
		var r told
		l := wake.New(failing{m, func() error {
			tries++
			return errors.New("away")
		}}, "c", r.tell)
		for range 3000 {
			w := l.Join("key")
			if woken, err := w.Await(t.Context(), time.Millisecond); woken || err != nil {
				t.Fatalf("woken %v, %v", woken, err)
			}
			w.Leave()
		}
		if tries < 5 || tries > 100 || len(r.all()) == 0 || len(r.all()) > tries {
			t.Errorf("%d tries in 3 s, told %d times", tries, len(r.all()))
		}
		time.Sleep(wake.Deaf())
		synctest.Wait()
		if !l.Gone() {
			t.Error("something is left")
		}
	})
}

// failing is a database whose Listen asks first.
type failing struct {
	*memory
	ask func() error
}

func (f failing) Listen(ctx context.Context) (*line, error) {
	if err := f.ask(); err != nil {
		return nil, err
	}
	return f.memory.Listen(ctx)
}

// Where there are no notifications nobody is told, and it is not tried again while somebody waits.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		var r told
		l := wake.New(failing{newMemory(), func() error {
			tries++
			return fmt.Errorf("none here: %w", errors.ErrUnsupported)
		}}, "c", r.tell)
		first := l.Join("key")
		time.Sleep(time.Hour)
		second := l.Join("key")
		time.Sleep(time.Hour)
		l.Wake("key")
		for _, w := range []*wake.Waiter{first, second} {
			if woken, err := w.Await(t.Context(), time.Hour); !woken || err != nil {
				t.Errorf("woken %v, %v", woken, err)
			}
			w.Leave()
			if w.Hears() {
				t.Error("hears what there is not")
			}
		}
		l.Join("key").Leave() // it is known for good
		synctest.Wait()
		if tries != 1 || len(r.all()) != 0 || !l.Gone() {
			t.Errorf("%d tries, told %v, gone %v", tries, r.all(), l.Gone())
		}
	})
}

// Of those in turn one looks at a time, in the order in which they came, whoever gives up.
func TestInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := wake.Alone()
		bystander := l.Join("key")
		defer bystander.Leave()
		all, end := context.WithCancel(t.Context())
		defer end()
		const waiters = 6
		var up [waiters]chan struct{} // closed by the test: the waiter leaves
		order := make(chan int, waiters)
		for i := range waiters {
			w := l.JoinInTurn("key")
			up[i] = make(chan struct{})
			ctx, cancel := context.WithCancelCause(all)
			gone := errors.New("gone")
			if i == 2 {
				cancel(gone)
			}
			go func() {
				defer cancel(nil)
				defer w.Leave()
				waited, err := w.Turn(ctx, time.Hour)
				if i == 2 {
					if !waited || !errors.Is(err, gone) {
						t.Errorf("waiter %d: waited %v, %v", i, waited, err)
					}
					return
				}
				if waited != (i > 0) || err != nil {
					t.Errorf("waiter %d: waited %v, %v", i, waited, err)
					return
				}
				order <- i
				if woken, err := w.Await(ctx, time.Hour); !woken || err != nil {
					t.Errorf("waiter %d: woken %v, %v", i, woken, err)
				}
				select {
				case <-up[i]:
				case <-all.Done():
				}
			}()
			synctest.Wait()
		}
		for _, next := range []int{0, 1, 3, 4, 5} {
			synctest.Wait()
			if len(order) != 1 {
				t.Fatalf("%d are first", len(order))
			}
			if i := <-order; i != next {
				t.Fatalf("waiter %d came, and not %d", i, next)
			}
			l.Wake("key")
			synctest.Wait()
			if len(order) != 0 {
				t.Fatal("somebody came before the first has left")
			}
			awaitWoken(t, bystander)
			close(up[next])
		}
	})
}

// Who is first and does not come to an end keeps nobody for ever.
func TestTurnWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := wake.Alone()
		first, second := l.JoinInTurn("key"), l.JoinInTurn("key")
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if waited, err := second.Turn(ctx, time.Minute); !waited || err != nil || time.Since(begun) != time.Minute {
			t.Errorf("waited %v for %v, %v", waited, time.Since(begun), err)
		}
		second.Leave()
		first.Leave()
		if n := l.Waiting("key"); n != 0 || !l.Gone() {
			t.Errorf("%d wait", n)
		}
	})
}
