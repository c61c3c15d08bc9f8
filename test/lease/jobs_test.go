package lease_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/tx"
)

func TestJobsSQLite(t *testing.T) {
	leasetest.RunJobs(t, func(t testing.TB) leasetest.Harness[*sql.Tx] {
		file := filepath.Join(t.TempDir(), "test.db")
		return harness(t, "sqlite", "file:"+file+"?_pragma=journal_mode(wal)", tx.SQLite)
	})
}

func TestJobsPgxStdlib(t *testing.T) {
	leasetest.RunJobs(t, func(t testing.TB) leasetest.Harness[*sql.Tx] {
		return harness(t, "pgx", testdb.Postgres(t), tx.PostgreSQL)
	})
}

func TestJobsLibPQ(t *testing.T) {
	leasetest.RunJobs(t, func(t testing.TB) leasetest.Harness[*sql.Tx] {
		return harness(t, "postgres", testdb.Postgres(t), tx.PostgreSQL)
	})
}
