package optimistic

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/tx"
)

// manySQL locks all rows in the order of their keys, and only then, in the same statement, writes those whose version and
// token allow it. FOR UPDATE returns each row as it is once the lock is held, so that the versions are those that decide.
// The count makes the locks come first: it is computed whole before the update looks at its first row.
// Two keys that are one to the database, such as 1 and 01, keep all from being written.
// The first part is not run. It makes a missing table the error that it is elsewhere, and not a missing type.
const manySQL = `with named as (
	select from {table}
), wanted as materialized (
	select w.i, (w.j->>'v')::bigint as v, w.j->>'t' as t, jsonb_populate_record(null::{table}, w.j->'r') as p
	from jsonb_array_elements($1::jsonb) with ordinality as w(j, i)
), locked as materialized (
	select r.{key} as k, r.{version} as v, {token} as t from {table} r
	where r.{key} in (select (w.p).{key} from wanted w) order by r.{key} for update
), done as (
	update {table} r set {set} from wanted w
	where (select count(*) from locked) > 0 and (select count(*) = count(distinct (p).{key}) from wanted) and r.{key} = (w.p).{key} and r.{version} = w.v {fresh}
	returning r.{key} as k, r.{version} as v
)
select w.i, d.v, l.v, coalesce(l.t, ''), count(*) over (partition by (w.p).{key}) from wanted w left join locked l on l.k = (w.p).{key} left join done d on d.k = (w.p).{key}`

// manyPostgres sends the items as JSON: populating a record of the table gives each value the type of its column.
func (r *Rows[T]) manyPostgres(ctx context.Context, conn tx.Conn, columns []string, items []Item, sent []int, out []found) error {
	type line struct {
		Version Version        `json:"v"`
		Token   any            `json:"t"`
		Row     map[string]any `json:"r"`
	}
	lines := make([]line, len(sent))
	for n, i := range sent {
		row := map[string]any{r.table.Key: plain(items[i].Key)}
		for column, value := range items[i].Set {
			row[column] = plain(value)
		}
		if err := encodable(i, row); err != nil {
			return err
		}
		lines[n] = line{items[i].Version, tokenOf(items[i].Want), row}
	}
	text, err := json.Marshal(lines)
	if err != nil {
		return invalid("a value of the batch has no JSON: %v", err)
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
		"{fresh}", fresh, "{set}", strings.Join(set, ", ")).Replace(manySQL)
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

// encodable refuses what JSON would change.
func encodable(i int, row map[string]any) error {
	for column, value := range row {
		if text, ok := value.(string); ok && !utf8.ValidString(text) {
			return invalid("item %d: the value of %q is not valid UTF-8", i, column)
		}
	}
	return nil
}

// plain gives bytes the form that PostgreSQL reads.
func plain(v any) any {
	if b, ok := v.([]byte); ok && b != nil {
		return `\x` + hex.EncodeToString(b)
	}
	return v
}

// manySQLite is one update for all. There is one writer, which the transaction is from its start, so that what is read after
// it is what it decided on; the versions of what it wrote are theirs plus 1.
func (r *Rows[T]) manySQLite(ctx context.Context, conn tx.Conn, columns []string, items []Item, sent []int, out []found) error {
	var a args
	var lines []string
	for _, i := range sent {
		n, _ := items[i].Version.Int64()
		values := []string{a.add(i), a.add(items[i].Key), a.add(n), a.add(tokenOf(items[i].Want))}
		for _, column := range columns {
			values = append(values, a.add(items[i].Set[column]))
		}
		lines = append(lines, "("+strings.Join(values, ", ")+")")
	}
	names := []string{"i", "k", "v", "t"}
	var set []string
	for n, column := range columns {
		names = append(names, fmt.Sprintf("c%d", n))
		set = append(set, fmt.Sprintf("%s = w.c%d", r.sql.d.Quote(column), n))
	}
	set = append(set, r.sql.version+" = r."+r.sql.version+" + 1")
	token, fresh := "''", ""
	if r.sql.token != "" {
		set = append(set, r.sql.token+" = w.t")
		token = "coalesce(cast(r." + r.sql.token + " as text), '')"
		fresh = " and (w.t is null or r." + r.sql.token + " is null or r." + r.sql.token + " <> w.t)"
	}
	with := "with w(" + strings.Join(names, ", ") + ") as (values " + strings.Join(lines, ", ") + ") "
	before, err := r.readMany(ctx, conn, with+"select w.i, r."+r.sql.version+", "+token+", count(*) over (partition by r."+r.sql.key+") from w join "+r.sql.table+" r on r."+
		r.sql.key+" = w.k", a)
	if err != nil {
		return err
	}
	wrote, err := r.readMany(ctx, conn, with+"update "+r.sql.table+" as r set "+strings.Join(set, ", ")+" from w where r."+r.sql.key+
		" = w.k and r."+r.sql.version+" = w.v"+fresh+" returning (select w.i from w where w.k = "+r.sql.table+"."+r.sql.key+"), "+
		r.sql.version+", '', 1", a)
	if err != nil {
		return err
	}
	for i, f := range before {
		out[i] = found{wrote[i].current, f.current, f.token}
	}
	return nil
}

// readMany reads the number of an item, a version, a token, and how many items are of that row.
func (r *Rows[T]) readMany(ctx context.Context, conn tx.Conn, query string, a args) (map[int]found, error) {
	rows, err := conn.Query(ctx, query, a...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[int]found{}
	for rows.Next() {
		var i int
		var n int64
		var token string
		var times int
		if err := rows.Scan(&i, &n, &token, &times); err != nil {
			return nil, err
		}
		if times > 1 {
			return nil, sameRow(i)
		}
		all[i] = found{current: At(n), token: token}
	}
	return all, rows.Err()
}
