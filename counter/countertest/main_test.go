package countertest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/counter/countertest"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestPgx(t *testing.T) { countertest.Run(t, pgxdb.Open) }
