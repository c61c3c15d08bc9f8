package hook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// failsFirst tells whether the handler fails the first time it sees a delivery: about one in five.
func failsFirst(id string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return h.Sum32()%5 == 0
}

// newLedger returns the work: it writes an entry, and then fails the first time for some events, as handlers do.
func newLedger() Handler {
	var mu sync.Mutex
	seen := map[string]bool{}
	return func(ctx context.Context, conn tx.Conn, id, event string, body []byte) error {
		if _, err := conn.Exec(ctx, "insert into entry (delivery, event, size) values ($1, $2, $3)", id, event, len(body)); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		first := !seen[id]
		seen[id] = true
		if first && failsFirst(id) {
			return errors.New("the ledger cannot be balanced for a moment")
		}
		return nil
	}
}

// A shop is a receiver on trial.
type shop struct{ name, server string }

var (
	checkThenAct = shop{"check, then act", "webhooks, check then act"}
	markFirst    = shop{"mark, then act", "webhooks, mark first"}
	ours         = shop{"holdfast", "webhooks"}
)

func serveCheckThenAct[T any](db *tx.DB[T]) http.Handler { return CheckThenAct(db, newLedger()) }
func serveMarkFirst[T any](db *tx.DB[T]) http.Handler    { return MarkFirst(db, newLedger()) }
func serveOurs[T any](db *tx.DB[T]) http.Handler         { return Ours(db, newLedger()) }

func init() {
	story.RegisterServer(checkThenAct.server, serveCheckThenAct[*sql.Tx], serveCheckThenAct[pgx.Tx])
	story.RegisterServer(markFirst.server, serveMarkFirst[*sql.Tx], serveMarkFirst[pgx.Tx])
	story.RegisterServer(ours.server, serveOurs[*sql.Tx], serveOurs[pgx.Tx])
}

// Migrate makes the tables.
func Migrate[T any](ctx context.Context, db *tx.DB[T]) error {
	if err := idem.Migrate(ctx, db, idem.Names{}); err != nil {
		return err
	}
	for _, table := range []string{
		"create table if not exists naive_mark (id text primary key)",
		"create table if not exists entry (delivery text not null, event text not null, size bigint not null)",
	} {
		if _, err := db.Conn().Exec(ctx, table); err != nil {
			return fmt.Errorf("create the tables of the example: %w", err)
		}
	}
	return nil
}
