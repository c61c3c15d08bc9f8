package pessimistic

import (
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/tx"
)

// A Table is a table of the caller's whose rows are locked. Its names are quoted. Name it in one way everywhere: tables are
// locked in the order of their names.
type Table struct {
	// Schema is the table's schema. Default: the search path.
	Schema string
	// Name is the table's name. Required.
	Name string
	// Key is the one column that identifies a row: the primary key, or a unique column that nobody changes. Default: "id".
	Key string
}

// column returns the quoted name of a column with that of its table: SQLite takes an unknown name by itself for a text.
func (t Table) column(d *tx.Dialect, name string) string {
	return d.Quote(t.Name) + "." + d.Quote(name)
}

func (t Table) key() string {
	if t.Key == "" {
		return "id"
	}
	return t.Key
}

const maxName = 63 // bytes, what PostgreSQL keeps of a name

func (t Table) check(columns ...string) error {
	names := append([]string{t.Name, t.key()}, columns...)
	if t.Schema != "" {
		names = append(names, t.Schema)
	}
	for _, name := range names {
		if err := tx.CheckName(name, maxName); err != nil {
			return &InputError{Name: t.Name, Reason: "a name of the table cannot be used", Err: err}
		}
	}
	return nil
}

// Rows are rows of a table, to be locked.
type Rows struct {
	table Table
	keys  []any
	read  reading
}

// reading is what to do with the columns of locked rows.
type reading struct {
	columns []string
	dest    []any
	each    func(row int) error
}

// rows returns what to call for each row of one attempt.
func (r reading) rows() func() error {
	row := -1
	return func() error {
		row++
		if r.each == nil {
			return nil
		}
		return r.each(row)
	}
}

// Rows names rows by their keys, in any order. A key that is there twice counts once. The keys must be of one type, such as
// int64, string, [16]byte or one that scans itself.
func (t Table) Rows(keys ...any) Rows { return Rows{table: t, keys: keys} }

// Read returns the same rows with columns that are read under the lock, in the same round trip: for each row, in the order
// of locking, they are scanned into dest, and each is called with the number of the row, from 0. The
// transaction may run again, so what each collects begins anew with row 0. Its error is that of the call.
func (r Rows) Read(columns []string, dest []any, each func(row int) error) Rows {
	r.read = reading{columns, dest, each}
	return r
}

func (r reading) check(name string) error {
	switch {
	case len(r.columns) != len(r.dest):
		return &InputError{Name: name, Reason: "Read needs a destination for each column"}
	case len(r.columns) > 0 && r.each == nil:
		return &InputError{Name: name, Reason: "Read needs a function to call for each row"}
	}
	return nil
}

// ordered returns the rows in the order in which tables are locked: by name, then schema, so that it does not matter who
// spells the schema out. The rows of a table are put in order by the database, which alone knows how it compares keys.
func ordered(rows []Rows) ([]Rows, error) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r Rows) bool { return len(r.keys) == 0 })
	slices.SortStableFunc(rows, func(a, b Rows) int {
		return cmp.Or(cmp.Compare(a.table.Name, b.table.Name), cmp.Compare(a.table.Schema, b.table.Schema))
	})
	for i, r := range rows {
		if err := r.table.check(r.read.columns...); err != nil {
			return nil, err
		}
		if err := r.read.check(r.table.Name); err != nil {
			return nil, err
		}
		if i > 0 && rows[i-1].table.Name == r.table.Name && rows[i-1].table.Schema == r.table.Schema {
			return nil, &InputError{Name: r.table.Name, Reason: "the table is there twice: put all its keys into one Rows, so that they are locked in one order"}
		}
	}
	return rows, nil
}
