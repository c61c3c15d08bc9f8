package counter

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// Names of the tables, unless Options say otherwise.
const (
	// DefaultTable holds the counters, a row for each slot.
	DefaultTable = "counter"
	// DefaultOps holds the operations that were applied, see [Once].
	DefaultOps = "counter_op"
)

// Options set up [Counters]. The zero value is ready to use.
type Options struct {
	// Observer is told of batches, refusals and repetitions; see the Event constants. Of a batch it is told on a goroutine of none
	// of its calls, where a panic of its own changes no answer and is dropped. Default: silent.
	Observer holdfast.Observer
	// Schema is the schema of the tables. Default: the first of the search path.
	Schema string
	// Table is the table of counters, of 40 bytes at most. [NewColumn] does not use it. Default: "counter".
	Table string
	// Ops is the table of operations, of 40 bytes at most. Default: "counter_op".
	Ops string
	// TTL is how long an operation ID is remembered. It must be longer than the longest path on which an operation can
	// come again. Default: 7 days.
	TTL time.Duration
	// MaxBatch is how many concurrent calls for one counter share a commit at most. 1 gives each its own. Default: 512.
	MaxBatch int
	// BatchTimeout bounds the transaction of a batch. The calls in it then get an error. Default: 10 s.
	BatchTimeout time.Duration
}

// A Column is a column of the caller's own table that counts. It must be of an integer type; null counts as 0.
type Column struct {
	// Schema is the schema of the table. Default: the first of the search path.
	Schema string
	// Table is its name.
	Table string
	// Key is the column that identifies a row. It must be unique, which Check looks at: a change would else be made to each
	// row of a key. Keys are given as text, in the form that the database writes for its type; one that the type does not
	// take is an [*InputError], or on SQLite one of no row.
	Key string
	// Column is the column that counts.
	Column string
	// Max is the largest value that the column holds; the smallest is -Max-1. Default: that of bigint. Give
	// [math.MaxInt32] for integer: the database's own check is an [*InputError] that ends the transaction, this one does
	// not.
	Max int64
}

// Counters are the counters of one table. They are safe for concurrent use.
type Counters[T any] struct {
	db     *tx.DB[T]
	o      Options
	place  place
	ops    opsSQL
	tables []tx.Table
	lanes  lanes
	slots  sync.Map // of a counter that has more than one: how many it had when last seen
	err    error
}

// New returns the counters in the table that [Migrate] makes. A counter that nobody has added to is 0. Nil options work.
// Options that cannot be used are reported by every method and by [Counters.Check].
func New[T any](db *tx.DB[T], o *Options) *Counters[T] {
	c := newCounters(db, o)
	d := db.Dialect()
	c.place = ownPlace(d, c.o.Schema, c.o.Table, c.ops.table)
	c.tables = append(c.tables, tx.Table{
		Schema: c.o.Schema, Name: c.o.Table, Columns: []string{"name", "slot", "slots", "n"},
		Integers: map[string]int64{"n": math.MaxInt64, "slots": maxSlots},
	})
	if c.err == nil {
		c.err = checkName("Options.Table", c.o.Table, 40)
	}
	return c
}

// NewColumn returns the counters in a column of the caller's own table. They have one slot, and a row that does not exist is
// [ErrNotFound]. Operation IDs are kept in the table that [Migrate] makes. Nil options work.
func NewColumn[T any](db *tx.DB[T], column Column, o *Options) *Counters[T] {
	c := newCounters(db, o)
	column.Max = cmp.Or(column.Max, math.MaxInt64)
	c.place = columnPlace(db.Dialect(), column, c.ops.table)
	c.tables = append(c.tables, tx.Table{
		Schema: column.Schema, Name: column.Table, Columns: []string{column.Key, column.Column},
		Integers: map[string]int64{column.Column: column.Max}, Key: column.Key,
		Privileges: []string{"select", "update"},
	})
	for _, part := range []struct{ field, name string }{
		{"Column.Table", column.Table}, {"Column.Key", column.Key}, {"Column.Column", column.Column},
	} {
		if c.err == nil {
			c.err = checkName(part.field, part.name, 63)
		}
	}
	if c.err == nil && column.Max < 0 {
		c.err = &InputError{Name: "Column.Max", Reason: "must not be negative"}
	}
	if c.err == nil {
		c.err = checkSchema(db.Dialect(), "Column.Schema", column.Schema)
	}
	return c
}

func newCounters[T any](db *tx.DB[T], o *Options) *Counters[T] {
	c := &Counters[T]{db: db}
	if o != nil {
		c.o = *o
	}
	c.o.Table, c.o.Ops = cmp.Or(c.o.Table, DefaultTable), cmp.Or(c.o.Ops, DefaultOps)
	c.o.TTL = cmp.Or(c.o.TTL, 7*24*time.Hour)
	c.o.MaxBatch = cmp.Or(c.o.MaxBatch, 512)
	c.o.BatchTimeout = cmp.Or(c.o.BatchTimeout, 10*time.Second)
	c.ops = newOpsSQL(db.Dialect(), c.o.Schema, c.o.Ops)
	c.tables = []tx.Table{{Schema: c.o.Schema, Name: c.o.Ops, Columns: []string{"scope", "name", "op", "delta", "expires_at"}}}
	c.err = cmp.Or(checkName("Options.Ops", c.o.Ops, 40), checkSchema(db.Dialect(), "Options.Schema", c.o.Schema))
	if c.err == nil && (c.o.TTL < 0 || c.o.MaxBatch < 0 || c.o.BatchTimeout < 0) {
		c.err = errors.New("counter: Options.TTL, MaxBatch and BatchTimeout must not be negative")
	}
	return c
}

func checkName(field, name string, longest int) error {
	if err := tx.CheckName(name, longest); err != nil {
		return fmt.Errorf("counter: %s: %w", field, err)
	}
	return nil
}

func checkSchema(d *tx.Dialect, field, schema string) error {
	if schema == "" {
		return nil
	}
	if !d.Capabilities.Schemas {
		return fmt.Errorf("counter: %s: %s has no schemas: leave it empty", field, d.Name)
	}
	return checkName(field, schema, 63)
}

// Check reports, for the start of a service, whether the options are sound, the database can be written to, and the tables
// are there: for [NewColumn] also whether the key is unique, and the column of an integer type that holds Max. See
// [tx.CheckTables] for the errors.
func (c *Counters[T]) Check(ctx context.Context) error {
	if c.err != nil {
		return c.err
	}
	err := tx.CheckTables(ctx, c.db, c.tables...)
	var wrong *tx.ColumnError
	if !c.place.own && errors.As(err, &wrong) && wrong.Largest > 0 {
		return fmt.Errorf("%w; for a column of type integer set Column.Max to math.MaxInt32, for smallint to math.MaxInt16", err)
	}
	return err
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
	// Table is the table of counters. Default: "counter".
	Table string
	// Ops is the table of operations. Default: "counter_op".
	Ops string
}

// Migrate creates the tables, or brings them up to date. It may run at every start, in every process at once. See
// [tx.Migrate] for the errors.
func Migrate[T any](ctx context.Context, db *tx.DB[T], names Names) error {
	return tx.Migrate(ctx, db, tx.Migrations{
		Set:    "counter",
		FS:     Migrations,
		Schema: names.Schema,
		Rename: map[string]string{DefaultTable: cmp.Or(names.Table, DefaultTable), DefaultOps: cmp.Or(names.Ops, DefaultOps)},
	})
}
