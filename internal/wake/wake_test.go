package wake_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/wake"
	"github.com/holdfast-go/holdfast/tx"
)

func TestWokenByAnotherProcess(t *testing.T) {
	t.Parallel()
	at := testdb.Postgres(t)
	mine, other := start(t, at, 1), start(t, at, 1)
	line := wake.New(mine.db, channel(t), nil)
	for _, key := range []string{"plain", "", "ünïcödé \n", `'; drop "x" --`, strings.Repeat("k", 7999)} {
		w := listening(t, line, key)
		bystander := line.Join(key + "?")
		if err := other.db.Notify(t.Context(), channel(t), key); err != nil {
			t.Fatal(err)
		}
		awaitWoken(t, w)
		asleep(t, bystander)
		bystander.Leave()
		w.Leave()
	}
}

// Whatever comes between a look and the wait is seen by the wait.
func TestNothingIsMissed(t *testing.T) {
	t.Parallel()
	line := wake.Alone()
	w := line.Join("key")
	defer w.Leave()
	line.Wake("key")
	awaitWoken(t, w)
	for range 3 {
		line.Wake("key")
	}
	awaitWoken(t, w)
	asleep(t, w) // once is enough: it has looked since
	wake.Alone().Wake("key")
	line.Wake("another")
	asleep(t, w)
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := wake.Alone().Join("key")
	defer w.Leave()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if woken, err := w.Await(ctx, time.Hour); woken || !errors.Is(err, why) {
		t.Errorf("woken %v, %v", woken, err)
	}
}

// A thousand who wait, by several lines and on several channels, share one connection beside the pool, whose only one is taken.
// With the last of them it goes.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	at := testdb.Postgres(t)
	mine, other, look := start(t, at, 1), start(t, at, 1), watcher(t, at)
	taken, err := mine.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Release()
	var lines [4]*wake.Line
	var waiters []*wake.Waiter
	join := func(line *wake.Line, key string) { waiters = append(waiters, line.Join(key)) }
	name := func(i int) string { return fmt.Sprint(channel(t), i/2) }
	for i := range lines {
		lines[i] = wake.New(mine.db, name(i), nil)
		join(lines[i], "0")
		if i%2 == 0 {
			awaitWoken(t, waiters[i]) // it listens
		}
	}
	const keys, each = 50, 250
	for _, line := range lines {
		for n := range each {
			join(line, fmt.Sprint(n%keys))
		}
	}
	for i := 0; i < len(lines); i += 2 {
		for key := range keys {
			if err := other.db.Notify(t.Context(), name(i), fmt.Sprint(key)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var all sync.WaitGroup
	for _, w := range waiters {
		all.Go(func() { awaitWoken(t, w) })
	}
	all.Wait()
	if n := len(mine.listeners(look)); n != 1 {
		t.Errorf("%d connections listen", n)
	}
	for _, w := range waiters {
		asleep(t, w)
		w.Leave()
	}
	eventually(t, "the connection is closed", func() bool { return len(mine.listeners(look)) == 0 })
	eventually(t, "all is forgotten", lines[0].Gone)
}

// Who comes soon after the last has gone finds the connection there.
func TestTheConnectionLingers(t *testing.T) {
	t.Parallel()
	at := testdb.Postgres(t)
	mine, other, look := start(t, at, 1), start(t, at, 1), watcher(t, at)
	line := wake.New(mine.db, channel(t), nil)
	var pids []int32
	for range 3 {
		w := listening(t, line, "key")
		pids = append(pids, mine.listeners(look)...)
		if err := other.db.Notify(t.Context(), channel(t), "key"); err != nil {
			t.Fatal(err)
		}
		awaitWoken(t, w)
		w.Leave()
		eventually(t, "the end of listening", func() bool { return !line.Proved() })
		// Nothing is sent to a connection that nobody reads.
		if err := other.db.Notify(t.Context(), channel(t), "key"); err != nil {
			t.Fatal(err)
		}
	}
	if len(pids) != 3 || pids[0] != pids[1] || pids[1] != pids[2] {
		t.Errorf("the connections of %v listened, want one", pids)
	}
}

// Whoever waited when the connection broke is woken when there is another, for what came in between.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	at := testdb.Postgres(t)
	mine, other, look := start(t, at, 1), start(t, at, 1), watcher(t, at)
	var r told
	line := wake.New(mine.db, channel(t), r.tell)
	w := listening(t, line, "key")
	defer w.Leave()
	for range 3 {
		asleep(t, w)
		for _, pid := range mine.listeners(look) {
			if _, err := look.Exec(t.Context(), "select pg_terminate_backend($1)", pid); err != nil {
				t.Fatal(err)
			}
		}
		awaitWoken(t, w)
		eventually(t, "the proof", line.Proved)
		asleep(t, w)
		if err := other.db.Notify(t.Context(), channel(t), "key"); err != nil {
			t.Fatal(err)
		}
		awaitWoken(t, w)
	}
	if errs := r.all(); len(errs) == 0 || len(errs) > 3 || tx.Classify(errs[0]) != tx.Lost {
		t.Errorf("told %v", errs)
	}
}

func TestServerRestart(t *testing.T) {
	t.Parallel()
	server := testdb.PostgresServer(t)
	mine := start(t, server.URL(), 2)
	var r told
	line := wake.New(mine.db, channel(t), r.tell)
	w := listening(t, line, "key")
	defer w.Leave()
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the word of it", func() bool { return len(r.all()) > 0 })
	asleep(t, w)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitWoken(t, w)
	eventually(t, "the proof", line.Proved)
	if err := mine.db.Notify(t.Context(), channel(t), "key"); err != nil {
		t.Fatal(err)
	}
	awaitWoken(t, w)
	if errs := r.all(); len(errs) != 1 {
		t.Errorf("told %v, want one error however often it was tried", errs)
	}
}

// A network that carries nothing any more says nothing of it.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	at := testdb.Postgres(t)
	network := newNetwork(t, at)
	mine, other := start(t, network.at, 1), start(t, at, 1)
	var r told
	line := wake.New(mine.db, channel(t), r.tell)
	w := listening(t, line, "key")
	defer w.Leave()
	mine.pool.Reset() // the pool finds out by itself
	network.lose()
	if err := other.db.Notify(t.Context(), channel(t), "key"); err != nil {
		t.Fatal(err)
	}
	awaitWoken(t, w)
	eventually(t, "the proof", line.Proved)
	if err := other.db.Notify(t.Context(), channel(t), "key"); err != nil {
		t.Fatal(err)
	}
	awaitWoken(t, w)
	if errs := r.all(); len(errs) != 1 {
		t.Errorf("told %v, want one error", errs)
	}
}

// A standby refuses to listen. Who waits is told nothing, and looks again.
func TestRefused(t *testing.T) {
	t.Parallel()
	standby := testdb.PostgresStandby(t, testdb.PostgresServer(t))
	mine, look := start(t, standby.URL(), 1), watcher(t, standby.URL())
	var r told
	line := wake.New(mine.db, channel(t), r.tell)
	w := line.Join("key")
	eventually(t, "the word of it", func() bool { return len(r.all()) > 0 })
	if woken, err := w.Await(t.Context(), w.Pause(time.Millisecond, time.Second)); woken || err != nil {
		t.Errorf("woken %v, %v", woken, err)
	}
	w.Leave()
	if errs := r.all(); len(errs) != 1 || tx.Classify(errs[0]) != tx.ReadOnly {
		t.Errorf("told %v, want that the server is a standby", errs)
	}
	eventually(t, "the connection is closed", func() bool { return len(mine.listeners(look)) == 0 })
	eventually(t, "all is forgotten", line.Gone)
}

// deaf is a database behind a pooler that gives each transaction a session of its own: LISTEN succeeds, and nothing arrives.
type deaf struct{ *tx.DB[pgx.Tx] }

func (d deaf) Listen(ctx context.Context) (deafConn, error) {
	n, err := d.DB.Listen(ctx)
	return deafConn{n}, err
}

type deafConn struct{ tx.Notifications }

func (c deafConn) Listen(ctx context.Context, channel string) error {
	return errors.Join(c.Notifications.Listen(ctx, channel), c.Unlisten(ctx, channel))
}

func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	at := testdb.Postgres(t)
	mine, look := start(t, at, 1), watcher(t, at)
	var r told
	line := wake.New(deaf{mine.db}, channel(t), r.tell)
	w := line.Join("key")
	defer w.Leave()
	eventually(t, "the word of it", func() bool { return len(r.all()) > 0 })
	if errs := r.all(); len(errs) != 1 || !errors.Is(errs[0], wake.ErrDeaf) {
		t.Errorf("told %v", errs)
	}
	eventually(t, "the connection is closed", func() bool { return len(mine.listeners(look)) == 0 })
	line.Wake("key") // this process needs no notifications
	awaitWoken(t, w)
	if line.Proved() {
		t.Error("nothing arrived")
	}
}
