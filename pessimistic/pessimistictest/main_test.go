package pessimistictest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/pessimistic/pessimistictest"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestPgx(t *testing.T) { pessimistictest.Run(t, pgxdb.Open) }
