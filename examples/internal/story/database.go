package story

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
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
	// URL is the address that Open functions take; it can be handed to another process.
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
		return Place{URL: "file:" + filepath.Join(dir, "story.db"), Remove: func() { _ = os.RemoveAll(dir) }}, nil
	}
	var random [6]byte
	if _, err := rand.Read(random[:]); err != nil {
		return Place{}, err
	}
	schema := "story_" + hex.EncodeToString(random[:])
	if err := onPostgres(ctx, dsn, "create schema "+schema); err != nil {
		return Place{}, err
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return Place{}, fmt.Errorf("-dsn: %w", err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return Place{URL: u.String(), Remove: func() {
		_ = onPostgres(context.WithoutCancel(ctx), dsn, "drop schema "+schema+" cascade")
	}}, nil
}

func onPostgres(ctx context.Context, dsn, query string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect to the database of -dsn: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, query)
	return err
}

// IsPostgres tells where the place is.
func (p Place) IsPostgres() bool { return !strings.HasPrefix(p.URL, "file:") }

// Backend names the engine, for reports.
func (p Place) Backend() string {
	if p.IsPostgres() {
		return "postgres"
	}
	return "sqlite"
}

// OpenSQLite opens the place as SQLite. With a write-ahead log, readers do not wait for the writer.
func (p Place) OpenSQLite() (*tx.DB[*sql.Tx], func(), error) {
	pool, err := sql.Open("sqlite", p.URL+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, nil, err
	}
	return sqltx.New(pool, tx.SQLite, nil), func() { _ = pool.Close() }, nil
}

// OpenPostgres opens the place as PostgreSQL, through pgx.
func (p Place) OpenPostgres(ctx context.Context) (*tx.DB[pgx.Tx], func(), error) {
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
