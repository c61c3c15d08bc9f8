package tx

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// maxName bounds table names, so that the names of indexes, which begin with them, fit into the 63 bytes that
// PostgreSQL keeps of a name.
const maxName = 40

// Migrations are the numbered schema changes of one package, with the names that its tables have in one database.
type Migrations struct {
	// Set names the package in the history table.
	Set string
	// FS holds a folder for each dialect, by [Dialect.Name], with files NNNN_name.up.sql. They run in order, forward
	// only, and never change once they are released. goose, golang-migrate, atlas and psql take the same files.
	FS fs.FS
	// Schema is where the tables go. It is created if it is missing. Default: the first of the search path.
	Schema string
	// Rename maps the table names that stand in the files to those to use.
	Rename map[string]string
}

// A MigrationError says which migration of which set is at fault, and why.
type MigrationError struct {
	Set  string
	Name string
	Err  error
}

func (e *MigrationError) Error() string {
	return fmt.Sprintf("tx: migration %s of %s: %v", e.Name, e.Set, e.Err)
}

// Unwrap returns Err.
func (e *MigrationError) Unwrap() error { return e.Err }

// Errors of migrations.
var (
	// ErrMigrationName: a file is not named NNNN_name.up.sql.
	ErrMigrationName = errors.New("the name must be NNNN_name.up.sql, of lower case letters, digits and _")
	// ErrMigrationGap: the numbers do not count 1, 2, 3, ….
	ErrMigrationGap = errors.New("the numbers must count up from 0001 without a gap or a repetition")
	// ErrMigrationChanged: a migration differs from the one that was applied under its number.
	ErrMigrationChanged = errors.New("it was changed after it was applied: restore it, and put the change into a new one")
)

type migration struct {
	number   int
	name     string
	sql      string
	checksum string
}

var migrationName = regexp.MustCompile(`^([0-9]{4})_[a-z0-9_]+\.up\.sql$`)

// migrationNumber returns the number in the name of a migration.
func migrationNumber(name string) (int, error) {
	m := migrationName.FindStringSubmatch(name)
	if m == nil {
		return 0, ErrMigrationName
	}
	return strconv.Atoi(m[1])
}

// load reads the migrations for a dialect, in order, with their tables renamed.
func (m Migrations) load(d *Dialect) ([]migration, error) {
	rename, err := m.renamer(d)
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(m.FS, d.Name)
	if err != nil {
		return nil, &MigrationError{Set: m.Set, Name: d.Name, Err: err}
	}
	list := make([]migration, 0, len(entries))
	for _, entry := range entries {
		number, err := migrationNumber(entry.Name())
		if err != nil {
			return nil, &MigrationError{Set: m.Set, Name: entry.Name(), Err: err}
		}
		text, err := fs.ReadFile(m.FS, d.Name+"/"+entry.Name())
		if err != nil {
			return nil, &MigrationError{Set: m.Set, Name: entry.Name(), Err: err}
		}
		sum := sha256.Sum256(text)
		list = append(list, migration{number: number, name: entry.Name(), sql: rename(string(text)), checksum: hex.EncodeToString(sum[:])})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].number < list[j].number })
	for i, step := range list {
		if step.number != i+1 {
			return nil, &MigrationError{Set: m.Set, Name: step.name, Err: ErrMigrationGap}
		}
	}
	return list, nil
}

// renamer returns a function that replaces the quoted names of tables, and of the indexes that begin with them. Of two
// tables of which one begins with the name of the other, the longer one is looked for first.
func (m Migrations) renamer(d *Dialect) (func(string) string, error) {
	if m.Schema != "" {
		if !d.Capabilities.Schemas {
			return nil, fmt.Errorf("tx: schema %q: %s has no schemas: leave it empty", m.Schema, d.Name)
		}
		if err := CheckName(m.Schema, 63); err != nil {
			return nil, err
		}
	}
	var olds []string
	for old, name := range m.Rename {
		if err := CheckName(name, maxName); err != nil {
			return nil, err
		}
		olds = append(olds, regexp.QuoteMeta(old))
	}
	if len(olds) == 0 {
		return func(sql string) string { return sql }, nil
	}
	slices.SortFunc(olds, func(a, b string) int { return len(b) - len(a) })
	tables := regexp.MustCompile(`"(` + strings.Join(olds, "|") + `)(_[a-z0-9_]+)?"`)
	return func(sql string) string {
		return tables.ReplaceAllStringFunc(sql, func(quoted string) string {
			found := tables.FindStringSubmatch(quoted)
			return d.Quote(m.Rename[found[1]] + found[2])
		})
	}, nil
}
