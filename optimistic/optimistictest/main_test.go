package optimistictest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/optimistic/optimistictest"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestPgx(t *testing.T) { optimistictest.Run(t, pgxdb.Open) }
