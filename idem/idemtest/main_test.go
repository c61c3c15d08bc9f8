package idemtest_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/idem/idemtest"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestPgx(t *testing.T) {
	idemtest.Run(t, func(t testing.TB) idemtest.Harness[pgx.Tx] {
		pool := newPool(t, testdb.Postgres(t))
		return idemtest.Harness[pgx.Tx]{DB: pgxtx.New(pool), Begin: func(ctx context.Context) (idemtest.Foreign[pgx.Tx], error) {
			foreign, err := pool.Begin(ctx)
			if err != nil {
				return idemtest.Foreign[pgx.Tx]{}, err
			}
			return idemtest.Foreign[pgx.Tx]{Tx: foreign, Commit: foreign.Commit, Rollback: foreign.Rollback}, nil
		}}
	})
}

func newPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// with returns an address with a parameter of the session set.
func with(t testing.TB, address, name, value string) string {
	t.Helper()
	u, q := parse(t, address)
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func parameter(t testing.TB, address, name string) string {
	t.Helper()
	_, q := parse(t, address)
	return q.Get(name)
}

func parse(t testing.TB, address string) (*url.URL, url.Values) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u, u.Query()
}
