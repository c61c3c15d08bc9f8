package lease_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/test/stddb"
)

func TestJobsSQLite(t *testing.T)    { leasetest.RunJobs(t, stddb.SQLite("sqlite", stddb.WAL)) }
func TestJobsPgxStdlib(t *testing.T) { leasetest.RunJobs(t, stddb.Postgres("pgx")) }
func TestJobsLibPQ(t *testing.T)     { leasetest.RunJobs(t, stddb.Postgres("postgres")) }
