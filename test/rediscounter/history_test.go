// Package rediscounter_test checks histories of counters in Redis whose replies are lost.
package rediscounter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter/rediscounter"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/test/history"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A lossy connection breaks before a script is sent, or when the server has answered it.
type lossy struct {
	net.Conn
	lose func() (before, after bool)
	deaf atomic.Bool
}

func (c *lossy) Write(b []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(b), []byte("evalsha")) {
		before, after := c.lose()
		if before {
			_ = c.Close()
			return 0, io.ErrUnexpectedEOF
		}
		c.deaf.Store(after)
	}
	return c.Conn.Write(b)
}

func (c *lossy) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.deaf.Load() {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

const (
	workers = 6
	each    = 8 // calls of a worker
	fewKeys = 2
)

// HOLDFAST_ROUNDS makes the campaign long, HOLDFAST_SEED repeats its choices.
func TestHistories(t *testing.T) {
	t.Parallel()
	seed, rounds := history.Seed(t), history.Rounds(t, 25)
	t.Logf("seed %d, %d rounds", seed, rounds)
	address, prefix := testdb.Redis(t)
	var replayed, lost atomic.Int64
	o := &rediscounter.Options{Prefix: prefix, Observer: holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
		if e.Kind == rediscounter.EventReplayed {
			replayed.Add(1)
		}
	})}
	breaking := open(t, address, func() (before, after bool) {
		switch rand.IntN(3) {
		case 0:
			before = rand.IntN(3) == 0
			after = !before
			lost.Add(1)
		}
		return before, after
	})
	sound := rediscounter.New(open(t, address, func() (before, after bool) { return false, false }), o)
	total := map[sight]int{}
	for i := range rounds {
		r := &round{TB: t, Counters: rediscounter.New(breaking, o), number: i, started: time.Now()}
		r.run(seed, sound)
		for _, call := range r.history {
			total[call.saw]++
		}
		if t.Failed() {
			t.Fatalf("round %d of HOLDFAST_SEED=%d", i, seed)
		}
	}
	for saw, name := range sightNames {
		t.Logf("%d %s", total[sight(saw)], name)
		if total[sight(saw)] == 0 && rounds > 1 {
			t.Errorf("no call saw %s: the histories prove nothing of it", name)
		}
	}
	if t.Logf("%d attempts lost, %d operations found", lost.Load(), replayed.Load()); replayed.Load() == 0 {
		t.Error("no attempt found that an earlier one had been done")
	}
}

// open opens a client with the retries that go-redis has by default, soon after each other.
func open(t *testing.T, address string, lose func() (before, after bool)) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	o.MinRetryBackoff, o.MaxRetryBackoff = time.Millisecond, 2*time.Millisecond
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &lossy{Conn: conn, lose: lose}, nil
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A round is one history: several workers call for few counters at once.
type round struct {
	testing.TB
	*rediscounter.Counters
	number  int
	started time.Time

	mu      sync.Mutex // guards history
	history []*record
}

func (r *round) run(seed uint64, sound *rediscounter.Counters) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(r.number*workers+w)))
			for i := range each {
				r.call(random, fmt.Sprintf("w%d.%d", w, i))
			}
		})
	}
	all.Wait()
	byName := map[string][]*record{}
	for i := range fewKeys {
		r.make(sound, &record{id: "end", name: r.name(i), verb: "get"})
	}
	for _, call := range r.history {
		byName[call.name] = append(byName[call.name], call)
	}
	for name, calls := range byName {
		if wrong := check(calls); wrong != "" {
			r.Errorf("counter %s: %s", name, wrong)
		}
	}
}

func (r *round) name(i int) string { return fmt.Sprintf("r%d/%d", r.number, i) }

// call makes one call: half of them with an operation ID, which others may have too.
func (r *round) call(random *rand.Rand, id string) {
	rec := &record{id: id, name: r.name(random.IntN(fewKeys)), verb: []string{"add", "add", "take", "take", "get"}[random.IntN(5)]}
	if rec.verb != "get" {
		rec.n = 1 + random.Int64N(4)
		if random.IntN(2) == 0 {
			rec.op = []string{"a", "b", "c", id}[random.IntN(4)]
		}
	}
	r.make(r.Counters, rec)
}

// make makes a call and records it. Without an ID too it is made once, whatever the client sends again.
func (r *round) make(c *rediscounter.Counters, rec *record) {
	ctx := context.Background()
	rec.from = time.Since(r.started)
	var err error
	switch rec.verb {
	case "get":
		rec.value, err = c.Get(ctx, rec.name)
	case "take":
		rec.value, err = c.Take(ctx, rec.name, rec.n, rec.op)
	default:
		rec.value, err = c.Add(ctx, rec.name, rec.n, rec.op)
	}
	rec.to = time.Since(r.started)
	var short *rediscounter.InsufficientError
	switch {
	case errors.As(err, &short):
		rec.saw, rec.value = insufficient, short.Have
	case errors.Is(err, rediscounter.ErrMismatch):
		rec.saw = mismatch
	case err != nil && holdfast.OutcomeOf(err) == holdfast.Unknown:
		rec.saw = unknown
	case err != nil:
		r.Errorf("%s of %s: %v", rec.verb, rec.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, rec)
}
