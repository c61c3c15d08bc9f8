package idemtest_test

import (
	"net/url"
	"testing"

	"github.com/holdfast-go/holdfast/idem/idemtest"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestPgx(t *testing.T) { idemtest.Run(t, pgxdb.Open) }

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
