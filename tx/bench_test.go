package tx_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/tx"
)

// memory is a driver that costs nothing, so that what is measured is Do.
type memory struct{ tx.Driver[*int] }

var inMemory = new(int)

func (memory) Begin(context.Context, tx.Options, []*tx.Stmt) (*int, error) { return inMemory, nil }
func (memory) Commit(context.Context, *int, []*tx.Stmt) error              { return nil }
func (memory) Rollback(context.Context, *int) error                        { return nil }
func (memory) Classify(err error) tx.Class                                 { return tx.Classify(err) }
func (memory) Conn() tx.Conn                                               { return fakeConn{} }

// A transaction by Do, without the database: to hold below 1 µs.
func BenchmarkDo(b *testing.B) {
	db := tx.New[*int](memory{})
	b.ReportAllocs()
	for b.Loop() {
		if err := db.Do(b.Context(), succeed); err != nil {
			b.Fatal(err)
		}
	}
}
