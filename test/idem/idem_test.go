// Package idem_test runs the conformance suite of package idem on the adapters whose drivers the root module does not
// require.
package idem_test

import (
	"testing"

	_ "github.com/mattn/go-sqlite3" // "sqlite3"

	"github.com/holdfast-go/holdfast/idem/idemtest"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/test/stddb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestSQLiteModernc(t *testing.T) { idemtest.Run(t, stddb.SQLite("sqlite", stddb.WAL)) }
func TestSQLiteMattn(t *testing.T)   { idemtest.Run(t, stddb.SQLite("sqlite3", "?_journal_mode=wal")) }

func TestPostgresPgxStdlib(t *testing.T) { idemtest.Run(t, stddb.Postgres("pgx")) }
func TestPostgresLibPQ(t *testing.T)     { idemtest.Run(t, stddb.Postgres("postgres")) }
