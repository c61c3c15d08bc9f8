// Package testdb finds or starts the servers that tests run against. It takes, in this order, the server that an
// environment variable names and the server binaries of the machine. If there is neither, the test fails and says what to
// do: nothing is skipped.
package testdb

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The variables that name servers, as URLs.
const (
	PostgresEnv = "HOLDFAST_TEST_POSTGRES"
	RedisEnv    = "HOLDFAST_TEST_REDIS"
)

const startTimeout = 60 * time.Second

// shared are the servers that this process started for all of its tests.
var shared struct {
	sync.Mutex // guards all below
	postgres   *Server
	redis      *Server
}

// Main runs the tests of a package, stops the servers that they started, and exits. Call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	shared.Lock()
	for _, s := range []*Server{shared.postgres, shared.redis} {
		if s != nil {
			_ = s.Close()
		}
	}
	os.Exit(code)
}

// Postgres returns the URL of a PostgreSQL database with a schema of the test's own, which is dropped in the end. The URL
// sets the search path, so that pgx and lib/pq both use the schema.
func Postgres(t testing.TB) string {
	t.Helper()
	base := postgresURL(t)
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		t.Fatalf("testdb: %s must be of the form postgres://user:password@host:port/database", PostgresEnv)
	}
	schema := "test_" + randomHex(t)
	execute(t, base, "create schema "+schema)
	t.Cleanup(func() { execute(t, base, "drop schema "+schema+" cascade") })
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// PostgresServer returns a PostgreSQL server of the test's own, to be stopped, killed and restarted.
func PostgresServer(t testing.TB) *Server {
	t.Helper()
	return postgresKind.private(t)
}

// PostgresStandby returns a server of the test's own that follows primary; see [StartPostgresStandby].
func PostgresStandby(t testing.TB, primary *Server) *Server {
	t.Helper()
	k := postgresKind
	k.start = func(ctx context.Context) (*Server, error) { return StartPostgresStandby(ctx, primary) }
	return k.private(t)
}

// Redis returns the URL of a Redis server and a key prefix of the test's own, whose keys are deleted in the end.
func Redis(t testing.TB) (address, prefix string) {
	t.Helper()
	prefix = "test:" + randomHex(t) + ":"
	if address := os.Getenv(RedisEnv); address != "" {
		t.Cleanup(func() { forget(t, address, prefix) })
		return address, prefix
	}
	// The keys go with the server.
	return redisKind.share(t, &shared.redis).URL(), prefix
}

// RedisServer returns a Redis server of the test's own, to be stopped, killed and restarted.
func RedisServer(t testing.TB) *Server {
	t.Helper()
	return redisKind.private(t)
}

// RedisNode is RedisServer for one that can be a node of a cluster. It has no slots yet.
func RedisNode(t testing.TB) *Server {
	t.Helper()
	return nodeKind.private(t)
}

func postgresURL(t testing.TB) string {
	t.Helper()
	if address := os.Getenv(PostgresEnv); address != "" {
		return address
	}
	return postgresKind.share(t, &shared.postgres).URL()
}

func execute(t testing.TB, address, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatalf("testdb: %v\ncheck %s", err, PostgresEnv)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, query); err != nil {
		t.Errorf("testdb: %s: %v", query, err)
	}
}

func forget(t testing.TB, address, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := dialRedis(ctx, address)
	if err != nil {
		t.Errorf("testdb: %v\ncheck %s", err, RedisEnv)
		return
	}
	defer conn.close()
	if err := conn.deletePrefix(prefix); err != nil {
		t.Errorf("testdb: deleting %s*: %v", prefix, err)
	}
}

func randomHex(t testing.TB) string {
	t.Helper()
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(b[:])
}
