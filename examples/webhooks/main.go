// Command webhooks shows a webhook receiver whose provider delivers at least once.
//
//	go run ./examples/webhooks                        SQLite, a few payloads of its own
//	go run ./examples/webhooks -payloads FILE         a JSON object a line, with event, delivery and body
//	go run ./examples/webhooks -dsn postgres://…      PostgreSQL
//	go run ./examples/webhooks -crash                 each receiver is killed with SIGKILL, three times
//
// Each event is delivered one to five times, shuffled and in parallel, and again until the receiver answers 2xx. The
// handler fails the first time for one event in five. Receivers that check and then act handle events twice. Receivers that
// mark and then act lose those whose handler failed. With the mark in the handler's own transaction
// (hook/receiver.go) neither happens:
//
//	inbox.Do(ctx, id, func(ctx context.Context, t T) error {
//		return handle(ctx, db.Tx(t), id, event, body)
//	})
//
// It exits with 1 if an event was handled twice or lost, and also if a naive receiver came through.
package main

import (
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/examples/webhooks/hook"
)

func main() { story.Main(hook.Run) }
