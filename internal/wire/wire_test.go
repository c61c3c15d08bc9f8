package wire_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/wire"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestTripsAreCounted(t *testing.T) {
	p, _ := start(t, 0)
	conn := connect(t, p.URL())
	count := func(want int, what string, do func() error) {
		t.Helper()
		p.Reset()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := p.Trips(); got != want {
			t.Errorf("%s took %d trips, want %d", what, got, want)
		}
	}
	exec := func(sql string, args ...any) func() error {
		return func() error {
			_, err := conn.Exec(t.Context(), sql, args...)
			return err
		}
	}
	count(1, "a simple query", exec("select 1"))
	count(1, "several statements in one query", exec("select 1; select 2; select 3"))
	count(2, "an extended query, parsed first", exec("select $1::int", 1))
	count(1, "the same again", exec("select $1::int", 2))
	count(1, "a batch", func() error {
		b := &pgx.Batch{}
		for i := range 3 {
			b.Queue("select $1::int", i)
		}
		return conn.SendBatch(t.Context(), b).Close()
	})
	count(1, "a pipeline with its sync", func() error {
		line := conn.PgConn().StartPipeline(t.Context())
		line.SendQueryParams("select 1", nil, nil, nil, nil)
		return errors.Join(line.Sync(), line.Close())
	})
	count(2, "a flush request in a pipeline", func() error {
		line := conn.PgConn().StartPipeline(t.Context())
		line.SendQueryParams("select 1", nil, nil, nil, nil)
		line.SendFlushRequest()
		return errors.Join(line.Sync(), line.Close())
	})
}

func TestManyBytesPass(t *testing.T) {
	p, _ := start(t, 100*time.Microsecond)
	conn := connect(t, p.URL())
	var n int
	err := conn.QueryRow(t.Context(), "select length(repeat($1, 10))", strings.Repeat("x", 1<<20)).Scan(&n)
	if err != nil || n != 10<<20 {
		t.Fatalf("length %d, error %v", n, err)
	}
	rows, err := conn.Query(t.Context(), "select repeat('x', 1000) from generate_series(1, 5000)")
	if err != nil {
		t.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(texts) != 5000 {
		t.Fatalf("%d rows, error %v", len(texts), err)
	}
}

func TestCancelRequestsPass(t *testing.T) {
	p, _ := start(t, 0)
	conn := connect(t, p.URL())
	sleeping := p.Watch(wire.Runs("select"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-sleeping.Hit()
		cancel()
	}()
	if _, err := conn.Exec(ctx, "select pg_sleep(60)"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if err := connect(t, p.URL()).PgConn().CancelRequest(t.Context()); err != nil {
		t.Errorf("cancel request: %v", err)
	}
}

func TestDelayIsAddedPerTripAndDoesNotBoundThroughput(t *testing.T) {
	const delay = 20 * time.Millisecond
	p, _ := start(t, delay)
	conn := connect(t, p.URL())
	begun := time.Now()
	if _, err := conn.Exec(t.Context(), "select 1"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 2*delay {
		t.Errorf("one trip took %v, at least %v were to be added", took, 2*delay)
	}
	// 50 trips that are under way together, which would take 2 s one after the other.
	begun = time.Now()
	line := conn.PgConn().StartPipeline(t.Context())
	for range 50 {
		line.SendQueryParams("select 1", nil, nil, nil, nil)
		if err := line.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := line.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 25*2*delay {
		t.Errorf("50 trips in a pipeline took %v", took)
	}
}

func TestClosingEndsAll(t *testing.T) {
	p, _ := start(t, 0)
	conn := connect(t, p.URL())
	held := p.HoldReplyTo(wire.Runs("select 1"))
	failed := make(chan error)
	go func() {
		_, err := conn.Exec(t.Context(), "select 1")
		failed <- err
	}()
	<-held.Hit()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("a reply that was held came through")
	}
	if _, err := pgx.Connect(t.Context(), p.URL()); err == nil {
		t.Error("a closed proxy took a connection")
	}
}

func TestUnusableURLs(t *testing.T) {
	for _, u := range []string{"", "postgres:///db", "\x00"} {
		if p, err := wire.Start(u, 0); err == nil {
			p.Close()
			t.Errorf("%q was taken", u)
		}
	}
}

func start(t *testing.T, delay time.Duration) (p *wire.Proxy, direct *pgx.Conn) {
	t.Helper()
	url := testdb.Postgres(t)
	p, err := wire.Start(url, delay)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, connect(t, url)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
