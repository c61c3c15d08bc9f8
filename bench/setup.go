package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/avito-tech/go-transaction-manager/trm/v2/manager"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"

	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// setup is a schema of the benchmark's own, and all that the variants share.
type setup struct {
	proxy     *wire.Proxy // nil without a delay
	pool      *pgxpool.Pool
	std       *sql.DB
	db        *tx.DB[pgx.Tx]
	keys      *idem.Keys[pgx.Tx]
	leased    *idem.Leased[*idem.RunTx[pgx.Tx]]
	hotKeys   []*idem.Keys[pgx.Tx]
	inbox     *idem.Inbox[pgx.Tx]
	locks     *pessimistic.Locks[pgx.Tx]
	counters  *counter.Counters[pgx.Tx]
	slotted   *counter.Counters[pgx.Tx]
	stdKeys   *idem.Keys[*sql.Tx]
	elsewhere []elsewhere
	web       *web

	serializable *tx.DB[pgx.Tx]
	trm          *manager.Manager
	gorm         *gorm.DB
	docs         docs

	redis   *redisSetup // nil outside of its groups
	closers []func()    // what groups opened besides

	drop func() error
}

// open makes a schema in the database at url, reached with delay added to each direction.
func open(ctx context.Context, url string, delay time.Duration, callers int) (s *setup, err error) {
	s = &setup{elsewhere: make([]elsewhere, callers), drop: func() error { return nil }}
	defer func(opened *setup) { // an error return has set s to nil
		if err != nil {
			_ = opened.close()
		}
	}(s)
	schema := "holdfast_bench_" + strconv.Itoa(os.Getpid())
	direct := url
	if err := execute(ctx, direct, "drop schema if exists "+schema+" cascade; create schema "+schema); err != nil {
		return nil, err
	}
	s.drop = func() error { // also after an interrupt
		return execute(context.WithoutCancel(ctx), direct, "drop schema "+schema+" cascade")
	}
	if delay > 0 {
		if s.proxy, err = wire.Start(url, delay); err != nil {
			return nil, err
		}
		url = s.proxy.URL()
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	// A replay gives its connection back a moment after it returned.
	config.MaxConns = int32(callers + 8) //nolint:gosec // a few dozen
	config.ConnConfig.RuntimeParams["search_path"] = schema
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	s.std = stdlib.OpenDB(*config.ConnConfig)
	s.std.SetMaxOpenConns(callers + 8)
	s.std.SetMaxIdleConns(callers + 8)
	for _, schema := range []string{rawSchema, transferSchema} {
		if _, err := s.pool.Exec(ctx, schema); err != nil {
			return nil, err
		}
	}
	if s.web, err = openWeb(ctx); err != nil {
		return nil, err
	}
	if err := s.fill(ctx); err != nil {
		return nil, err
	}
	return s, s.openDocs(ctx, callers)
}

func (s *setup) fill(ctx context.Context) error {
	s.db = pgxtx.New(s.pool)
	s.locks = pessimistic.New(s.db, nil)
	s.keys, s.inbox = idem.New(s.db, nil), idem.NewInbox(s.db, "bench", nil)
	for range burst {
		s.hotKeys = append(s.hotKeys, idem.New(s.db, &idem.Options{Wait: time.Minute}))
	}
	if err := idem.Migrate(ctx, s.db, idem.Names{}); err != nil {
		return err
	}
	if err := s.openRunners(ctx); err != nil {
		return err
	}
	if err := s.fillCounters(ctx); err != nil {
		return err
	}
	s.stdKeys = idem.New(sqltx.New(s.std, tx.PostgreSQL, nil), nil)
	for i := range int64(knownKeys) {
		key := known(i)
		if _, err := idem.Do(ctx, s.keys, idemKey(key), charge(key)); err != nil {
			return err
		}
		if err := s.pool.QueryRow(ctx, claimSQL, key, fingerprint(key)).Scan(new(int)); err != nil {
			return err
		}
		if err := pgx.BeginFunc(ctx, s.pool, func(t pgx.Tx) error { return finish(ctx, t, key) }); err != nil {
			return err
		}
	}
	return nil
}

func execute(ctx context.Context, url, statements string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statements)
	return err
}

func (s *setup) close() error {
	for _, closeIt := range s.closers {
		closeIt()
	}
	if s.pool != nil {
		s.pool.Close()
	}
	if s.std != nil {
		_ = s.std.Close()
	}
	if s.proxy != nil {
		_ = s.proxy.Close()
	}
	if s.web != nil {
		_ = s.web.close()
	}
	return errors.Join(s.redis.close(), s.drop())
}
