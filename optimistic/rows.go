package optimistic

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// A Table is the caller's own table with a version column. All names are quoted as they are.
type Table struct {
	// Schema is the table's schema. Default: the first of the search path.
	Schema string
	// Name is the table's name. Required.
	Name string
	// Key is the column that names a row; it must be unique. Default: "id".
	Key string
	// Version is an integer column that each write increases, such as "version bigint not null default 0". Default: "version".
	Version string
	// Token is a nullable column for the token of the operation that wrote the row last, such as "op text". Default: none, and
	// tokens are refused.
	Token string
}

// Options set up [Rows]. The zero value is ready to use.
type Options struct {
	// Attempts is how often [Rows.Update] runs its closure at most, the first time included. Default: 10.
	Attempts int
	// LockAfter is after how many lost races Update locks the row before it reads. SQLite's one writer is locked from the start.
	// Default: 3. Negative: never.
	LockAfter int
	// Observer is told of conflicts and of what was done about them; see the Event constants. Default: silent.
	Observer holdfast.Observer
	// SeedVersions makes [Rows.Insert] and [Rows.Put] begin at the server's clock in microseconds, so that a row which is deleted
	// and made anew has none of its former versions. The column must be a bigint. Default: the column's own default.
	SeedVersions bool
}

// Rows are the rows of one table, guarded by their versions. They are safe for concurrent use.
type Rows[T any] struct {
	db    *tx.DB[T]
	table Table
	o     Options
	sql   texts
	heat  heat
	err   error
}

// New returns the rows of a table in the database of db. Nil options work. A table that cannot be used is reported by every
// method and by [Rows.Check].
func New[T any](db *tx.DB[T], table Table, o *Options) *Rows[T] {
	r := &Rows[T]{db: db, table: table}
	if o != nil {
		r.o = *o
	}
	r.o.Attempts = max(cmp.Or(r.o.Attempts, 10), 1)
	r.o.LockAfter = cmp.Or(r.o.LockAfter, 3)
	r.table.Key = cmp.Or(table.Key, "id")
	r.table.Version = cmp.Or(table.Version, "version")
	r.err = r.table.check(db.Dialect())
	r.sql = newTexts(db.Dialect(), r.table)
	return r
}

func (t Table) check(d *tx.Dialect) error {
	if t.Schema != "" && !d.Capabilities.Schemas {
		return fmt.Errorf("optimistic: Table.Schema: %s has no schemas: leave it empty", d.Name)
	}
	seen := map[string]bool{}
	for _, name := range []struct{ field, value string }{
		{"Schema", t.Schema}, {"Name", t.Name}, {"Key", t.Key}, {"Version", t.Version}, {"Token", t.Token},
	} {
		if name.value == "" && (name.field == "Schema" || name.field == "Token") {
			continue
		}
		if err := tx.CheckName(name.value, 63); err != nil {
			return fmt.Errorf("optimistic: Table.%s: %w", name.field, err)
		}
		if column := name.field != "Schema" && name.field != "Name"; column && seen[name.value] {
			return fmt.Errorf("optimistic: Table.%s: the column %q has another role already", name.field, name.value)
		} else if column {
			seen[name.value] = true
		}
	}
	return nil
}

// Check reports, for the start of a service, whether the table is there with its columns, the version of an integer type and the
// key unique, and the database takes writes; whether rows can be read and updated, and not whether they can be made and deleted,
// which only some of the methods do. See [tx.CheckTables] for the errors.
func (r *Rows[T]) Check(ctx context.Context) error {
	if r.err != nil {
		return r.err
	}
	columns := []string{r.table.Key, r.table.Version}
	if r.table.Token != "" {
		columns = append(columns, r.table.Token)
	}
	largest := int64(math.MaxInt16)
	if r.o.SeedVersions {
		largest = math.MaxInt64
	}
	return tx.CheckTables(ctx, r.db, tx.Table{
		Schema: r.table.Schema, Name: r.table.Name, Columns: columns,
		Integers: map[string]int64{r.table.Version: largest}, Key: r.table.Key,
		Privileges: []string{"select", "update"},
	})
}

// A Want is the row that a write is for, and the version that its decision was made on.
type Want struct {
	// Key is the value of the key column.
	Key any
	// Version is the one that was read: by whoever decided, which for a form is the user who sent it and not the server that
	// loads the row again.
	Version Version
	// Token names the operation, the same for each of its retries and for no other operation. With it, a retry whose first
	// attempt was applied is told so instead of conflicting with itself, as long as nobody else has written since. Default:
	// none.
	Token string
}

// ready returns what is wrong with w, before anything is sent.
func (r *Rows[T]) ready(w Want) error {
	if r.err != nil {
		return r.err
	}
	if err := checkKey(w.Key); err != nil {
		return err
	}
	if w.Token == "" {
		return nil
	}
	if r.table.Token == "" {
		return invalid("there is a token, and Table.Token names no column for it")
	}
	if !sound(w.Token) || len(w.Token) > 255 {
		return invalid("the token must be UTF-8 without NUL, of 255 bytes at most")
	}
	return nil
}

// maxKey is the size of a key that no index takes.
const maxKey = 8 << 10

// checkKey keeps from the database what it would end the transaction for.
func checkKey(key any) error {
	value, err := sent(key)
	if err != nil {
		return fmt.Errorf("%w: the key: %w", ErrInvalid, err)
	}
	if value == nil {
		return invalid("the key is nil")
	}
	if text := reflect.ValueOf(value); text.Kind() == reflect.String && (!sound(text.String()) || text.Len() > maxKey) {
		return invalid("the key must be UTF-8 without NUL, of %d bytes at most", maxKey)
	}
	return nil
}

func sound(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
