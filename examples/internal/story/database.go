package story

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // the embedded database

	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// A Place is where the data of one run lives: a SQLite file or a PostgreSQL schema.
type Place struct {
	// URL is the address of the database; it can be handed to another process.
	URL string
	// Remove drops the data.
	Remove func()
}

// NewPlace makes an empty place: a schema in the PostgreSQL database of dsn, or a file if dsn is empty.
func NewPlace(ctx context.Context, dsn string) (Place, error) {
	if dsn == "" {
		dir, err := os.MkdirTemp("", "holdfast-example-")
		if err != nil {
			return Place{}, err
		}
		return Place{URL: "file:" + filepath.ToSlash(filepath.Join(dir, "story.db")), Remove: func() { _ = os.RemoveAll(dir) }}, nil
	}
	u, err := url.Parse(dsn)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return Place{}, errors.New("-dsn must be a URL such as postgres://user:password@127.0.0.1:5432/database")
	}
	var random [6]byte
	if _, err := rand.Read(random[:]); err != nil {
		return Place{}, err
	}
	schema := "story_" + hex.EncodeToString(random[:])
	if err := onServer(ctx, dsn, "create schema "+schema); err != nil {
		return Place{}, err
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return Place{URL: u.String(), Remove: func() {
		_ = onServer(context.WithoutCancel(ctx), dsn, "drop schema "+schema+" cascade")
	}}, nil
}

func onServer(ctx context.Context, dsn, query string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect to the database of -dsn: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, query)
	return err
}

// isPostgres tells where the place is.
func (p Place) isPostgres() bool { return !strings.HasPrefix(p.URL, "file:") }

// Backend names the engine that dsn means, for reports.
func Backend(dsn string) string {
	if dsn == "" {
		return "sqlite"
	}
	return "postgres"
}

// On opens the database and calls the function for its engine. A generic function f is given as f[*sql.Tx], f[pgx.Tx].
func (p Place) On(ctx context.Context, onSQLite func(context.Context, *tx.DB[*sql.Tx]) error, onPostgres func(context.Context, *tx.DB[pgx.Tx]) error) error {
	if !p.isPostgres() {
		db, closeDB, err := p.openSQLite()
		if err != nil {
			return err
		}
		defer closeDB()
		return onSQLite(ctx, db)
	}
	db, closeDB, err := p.openPostgres(ctx)
	if err != nil {
		return err
	}
	defer closeDB()
	return onPostgres(ctx, db)
}

// openSQLite opens the file. With a write-ahead log, readers do not wait for the writer.
func (p Place) openSQLite() (*tx.DB[*sql.Tx], func(), error) {
	pool, err := sql.Open("sqlite", p.URL+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(60000)")
	if err != nil {
		return nil, nil, err
	}
	pool.SetMaxOpenConns(16) // to queue up here is fair, which SQLite's own waiting is not
	return sqltx.New(pool, tx.SQLite, nil), func() { _ = pool.Close() }, nil
}

func (p Place) openPostgres(ctx context.Context) (*tx.DB[pgx.Tx], func(), error) {
	config, err := pgxpool.ParseConfig(p.URL)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	return pgxtx.New(pool), pool.Close, nil
}
