package wake_test

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/wake"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// patience bounds what is expected to happen soon. A wait that ends by it has failed.
const patience = 30 * time.Second

// channel is that of a test: others notify at the same time in the same database.
func channel(t *testing.T) string { return "wake " + t.Name() }

// process is what one process of a service has of the database.
type process struct {
	testing.TB
	pool *pgxpool.Pool
	db   *tx.DB[pgx.Tx]
	name string // of its connections
}

// start opens a pool of at most conns connections whose sessions have a name that no others have.
func start(t *testing.T, at string, conns int32) *process {
	t.Helper()
	config, err := pgxpool.ParseConfig(at)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{TB: t, name: "wake_" + rand.Text()}
	config.MaxConns = conns
	config.ConnConfig.RuntimeParams["application_name"] = p.name
	if p.pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.pool.Close)
	p.db = pgxtx.New(p.pool)
	return p
}

// watcher is a connection to look at the server with.
func watcher(t testing.TB, at string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// listeners are the server's processes that listen for p.
func (p *process) listeners(w *pgx.Conn) (pids []int32) {
	p.Helper()
	rows, err := w.Query(context.Background(),
		"select pid from pg_stat_activity where application_name = $1 and query ~ '^(un)?listen'", p.name)
	if err == nil {
		pids, err = pgx.CollectRows(rows, pgx.RowTo[int32])
	}
	if err != nil {
		p.Fatal(err)
	}
	return pids
}

// eventually waits until something holds that nobody is told of.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// awaitWoken waits with a pause that is longer than the test may take.
func awaitWoken(t testing.TB, w *wake.Waiter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if woken, err := w.Await(ctx, time.Hour); !woken || err != nil {
		t.Fatalf("woken %v, %v", woken, err)
	}
}

// asleep fails if w has been woken since it looked last.
func asleep(t testing.TB, w *wake.Waiter) {
	t.Helper()
	if woken, err := w.Await(context.Background(), 0); woken || err != nil {
		t.Fatalf("woken %v, %v, and nothing has happened", woken, err)
	}
}

// listening joins a line and waits until notifications are known to arrive.
func listening(t testing.TB, line *wake.Line, key string) *wake.Waiter {
	t.Helper()
	w := line.Join(key)
	eventually(t, "the proof", line.Proved)
	if _, err := w.Await(t.Context(), 0); err != nil { // woken, if it had to wait for the listening
		t.Fatal(err)
	}
	return w
}

// told counts what is told.
type told struct {
	mu   sync.Mutex // guards errs
	errs []error
}

func (r *told) tell(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

func (r *told) all() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.errs...)
}

// A network is a way to the server that can lose what is sent, both ways, without a word.
type network struct {
	at   string
	mu   sync.Mutex // guards open
	open []*atomic.Bool
}

func newNetwork(t *testing.T, at string) *network {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it lasts as long as the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	server := u.Host
	u.Host = listener.Addr().String()
	n := &network{at: u.String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go n.carry(client, server)
		}
	}()
	return n
}

// lose has the connections of now carry nothing any more.
func (n *network) lose() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, lost := range n.open {
		lost.Store(true)
	}
}

func (n *network) carry(client net.Conn, server string) {
	back, err := net.Dial("tcp", server) //nolint:noctx // of this machine
	if err != nil {
		_ = client.Close()
		return
	}
	lost := &atomic.Bool{}
	n.mu.Lock()
	n.open = append(n.open, lost)
	n.mu.Unlock()
	both := func(to, from net.Conn) {
		_, _ = io.Copy(sink{to, lost}, from)
		_ = to.Close()
	}
	go both(back, client)
	both(client, back)
}

type sink struct {
	net.Conn
	lost *atomic.Bool
}

func (s sink) Write(b []byte) (int, error) {
	if s.lost.Load() {
		return len(b), nil
	}
	return s.Conn.Write(b)
}
