// Package optimistic_test runs the conformance suite of package optimistic on the adapters whose drivers the root module does not
// require.
package optimistic_test

import (
	"testing"

	_ "github.com/mattn/go-sqlite3" // "sqlite3"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/optimistic/optimistictest"
	"github.com/holdfast-go/holdfast/test/stddb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestSQLiteModernc(t *testing.T) { optimistictest.Run(t, stddb.SQLite("sqlite", stddb.WAL)) }
func TestSQLiteMattn(t *testing.T) {
	optimistictest.Run(t, stddb.SQLite("sqlite3", "?_journal_mode=wal"))
}

func TestPostgresPgxStdlib(t *testing.T) { optimistictest.Run(t, stddb.Postgres("pgx")) }
func TestPostgresLibPQ(t *testing.T)     { optimistictest.Run(t, stddb.Postgres("postgres")) }
