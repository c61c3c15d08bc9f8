// Command service is a small box office, whole, and made to be copied: it imports nothing of this repository but its packages.
//
//	go run ./examples/service -db shop.db
//	curl -i -X PUT localhost:8080/events/gala -H 'If-None-Match: *' -d '{"title": "Gala", "seats": 100}'
//	curl -i localhost:8080/events/gala/tickets -H 'Idempotency-Key: 1' -d '{"buyer": "ann", "seats": 2}'
//
// The second call, repeated with its key as often as you like, sells two seats and answers the same each time. shop.go has what
// it does; this file how it starts and stops.
//
// It keeps its data in SQLite. For PostgreSQL open a *pgxpool.Pool, make db with pgxtx.New, let Tx be pgx.Tx, whose Exec and
// QueryRow lack the suffix Context, and put the schema's folder beside schema/sqlite.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// Tx is the transaction that the service's own SQL runs in.
type Tx = *sql.Tx

func main() {
	file := flag.String("db", "shop.db", "file of the database")
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *addr)
	if err == nil {
		slog.Info("serving", "addr", listener.Addr())
		err = run(ctx, *file, listener)
	}
	if err != nil {
		slog.Error("the service ended", "err", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. What can be wrong with the database is found out before the first request.
func run(ctx context.Context, file string, listener net.Listener) error {
	pool, err := sql.Open("sqlite", file+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	db := sqltx.New(pool, tx.SQLite, nil)
	if err := migrate(ctx, db); err != nil {
		return err
	}
	s := newShop(db, holdfast.SlogObserver(slog.Default()))
	if err := s.check(ctx); err != nil {
		return err
	}
	var sweepers sync.WaitGroup
	defer sweepers.Wait()
	for _, sweep := range s.sweepers() {
		sweepers.Go(func() { _ = sweep(ctx, time.Hour) })
	}
	return serve(ctx, listener, s)
}

// migrate makes the tables of the packages, and the service's own. It may run in every instance at each start.
func migrate(ctx context.Context, db *tx.DB[Tx]) error {
	return errors.Join(
		idem.Migrate(ctx, db, idem.Names{}),
		counter.Migrate(ctx, db, counter.Names{}),
		tx.Migrate(ctx, db, tx.Migrations{Set: "shop", FS: schema}),
	)
}

// serve stops when ctx ends, after the requests that are under way.
func serve(ctx context.Context, listener net.Listener, s *shop) error {
	server := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(ctx), s.close(ctx))
}
