// Package views is the counters story: page views that are lost, or counted again by a retry.
package views

import (
	"context"

	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

// A Service counts a view of a page, for a request that may come again.
type Service interface {
	View(ctx context.Context, page, requestID string) error
}

// Absolute reads the count and writes what it made of it.
type Absolute[T any] struct{ DB *tx.DB[T] }

// View loses the views that were counted since it read.
func (s Absolute[T]) View(ctx context.Context, page, _ string) error {
	var n int64
	if err := s.DB.Conn().QueryRow(ctx, "select n from page where name = $1", page).Scan(&n); err != nil {
		return err
	}
	if err := story.Elsewhere(ctx); err != nil {
		return err
	}
	_, err := s.DB.Conn().Exec(ctx, "update page set n = $2 where name = $1", page, n+1)
	return err
}

// Upsert adds where the value is.
type Upsert[T any] struct{ DB *tx.DB[T] }

// View loses nothing, and counts a request again that comes again: the conflict is on the page, and nothing tells requests
// apart.
func (s Upsert[T]) View(ctx context.Context, page, _ string) error {
	if err := story.Elsewhere(ctx); err != nil {
		return err
	}
	_, err := s.DB.Conn().Exec(ctx, "insert into page (name, n) values ($1, 1) on conflict (name) do update set n = page.n + 1", page)
	return err
}

// Counted is ours, on the same table.
type Counted[T any] struct{ Pages *counter.Counters[T] }

// NewCounted returns the service on the column n of table page.
func NewCounted[T any](db *tx.DB[T]) Counted[T] {
	return Counted[T]{counter.NewColumn(db, counter.Column{Table: "page", Key: "name", Column: "n"}, nil)}
}

// View counts a request once, however often it comes.
func (s Counted[T]) View(ctx context.Context, page, requestID string) error {
	if err := story.Elsewhere(ctx); err != nil {
		return err
	}
	_, err := s.Pages.Add(ctx, page, 1, counter.Once(requestID))
	return err
}

// Migrate makes the tables.
func Migrate[T any](ctx context.Context, db *tx.DB[T]) error {
	if _, err := db.Conn().Exec(ctx, "create table page (name varchar(100) primary key, n bigint not null default 0)"); err != nil {
		return err
	}
	return counter.Migrate(ctx, db, counter.Names{})
}
