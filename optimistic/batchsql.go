package optimistic

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

// manySQL locks all rows in the order of their keys, and only then, in the same statement, writes those whose version and
// token allow it. FOR UPDATE returns each row as it is once the lock is held, so that the versions are those that decide.
// The count makes the locks come first: it is computed whole before the update looks at its first row.
// Two keys that are one to the database, such as 1 and 01, keep all from being written.
// Some row, whichever, gives the wanted ones their form: in one of no row, each domain that is NOT NULL would refuse the columns
// that the batch has nothing to do with. A column of its alias's name would take
// its place, and a table of the caller's that of a part of the statement: hence the names. Without any row there is nothing to write.
const manySQL = `with holdfast_sent as materialized (
	select $1::jsonb as j
), holdfast_form as materialized (
	select holdfast_row as whole from {table} holdfast_row order by holdfast_row.{key} limit 1
), holdfast_wanted as materialized (
	select w.i, (w.j->>'v')::bigint as v, w.j->>'t' as t, jsonb_populate_record(form.whole, w.j->'r'{documents}) as p
	from holdfast_sent sent, holdfast_form form, jsonb_array_elements(sent.j->'items') with ordinality as w(j, i)
), holdfast_locked as materialized (
	select r.{key} as k, r.{version} as v, {token} as t from {table} r
	where r.{key} in (select (w.p).{key} from holdfast_wanted w) order by r.{key} for update
), holdfast_done as (
	update {table} r set {set} from holdfast_wanted w
	where (select count(*) from holdfast_locked) > 0 and (select count(*) = count(distinct (p).{key}) from holdfast_wanted) and r.{key} = (w.p).{key} and r.{version} = w.v {fresh}
	returning r.{key} as k, r.{version} as v
)
select w.i, d.v, l.v, coalesce(l.t, ''), count(*) over (partition by (w.p).{key}) from holdfast_wanted w left join holdfast_locked l on l.k = (w.p).{key} left join holdfast_done d on d.k = (w.p).{key}`

// documentSQL reads a text for a column of JSON, which would otherwise become a JSON string, as the document that it is.
const documentSQL = ` || case when jsonb_typeof(w.j->'r'->(sent.j->'columns'->>{n})) = 'string'
	and pg_typeof((form.whole).{column}) in ('json'::regtype, 'jsonb'::regtype)
	then jsonb_build_object(sent.j->'columns'->>{n}, (w.j->'r'->>(sent.j->'columns'->>{n}))::jsonb) else '{}' end`

// manyPostgres sends the items as JSON: populating a record of the table gives each value the type of its column.
func (r *Rows[T]) manyPostgres(ctx context.Context, conn tx.Conn, columns []string, items []Item, sent []int, out []found) error {
	type line struct {
		Version Version        `json:"v"`
		Token   any            `json:"t"`
		Row     map[string]any `json:"r"`
	}
	lines, texts := make([]line, len(sent)), map[string]bool{}
	for n, i := range sent {
		row := map[string]any{}
		values := maps.Clone(items[i].Set)
		if values == nil {
			values = map[string]any{}
		}
		values[r.table.Key] = items[i].Key
		for column, value := range values {
			value, err := plain(value)
			if err != nil {
				return fmt.Errorf("%w: item %d: the value of %q: %w", ErrInvalid, i, column, err)
			}
			row[column] = value
			texts[column] = texts[column] || reflect.ValueOf(value).Kind() == reflect.String
		}
		lines[n] = line{items[i].Version, tokenOf(items[i].Want), row}
	}
	text, err := json.Marshal(map[string]any{"columns": columns, "items": lines})
	if err != nil {
		return invalid("a value of the batch has no JSON: %v", err)
	}
	var documents strings.Builder
	for n, column := range columns {
		if texts[column] {
			documents.WriteString(strings.NewReplacer("{n}", strconv.Itoa(n), "{column}", r.sql.d.Quote(column)).Replace(documentSQL))
		}
	}
	var set []string
	for _, column := range columns {
		set = append(set, r.sql.d.Quote(column)+" = (w.p)."+r.sql.d.Quote(column))
	}
	set = append(set, r.sql.version+" = r."+r.sql.version+" + 1")
	token, fresh := "''", ""
	if r.sql.token != "" {
		set = append(set, r.sql.token+" = w.t")
		token = "cast(r." + r.sql.token + " as text)"
		fresh = "and (w.t is null or r." + r.sql.token + " is null or r." + r.sql.token + " <> w.t)"
	}
	query := strings.NewReplacer("{table}", r.sql.table, "{key}", r.sql.key, "{version}", r.sql.version, "{token}", token,
		"{fresh}", fresh, "{documents}", documents.String(), "{set}", strings.Join(set, ", ")).Replace(manySQL)
	rows, err := conn.Query(ctx, query, string(text))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		var wrote, current *int64
		var token string
		var times int
		if err := rows.Scan(&n, &wrote, &current, &token, &times); err != nil {
			return err
		}
		if times > 1 {
			return sameRow(sent[n-1])
		}
		out[sent[n-1]] = found{versionOf(wrote), versionOf(current), token}
	}
	return rows.Err()
}

func sameRow(i int) error {
	return invalid("item %d: another one has a key that the database takes for the same", i)
}

func versionOf(n *int64) Version {
	if n == nil {
		return Version{}
	}
	return At(*n)
}

// parametersOnce is how many go into one statement. SQLite takes 32766, but it and its drivers look through all of them for each.
const parametersOnce = 1000

// manySQLite is a few updates. There is one writer, which the transaction is from its start, so that what is read first is
// what it decides on; the versions of what it wrote are theirs plus 1. All is read before any is written, since two keys may be
// one to the database.
func (r *Rows[T]) manySQLite(ctx context.Context, conn tx.Conn, columns []string, items []Item, sent []int, out []found) error {
	chunk := max(1, parametersOnce/(4+len(columns)))
	before, wrote := map[string]keyed{}, map[string]keyed{}
	for some := range slices.Chunk(sent, chunk) {
		with, a := valuesSQLite(columns, items, some)
		token := r.sql.tokenText
		if r.sql.token != "" {
			token = "coalesce(cast(r." + r.sql.token + " as text), '')"
		}
		if err := readMany(ctx, conn, before, with+"select quote(r."+r.sql.key+"), r."+r.sql.version+", w.i, "+token+
			" from holdfast_w w join "+r.sql.table+" r on r."+r.sql.key+" = w.k", a); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(sent, chunk) {
		with, a := valuesSQLite(columns, items, some)
		if err := readMany(ctx, conn, wrote, with+r.updateSQLite(columns), a); err != nil {
			return err
		}
	}
	for key, f := range before {
		out[f.item] = found{wrote[key].version, f.version, f.token}
	}
	return nil
}

// valuesSQLite returns the items as a table holdfast_w. Names of parameters would be searched for one by one, so they have none.
func valuesSQLite(columns []string, items []Item, sent []int) (with string, a args) {
	names := []string{"i", "k", "v", "t"}
	for n := range columns {
		names = append(names, fmt.Sprintf("c%d", n))
	}
	for _, i := range sent {
		n, _ := items[i].Version.Int64()
		a = append(a, i, items[i].Key, n, tokenOf(items[i].Want))
		for _, column := range columns {
			a = append(a, items[i].Set[column])
		}
	}
	line := "(?" + strings.Repeat(", ?", len(names)-1) + ")"
	return "with holdfast_w(" + strings.Join(names, ", ") + ") as (values " + line + strings.Repeat(", "+line, len(sent)-1) + ") ", a
}

func (r *Rows[T]) updateSQLite(columns []string) string {
	var set []string
	for n, column := range columns {
		set = append(set, fmt.Sprintf("%s = w.c%d", r.sql.d.Quote(column), n))
	}
	set = append(set, r.sql.version+" = r."+r.sql.version+" + 1")
	fresh := ""
	if r.sql.token != "" {
		set = append(set, r.sql.token+" = w.t")
		fresh = " and (w.t is null or r." + r.sql.token + " is null or r." + r.sql.token + " <> w.t)"
	}
	return "update " + r.sql.table + " as r set " + strings.Join(set, ", ") + " from holdfast_w w where r." + r.sql.key +
		" = w.k and r." + r.sql.version + " = w.v" + fresh + " returning quote(" + r.sql.table + "." + r.sql.key + "), " + r.sql.version + ", 0, ''"
}

// keyed is what a statement told of a row.
type keyed struct {
	item    int
	version Version
	token   string
}

// readMany adds rows by their keys as SQL literals: the key that an item has may be written in another way.
func readMany(ctx context.Context, conn tx.Conn, all map[string]keyed, query string, a args) error {
	rows, err := conn.Query(ctx, query, a...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key, token string
		var n int64
		var item int
		if err := rows.Scan(&key, &n, &item, &token); err != nil {
			return err
		}
		if _, twice := all[key]; twice {
			return sameRow(item)
		}
		all[key] = keyed{item, At(n), token}
	}
	return rows.Err()
}
