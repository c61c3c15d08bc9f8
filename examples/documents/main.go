// Command documents shows two editors of one document.
//
//	go run ./examples/documents                        SQLite, no server needed
//	go run ./examples/documents -dsn postgres://…      PostgreSQL
//
// A service that writes whatever comes lets the second editor overwrite what the first has saved, and tells neither. With a version
// in the row and the ETag of what was loaded in If-Match, the second is refused with 412, and loads again (edit/editor.go):
//
//	cond, err := optimistic.ParseCondition(r.Header)
//	…
//	v, created, err := docs.Put(ctx, optimistic.Want{Key: id}, cond, optimistic.PlainRefuse, map[string]any{"body": body})
//	if optimistic.Refuse(w, err) { // 412 with the current ETag, 428 without If-Match, 400
//		return
//	}
//	w.Header().Set("ETag", v.ETag())
//
// It exits with 1 if an edit was lost, and also if the naive service lost none.
package main

import (
	"github.com/holdfast-go/holdfast/examples/documents/edit"
	"github.com/holdfast-go/holdfast/examples/internal/story"
)

func main() { story.Main(edit.Run) }
