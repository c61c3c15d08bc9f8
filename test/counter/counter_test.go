// Package counter_test runs the conformance suite of package counter on the adapters whose drivers the root module does not
// require.
package counter_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/counter/countertest"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/test/stddb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestSQLiteModernc(t *testing.T)     { countertest.Run(t, stddb.SQLite("sqlite", stddb.WAL)) }
func TestPostgresPgxStdlib(t *testing.T) { countertest.Run(t, stddb.Postgres("pgx")) }
func TestPostgresLibPQ(t *testing.T)     { countertest.Run(t, stddb.Postgres("postgres")) }
