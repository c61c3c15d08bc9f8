package story

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
)

// parentEnv makes the test binary a parent that starts a server and waits to be killed.
const parentEnv = "HOLDFAST_EXAMPLE_PARENT"

func TestMain(m *testing.M) {
	RegisterServer("test", testServer[*sql.Tx], testServer[pgx.Tx])
	if os.Getenv(parentEnv) != "" && os.Getenv(childEnv) == "" {
		p, err := startProcess(context.Background(), "test", Place{URL: "file::memory:"})
		if err != nil {
			panic(err)
		}
		fmt.Println(p.address)
		select {}
	}
	RunChild()
	testdb.Main(m)
}

// testServer says which process it is.
func testServer[T any](*tx.DB[T]) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, os.Getpid()) })
}
