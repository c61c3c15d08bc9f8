// Command counters shows page views that are lost, and page views that are counted twice.
//
//	go run ./examples/counters                      SQLite
//	go run ./examples/counters -dsn postgres://…    PostgreSQL
//
// Readers open pages at the same moment, and for some of them the answer of the database gets lost, so that the request is
// made again. A service that reads the count, adds one and writes the result loses views. An upsert, count = count + 1, loses
// none, and counts those again that were retried. With the ID of the request (views/views.go) each view counts once:
//
//	_, err := pages.Add(ctx, page, 1, counter.Once(requestID))
//
// It exits with 1 if a view was lost or counted twice, and also if a naive service came through.
package main

import (
	"github.com/holdfast-go/holdfast/examples/counters/views"
	"github.com/holdfast-go/holdfast/examples/internal/story"
)

func main() { story.Main(views.Run) }
