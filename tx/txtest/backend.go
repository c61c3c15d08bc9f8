package txtest

import (
	"context"

	"github.com/holdfast-go/holdfast/tx"
)

// A Backend is a database of one test's own, empty, as the conformance suites of the patterns take it: whoever writes an adapter
// opens it for all of them by one function.
type Backend[T any] struct {
	// DB is on at least 8 connections.
	DB *tx.DB[T]
	// Begin begins a transaction without Holdfast, as a caller's own code does.
	Begin func(ctx context.Context) (Foreign[T], error)
}

// Foreign is a transaction that the test began and ends.
type Foreign[T any] struct {
	Tx       T
	Commit   func(ctx context.Context) error
	Rollback func(ctx context.Context) error
}
