package counter_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// A stock of three, and an order that comes twice.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "counter")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	pool, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "a.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = pool.Close() }()
	db := sqltx.New(pool, tx.SQLite, nil)
	if err := counter.Migrate(ctx, db, counter.Names{}); err != nil {
		fmt.Println(err)
		return
	}
	stock := counter.New(db, nil)
	res, err := stock.Add(ctx, "lamp", 3, counter.Once("delivery 1"))
	fmt.Println(res.Value, err)
	for range 2 {
		res, err = stock.Take(ctx, "lamp", 2, counter.Once("order 7"))
		fmt.Println(res.Value, res.Replayed, err)
	}
	_, err = stock.Take(ctx, "lamp", 2, counter.Once("order 8"))
	var short *counter.InsufficientError
	fmt.Println(errors.As(err, &short) && short.Have == 1, err)
	// Output:
	// 3 <nil>
	// 1 false <nil>
	// 0 true <nil>
	// true counter: insufficient: "lamp" has 1, not 2
}
