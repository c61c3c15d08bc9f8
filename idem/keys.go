package idem

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// Options set up [Keys]. The zero value is ready to use.
type Options struct {
	// AllowReuse lets a key whose answer has expired be used for a new operation, whatever its fingerprint. Default: such a
	// key is refused with [ErrKeyExpired], since the caller may mean the old operation.
	AllowReuse bool
	// CacheBytes is about how much memory this process may spend on answers that it has given. A repetition by [Do] with the
	// same fingerprint then costs no round trip. It may get an answer for up to CacheFor after it has expired, or another
	// process has deleted or erased it. What Codecs have sealed stays sealed in memory. Default: 0, which keeps none.
	CacheBytes int
	// CacheFor is how long an answer is kept in memory, TTL at most. Default: 1 minute.
	CacheFor time.Duration
	// Codecs seal the answers in the table, failures too: the first seals, and each opens what it has sealed. The scope, the
	// name and the status stay readable, and answers from before are read as they are. See [AESGCM]. Default: none, which
	// keeps answers plain.
	Codecs []Codec
	// KeepFailedWrites commits what a closure wrote before it returned a [*Failure] that is stored. Default: the writes
	// are undone.
	KeepFailedWrites bool
	// MaxBody is the size in bytes above which an answer is not kept. The operation is then done once all the same, and
	// its repetitions get [ErrNotRetained]. Default: 1 MiB. Negative: no answer is kept.
	MaxBody int
	// Observer is told of every claim, replay and refusal; see the Event constants. Default: silent.
	Observer holdfast.Observer
	// Schema is the schema of the table. Set it if closures change search_path. Default: the first of the search path.
	Schema string
	// Table is the table's name, of 40 bytes at most. Default: "idem_key".
	Table string
	// Tombstone is for how long after its answer has expired a key is remembered, without the answer: a late retry is then
	// refused with [ErrKeyExpired], where it would do the work again. Once [Keys.Sweep] has removed the key, it is new.
	// Default: as long as TTL. Negative: the key goes with its answer.
	Tombstone time.Duration
	// TTL is how long an answer is kept. Make it longer than the longest path on which a retry can come. Default: 24 hours.
	TTL time.Duration
	// Wait is how long a duplicate waits for the answer of the one that is running before it gets [ErrInFlight]. A
	// duplicate of [Do] holds no connection while it waits. On SQLite, which has one writer, one in another process waits for
	// that writer instead, as long as the busy timeout allows. Default: 0, which refuses at once.
	Wait time.Duration
}

// Default table names.
const (
	DefaultTable      = "idem_key"
	DefaultInboxTable = "idem_inbox"
)

// Keys are the idempotency keys of one table. They are safe for concurrent use.
type Keys[T any] struct {
	core

	db        *tx.DB[T]
	sql       keySQL
	eraseSQL  eraseSQL
	table     tx.Table
	snapshots atomic.Bool // claims have met transactions with one snapshot
}

// New returns the keys in the database of db. Nil options work. Options that cannot be used are reported by every method
// and by [Keys.Check].
func New[T any](db *tx.DB[T], o *Options) *Keys[T] {
	k := &Keys[T]{core: core{seen: &recent{}}, db: db}
	if o != nil {
		k.o = *o
	}
	k.o.Table = cmp.Or(k.o.Table, DefaultTable)
	k.o.TTL = cmp.Or(k.o.TTL, 24*time.Hour)
	k.o.Tombstone = cmp.Or(k.o.Tombstone, k.o.TTL)
	k.o.MaxBody = cmp.Or(k.o.MaxBody, 1<<20)
	k.table = tx.Table{Schema: k.o.Schema, Name: k.o.Table, Columns: keyColumns}
	k.err = checkOptions(db.Dialect(), k.o.Schema, k.o.Table, k.o.TTL, k.o.Wait)
	k.sql = newKeySQL(db.Dialect(), k.o.Schema, k.o.Table, k.o.AllowReuse)
	k.eraseSQL = newEraseSQL(db.Dialect(), k.o.Schema, k.o.Table)
	k.cache = newCache(k.o.CacheBytes, min(cmp.Or(k.o.CacheFor, time.Minute), k.o.TTL))
	var err error
	if k.codecs, err = newCodecs(k.o.Codecs); k.err == nil {
		k.err = cmp.Or(err, checkCache(k.o))
	}
	if k.err != nil {
		k.err = toldError{k.err, holdfast.NotApplied}
	}
	return k
}

func checkOptions(d *tx.Dialect, schema, table string, ttl, wait time.Duration) error {
	if err := tx.CheckName(table, 40); err != nil {
		return fmt.Errorf("idem: Options.Table: %w", err)
	}
	if schema != "" {
		if !d.Capabilities.Schemas {
			return fmt.Errorf("idem: Options.Schema: %s has no schemas: leave it empty", d.Name)
		}
		if err := tx.CheckName(schema, 63); err != nil {
			return fmt.Errorf("idem: Options.Schema: %w", err)
		}
	}
	if ttl < 0 || wait < 0 {
		return fmt.Errorf("idem: Options.TTL and Options.Wait must not be negative")
	}
	return nil
}

// DB returns the database that the keys are in: for what is done in its transactions without a key.
func (k *Keys[T]) DB() *tx.DB[T] { return k.db }

// Check reports, for the start of a service, whether the options are sound, the database can be written to, and the table
// is migrated. See [tx.CheckTables] for the errors.
func (k *Keys[T]) Check(ctx context.Context) error {
	if k.err != nil {
		return k.err
	}
	return tx.CheckTables(ctx, k.db, k.table)
}

//go:embed migrations
var migrations embed.FS

// Migrations holds the schema, a folder for each dialect. [Migrate] applies it; goose, golang-migrate, atlas and psql take
// the same files.
var Migrations, _ = fs.Sub(migrations, "migrations") // which fails only for a path that is none

// Names are the names of the tables in one database. The zero value means the defaults.
type Names struct {
	// Schema is the schema of both tables and of the history, holdfast_migration. Migrate creates it if it is missing.
	// Default: the first of the search path.
	Schema string
	// Keys is the table of [Keys]. Default: "idem_key".
	Keys string
	// Inbox is the table of [Inbox]. Default: "idem_inbox".
	Inbox string
}

// Migrate creates the tables, or brings them up to date. It may run at every start, in every process at once. See
// [tx.Migrate] for the errors.
func Migrate[T any](ctx context.Context, db *tx.DB[T], names Names) error {
	return tx.Migrate(ctx, db, tx.Migrations{
		Set:    "idem",
		FS:     Migrations,
		Schema: names.Schema,
		Rename: map[string]string{
			DefaultTable:      cmp.Or(names.Keys, DefaultTable),
			DefaultInboxTable: cmp.Or(names.Inbox, DefaultInboxTable),
		},
	})
}
