package testdb

import (
	"context"
	"testing"
)

// A kind is a kind of server, with the words for the one who has to provide it.
type kind struct {
	name, debian, env, binEnv string
	start                     func(context.Context) (*Server, error)
}

var (
	postgresKind = kind{name: "PostgreSQL", debian: "postgresql", env: PostgresEnv, binEnv: PostgresBinEnv, start: StartPostgres}
	redisKind    = kind{name: "Redis", debian: "redis-server", env: RedisEnv, binEnv: RedisBinEnv, start: StartRedis}
	nodeKind     = kind{name: "Redis", debian: "redis-server", env: RedisEnv, binEnv: RedisBinEnv, start: startRedisNode}
)

// share starts a server at the first call of the process.
func (k kind) share(t testing.TB, slot **Server) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if *slot == nil {
		s, err := k.begin()
		if err != nil {
			t.Fatalf("testdb: no %s server: %v\nrun `make test`, which provides one, or set %s to its URL, or `apt-get install %s`",
				k.name, err, k.env, k.debian)
		}
		*slot = s
	}
	return *slot
}

// private starts a server for one test. The URL of a running one is no help to a test that kills it, so its error names
// what is: the binaries.
func (k kind) private(t testing.TB) *Server {
	t.Helper()
	s, err := k.begin()
	if err != nil {
		t.Fatalf("testdb: no %s server of the test's own: %v\n`apt-get install %s`, or set %s to the folder of its binaries "+
			"(%s is not enough: this test stops and kills its server)", k.name, err, k.debian, k.binEnv, k.env)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (k kind) begin() (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return k.start(ctx)
}
