package lease_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

// A calm driver returns the panics that a proof injects into statements which run on goroutines of the leases as well: nobody
// catches them there.
type calm[T any] struct{ tx.Driver[T] }

func calmed[T any](db *tx.DB[T]) *tx.DB[T] {
	return db.Wrapped(func(d tx.Driver[T]) tx.Driver[T] { return calm[T]{d} })
}

func (d calm[T]) Conn() tx.Conn { return calmConn{d.Driver.Conn()} }

type calmConn struct{ tx.Conn }

func (c calmConn) Exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	defer recovered(query, &err)
	return c.Conn.Exec(ctx, query, args...)
}

func (c calmConn) Query(ctx context.Context, query string, args ...any) (rows tx.Rows, err error) {
	defer recovered(query, &err)
	return c.Conn.Query(ctx, query, args...)
}

// unheard are parts of the releases, the end of a wait, and the renewals.
var unheard = []string{"set nonce = null", `"lease_waiter" where`, "jsonb_to_recordset", "json_each"}

func recovered(query string, err *error) {
	if !slices.ContainsFunc(unheard, func(part string) bool { return strings.Contains(query, part) }) {
		return
	}
	if v := recover(); v != nil {
		*err = fmt.Errorf("it panicked: %v", v)
	}
}
