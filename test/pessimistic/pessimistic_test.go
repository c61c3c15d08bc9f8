// Package pessimistic_test runs the conformance suite of package pessimistic on the adapters whose drivers the root module
// does not require, and its crash points.
package pessimistic_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/pessimistic/pessimistictest"
	"github.com/holdfast-go/holdfast/test/stddb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestSQLiteModernc(t *testing.T) {
	pessimistictest.Run(t, stddb.SQLite("sqlite", stddb.WAL+"&_pragma=synchronous(off)&_pragma=busy_timeout(20000)"))
}

func TestPostgresPgxStdlib(t *testing.T) { pessimistictest.Run(t, stddb.Postgres("pgx")) }
func TestPostgresLibPQ(t *testing.T)     { pessimistictest.Run(t, stddb.Postgres("postgres")) }
