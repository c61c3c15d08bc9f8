// Command tickets shows more tickets sold than there are.
//
//	go run ./examples/tickets                      SQLite
//	go run ./examples/tickets -dsn postgres://…    PostgreSQL
//
// First 500 buyers want the one ticket that is left. Then buyers empty a hall of 1 000 seats, whose count is in 16 slots so
// that they do not queue for one row. A box office that looks whether there are seats, and then takes them off, sells some
// twice. With the condition in the statement (box/sell.go) it cannot:
//
//	_, err := seats.Take(ctx, show, n)
//	if errors.Is(err, counter.ErrInsufficient) { … } // sold out
//
// It exits with 1 if a seat was sold twice, or was left while a buyer was told that there are none, and also if the naive box
// office came through.
package main

import (
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/examples/tickets/box"
)

func main() { story.Main(box.Run) }
