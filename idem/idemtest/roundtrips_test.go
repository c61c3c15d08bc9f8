package idemtest_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/wire/wiretest"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// A rig has a name of its own, since advisory locks are shared by all schemas of a database.
type rig struct {
	*wiretest.Rig
	db    *tx.DB[pgx.Tx]
	keys  *idem.Keys[pgx.Tx]
	cache *idem.Keys[pgx.Tx]
	inbox *idem.Inbox[pgx.Tx]
	ctx   context.Context //nolint:containedctx // it is that of the test
	scope string
	n     int
}

func openRig(t *testing.T, mode pgx.QueryExecMode) *rig {
	t.Helper()
	return openRigAt(t, mode, testdb.Postgres(t))
}

func openRigAt(t *testing.T, mode pgx.QueryExecMode, url string) *rig {
	t.Helper()
	r := &rig{Rig: wiretest.OpenAt(t, mode, url), ctx: t.Context(), scope: t.Name()}
	r.db = pgxtx.New(r.Pool)
	r.forget()
	if err := idem.Migrate(r.ctx, r.db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	r.Exec("create table effect (name text)")
	return r
}

// forget is what another process does not know.
func (r *rig) forget() {
	r.keys = idem.New(r.db, nil)
	r.inbox = idem.NewInbox(r.db, r.scope, nil)
}

// next is a key, or the ID of a message, that has not been used.
func (r *rig) next() string {
	r.n++
	return strconv.Itoa(r.n)
}

// two is a closure with two statements.
func two(ctx context.Context, t pgx.Tx) (string, error) {
	for _, sql := range []string{"insert into effect (name) values ($1)", "update effect set name = $1 where name = 'nobody'"} {
		if _, err := t.Exec(ctx, sql, "somebody"); err != nil {
			return "", err
		}
	}
	return "done", nil
}

// then is two with an error in the end.
func then(err error) func(context.Context, pgx.Tx) (string, error) {
	return func(ctx context.Context, t pgx.Tx) (string, error) {
		_, failed := two(ctx, t)
		return "", errors.Join(err, failed)
	}
}

func handle(ctx context.Context, t pgx.Tx) error {
	_, err := two(ctx, t)
	return err
}

func (r *rig) do(value string, fn func(context.Context, pgx.Tx) (string, error), want error) {
	r.Helper()
	_, err := idem.Do(r.ctx, r.keys, r.key(value), fn)
	r.want(err, want)
}

func (r *rig) want(err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("got error %v, want %v", err, want)
	}
}

// foreign calls fn in a transaction that pgx alone begins.
func (r *rig) foreign(fn func(t pgx.Tx)) {
	r.Helper()
	err := pgx.BeginFunc(r.ctx, r.Pool, func(t pgx.Tx) error {
		fn(t)
		return nil
	})
	if err != nil {
		r.Error(err)
	}
}

func (r *rig) doTx(value string, fn func(context.Context, pgx.Tx) (string, error), want error) {
	r.Helper()
	r.foreign(func(t pgx.Tx) {
		_, err := idem.DoTx(r.ctx, r.keys, t, r.key(value), fn)
		r.want(err, want)
	})
}

func (r *rig) key(value string) idem.Key {
	return idem.Key{Scope: r.scope, Name: "charge", Value: value}
}

// paid is a key with a fingerprint.
func (r *rig) paid(value, amount string) idem.Key {
	k := r.key(value)
	k.Fingerprint = idem.FingerprintOf(amount)
	return k
}

// trips are warm and cold, in the order of wiretest.Modes: default, exec, cache_describe, describe_exec and simple protocol.
type trips [5][2]int

var errNo = errors.New("no")

func ids(r *rig) []string {
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = r.next()
	}
	return ids
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// prepare makes keys and messages that are known, failed, paid, or running in a transaction that lasts as long as the test.
func (r *rig) prepare() {
	r.Helper()
	r.do("known", two, nil)
	r.do("failed", then(idem.Terminal(errNo)), errNo)
	_, err := idem.Do(r.ctx, r.keys, r.paid("paid", "100"), two)
	r.must(err)
	r.cache = idem.New(r.db, &idem.Options{CacheBytes: 1 << 20, CacheFor: time.Hour})
	_, err = idem.Do(r.ctx, r.cache, r.key("known"), two)
	r.must(err)
	_, err = r.inbox.Do(r.ctx, "known", handle)
	r.must(err)
	running, err := r.Direct.Begin(r.ctx)
	r.must(err)
	_, err = idem.DoTx(r.ctx, r.keys, running, r.key("running"), two)
	r.must(err)
	r.Cleanup(func() { _ = running.Rollback(context.Background()) })
}
