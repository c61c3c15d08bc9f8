// Command writeskew shows two doctors on call who leave at the same moment, each because the other is there.
//
//	go run ./examples/writeskew -dsn postgres://…
//
// The rule is that somebody stays. Each transaction looks who is on call, sees two, and takes its own doctor off: they
// write different rows, so no lock and no constraint brings them together, and at READ COMMITTED and REPEATABLE READ both
// commit. At SERIALIZABLE PostgreSQL lets one of them fail, and tx.Do runs it again (oncall/oncall.go):
//
//	db = db.With(tx.Options{Isolation: tx.Serializable})
//	err := db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
//		… // the second time it sees that the other has left, and stays
//	})
//
// The closure is the same at every level. SQLite has one writer at a time and cannot show the fault, so this needs
// PostgreSQL.
//
// It exits with 1 if a shift is left without a doctor at SERIALIZABLE, and also if the other levels came through.
package main

import (
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/examples/writeskew/oncall"
)

func main() { story.Main(oncall.Run) }
