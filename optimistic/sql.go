package optimistic

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

// texts are the parts that the statements on one table are made of.
type texts struct {
	d                          *tx.Dialect
	table, key, version, token string // quoted; token may be empty
	tokenText                  string // the token as a text that is never null
	look, lock, lockedLook     string
	noKeyUpdate                string // for rows that are to be written; empty where there is no such lock
}

const lookSQL = `select {version}, {token} from {table} where {key} = $1`

// lockSQL waits for whoever is writing the row. The read that follows then sees what that one wrote. The closure may delete
// the row, so the lock is the strongest.
const lockSQL = `select 1 from {table} where {key} = $1 for update`

// lockClause takes the lock that an update takes: rows that refer to this one can be made meanwhile.
const lockClause = " for no key update"

func newTexts(d *tx.Dialect, t Table) texts {
	s := texts{d: d, table: d.Table(t.Schema, t.Name), key: d.Quote(t.Key), version: d.Quote(t.Version)}
	s.tokenText = "''"
	if t.Token != "" {
		s.token = d.Quote(t.Token)
		s.tokenText = "coalesce(cast(" + s.token + " as text), '')"
	}
	in := strings.NewReplacer("{table}", s.table, "{key}", s.key, "{version}", s.version, "{token}", s.tokenText)
	if d.Capabilities.RowLocks {
		s.noKeyUpdate = lockClause
	}
	s.look, s.lock = in.Replace(lookSQL), in.Replace(lockSQL)
	s.lockedLook = s.look + s.noKeyUpdate
	return s
}

// args are the arguments of one statement.
type args []any

// add returns the placeholder of a new argument.
func (a *args) add(v any) string {
	*a = append(*a, v)
	return fmt.Sprintf("$%d", len(*a))
}

// match returns the condition on the row: its key, its version as a number of 64 bits whatever the column has, and that the
// operation is not the one that wrote it last.
func (s texts) match(a *args, w Want) string {
	text := s.key + " = " + a.add(w.Key)
	if n, ok := w.Version.Int64(); ok {
		text += " and " + s.version + " = cast(" + a.add(n) + " as bigint)"
	}
	if w.Token != "" {
		text += " and (" + s.token + " is null or " + s.token + " <> " + a.add(w.Token) + ")"
	}
	return text
}

// update is "update … set …, version = version + 1 where … returning …". With a token, an operation that has none
// removes it, so that it never stands for what another one wrote.
func (s texts) update(w Want, set map[string]any, returning string) (string, args) {
	var a args
	where := s.match(&a, w)
	var b strings.Builder
	b.WriteString("update " + s.table + " set ")
	for _, column := range slices.Sorted(maps.Keys(set)) {
		b.WriteString(s.d.Quote(column) + " = " + a.add(set[column]) + ", ")
	}
	b.WriteString(s.version + " = " + s.version + " + 1")
	if s.token != "" {
		b.WriteString(", " + s.token + " = " + a.add(tokenOf(w)))
	}
	b.WriteString(" where " + where + " returning " + returning)
	return b.String(), a
}

// insert is "insert … on conflict (key) do nothing returning version".
func (s texts) insert(w Want, set map[string]any, seed bool) (string, args) {
	var a args
	columns, values := []string{s.key}, []string{a.add(w.Key)}
	for _, column := range slices.Sorted(maps.Keys(set)) {
		columns, values = append(columns, s.d.Quote(column)), append(values, a.add(set[column]))
	}
	if w.Token != "" {
		columns, values = append(columns, s.token), append(values, a.add(w.Token))
	}
	if seed {
		columns, values = append(columns, s.version), append(values, s.clock())
	}
	return "insert into " + s.table + " (" + strings.Join(columns, ", ") + ") values (" + strings.Join(values, ", ") +
		") on conflict (" + s.key + ") do nothing returning " + s.version, a
}

// clock is the server's, in microseconds. That of SQLite has milliseconds, so it is filled up at random.
func (s texts) clock() string {
	if s.d == tx.SQLite {
		return s.d.Now + " * 1000 + abs(random() % 1000)"
	}
	return "cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)"
}

func (s texts) remove(w Want) (string, args) {
	var a args
	where := s.match(&a, w)
	return "delete from " + s.table + " where " + where + " returning " + s.version, a
}

// read is the look with columns, each named with its table: SQLite takes an unknown name by itself for a text.
func (s texts) read(columns []string, locked bool) string {
	var b strings.Builder
	b.WriteString("select " + s.version + ", " + s.tokenText)
	for _, column := range columns {
		b.WriteString(", " + s.table + "." + s.d.Quote(column))
	}
	b.WriteString(" from " + s.table + " where " + s.key + " = $1")
	if locked {
		b.WriteString(s.noKeyUpdate)
	}
	return b.String()
}

func tokenOf(w Want) any {
	if w.Token == "" {
		return nil
	}
	return w.Token
}

// columns returns what is wrong with the columns to set.
func (r *Rows[T]) columns(set map[string]any) error {
	for column := range set {
		if err := tx.CheckName(column, 63); err != nil {
			return invalid("a column to set: %v", err)
		}
		if column == r.table.Key || column == r.table.Version || column == r.table.Token {
			return invalid("the column %q is set by the package", column)
		}
	}
	return nil
}
