//go:build unix

package lease_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// Processes that hold a lease are killed and stopped at each point of their work, while this one waits for the lease.

// The points of a holder's work, in their order.
const (
	atAcquired  = "acquired"
	atChecked   = "checked" // it has looked that it holds the lease, and goes on without looking again
	atGuarded   = "guarded" // in the transaction
	atWritten   = "written"
	atCommitted = "committed"
	atRenewal   = "renewal" // before it is sent
)

var points = []string{atAcquired, atChecked, atGuarded, atWritten, atCommitted, atRenewal}

const holderEnv = "HOLDFAST_LEASE_HOLDER"

// holderTTL is how long a holder's lease lasts when it is killed or stopped.
const holderTTL = 600 * time.Millisecond

// A job is what a holder is told.
type job struct{ Engine, Address, Point string }

// TestHolder is the process that holds the lease, for the tests below.
func TestHolder(t *testing.T) {
	text := os.Getenv(holderEnv)
	if text == "" {
		return
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	if j.Engine == "sqlite" {
		hold(t, j, openDB(t, "sqlite", j.Address, tx.SQLite))
		return
	}
	hold(t, j, pgxtx.New(openPool(t, j.Address)))
}

// hold works under the lease, heedless of the context's end, and says what came of its transaction and of the lease.
func hold[T any](t *testing.T, j job, db *tx.DB[T]) {
	var once sync.Once
	at := func(point string) {
		if point == j.Point {
			once.Do(func() {
				fmt.Println("at the point")
				_, _ = os.Stdin.Read(make([]byte, 1))
			})
		}
	}
	store := pausing{lease.NewSQL(db, lease.Names{}), at}
	var wrote error
	err := lease.New(store, &lease.Options{TTL: holderTTL}).Run(t.Context(), "a", func(ctx context.Context, h *lease.Held) error {
		at(atAcquired)
		if wrote = h.Check(); wrote != nil {
			return nil
		}
		at(atChecked)
		wrote = db.Do(context.WithoutCancel(ctx), func(ctx context.Context, t T) error {
			if err := h.Fence().Guard(ctx, db.Tx(t)); err != nil {
				return err
			}
			at(atGuarded)
			_, err := db.Tx(t).Exec(ctx, "insert into effect values ('holder')")
			at(atWritten)
			return err
		})
		at(atCommitted)
		if j.Point == atRenewal {
			<-ctx.Done()
		}
		return nil
	})
	fmt.Println("end:", word(wrote), word(err))
}

func word(err error) string {
	switch {
	case err == nil:
		return "well"
	case errors.Is(err, lease.ErrFenced):
		return "fenced"
	case errors.Is(err, lease.ErrLost):
		return "lost"
	}
	return err.Error()
}

// A pausing store has a point before each renewal.
type pausing struct {
	lease.FencingStore

	at func(point string)
}

func (p pausing) Renew(ctx context.Context, terms []lease.Term) ([]lease.Renewal, error) {
	p.at(atRenewal)
	return p.FencingStore.Renew(ctx, terms)
}

// A holder is a process at its point.
type holder struct {
	*exec.Cmd

	stdin io.WriteCloser
	out   *bufio.Scanner
}

func startHolder(t *testing.T, j job) *holder {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	p := &holder{Cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolder$")}
	p.Env, p.Stderr = append(os.Environ(), holderEnv+"="+string(text)), os.Stderr
	if p.stdin, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(stdout)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.says(t, "at the point")
	return p
}

// says reads on to a line that begins with text, and returns what follows.
func (p *holder) says(t *testing.T, text string) (rest string) {
	t.Helper()
	var all []string
	for p.out.Scan() {
		if rest, ok := strings.CutPrefix(p.out.Text(), text); ok {
			return strings.TrimSpace(rest)
		}
		all = append(all, p.out.Text())
	}
	t.Fatalf("the holder ended without a line %q: %q", text, all)
	return ""
}

func (p *holder) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

func (p *holder) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// resume wakes it, and lets it pass its point.
func (p *holder) resume(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGCONT)
	if _, err := p.stdin.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
}

// onEach runs a test of each point on each engine.
func onEach(t *testing.T, test func(t *testing.T, h contest)) {
	t.Parallel()
	for _, point := range points {
		t.Run("pgx "+point, func(t *testing.T) {
			t.Parallel()
			j := job{Engine: "pgx", Address: testdb.Postgres(t), Point: point}
			test(t, newContest(t, j, pgxtx.New(openPool(t, j.Address))))
		})
		t.Run("sqlite "+point, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "a.db")
			j := job{Engine: "sqlite", Address: "file:" + file + sqliteParams + "&_pragma=busy_timeout(50)", Point: point}
			test(t, newContest(t, j, openDB(t, "sqlite", j.Address, tx.SQLite)))
		})
	}
}

// A contest is between a holder and this process.
type contest struct {
	*holder

	point   string
	acquire func() (write func() error, release func())
	try     func() error
	effects func() string
}

func newContest[T any](t *testing.T, j job, db *tx.DB[T]) contest {
	migrateEffects(t, db)
	leases := lease.New(lease.NewSQL(db, lease.Names{}), &lease.Options{PollEvery: 20 * time.Millisecond})
	c := contest{point: j.Point}
	c.try = func() error {
		_, err := leases.TryAcquire(t.Context(), "a")
		return err
	}
	c.acquire = func() (func() error, func()) {
		h, err := leases.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		write := func() error {
			return lease.Do(t.Context(), db, h, func(ctx context.Context, t T) error {
				_, err := db.Tx(t).Exec(ctx, "insert into effect values ('next')")
				return err
			})
		}
		return write, func() {
			if got, err := h.Release(t.Context()); got != lease.ReleaseDone {
				t.Errorf("the release came to %d, %v", got, err)
			}
		}
	}
	c.effects = func() string {
		var names []string
		for _, name := range []string{"holder", "next"} {
			n, err := count(t.Context(), db.Conn(), name)
			if err != nil {
				t.Fatal(err)
			}
			for range n {
				names = append(names, name)
			}
		}
		return strings.Join(names, ", ")
	}
	c.holder = startHolder(t, j)
	return c
}

// after reports whether the holder is past a point.
func (c contest) after(point string) bool {
	return slices.Index(points, c.point) > slices.Index(points, point)
}

// A holder that is killed anywhere leaves what it has committed, and its lease to whoever is next.
func TestKilled(t *testing.T) {
	onEach(t, func(t *testing.T, c contest) {
		if err := c.try(); !errors.Is(err, lease.ErrHeld) && c.point != atRenewal { // there it is not renewed
			t.Errorf("while it lives: %v", err)
		}
		killed := time.Now()
		c.kill()
		write, release := c.acquire()
		t.Logf("taken over after %v of %v", time.Since(killed), holderTTL)
		if err := write(); err != nil {
			t.Error(err)
		}
		release()
		want := "next"
		if c.after(atWritten) {
			want = "holder, next"
		}
		if got := c.effects(); got != want {
			t.Errorf("the effects are %s, want %s", got, want)
		}
	})
}

// B14: a holder that is stopped for longer than its lease lasts, and goes on where it was. While it is in its guarded transaction
// nobody gets the lease, and it commits; elsewhere somebody else does, and it is refused.
func TestStopped(t *testing.T) {
	onEach(t, func(t *testing.T, c contest) {
		c.signal(t, syscall.SIGSTOP)
		if c.point == atGuarded || c.point == atWritten {
			for stopped := time.Now(); time.Since(stopped) < 3*holderTTL; {
				if err := c.try(); !errors.Is(err, lease.ErrHeld) {
					t.Fatalf("while it is stopped in its transaction: %v", err)
				}
			}
			c.resume(t)
			if end := c.says(t, "end:"); end != "well well" && end != "well lost" {
				t.Errorf("its transaction and its lease came to %q", end)
			}
			write, release := c.acquire()
			if err := write(); err != nil {
				t.Error(err)
			}
			release()
			if got := c.effects(); got != "holder, next" {
				t.Errorf("the effects are %s", got)
			}
			return
		}
		write, release := c.acquire()
		c.resume(t)
		end := c.says(t, "end:")
		if err := write(); err != nil {
			t.Error(err)
		}
		release()
		want := map[string]string{atAcquired: "lost lost", atChecked: "fenced lost", atCommitted: "well lost", atRenewal: "well lost"}[c.point]
		if end != want {
			t.Errorf("its transaction and its lease came to %q, want %q", end, want)
		}
		effects := "next"
		if c.after(atWritten) {
			effects = "holder, next"
		}
		if got := c.effects(); got != effects {
			t.Errorf("the effects are %s, want %s", got, effects)
		}
	})
}
