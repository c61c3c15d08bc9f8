package tx_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tx"
)

func TestRebind(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"select 1":                       "select 1",
		"select $1, $2, $1":              "select ?1, ?2, ?1",
		"select $12":                     "select ?12",
		`select '$1', "$2", $3`:          `select '$1', "$2", ?3`,
		`select 'it''s $1', "a""$2", $3`: `select 'it''s $1', "a""$2", ?3`,
		"select $0, $a, $":               "select $0, $a, $",
		"select '$1":                     "select '$1",
		"insert into \"é$1\" values ($1, 'é$2')": "insert into \"é$1\" values (?1, 'é$2')",
	} {
		if got := tx.SQLite.Rebind(query); got != want {
			t.Errorf("%s becomes %s, want %s", query, got, want)
		}
		if got := tx.PostgreSQL.Rebind(query); got != query {
			t.Errorf("%s becomes %s on PostgreSQL", query, got)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	if got := tx.PostgreSQL.Quote(`a"b`); got != `"a""b"` {
		t.Errorf("quoted as %s", got)
	}
	if got := tx.PostgreSQL.Table("s", `t"`); got != `"s"."t"""` {
		t.Errorf("the table is %s", got)
	}
	if got := tx.SQLite.Table("", "t"); got != `"t"` {
		t.Errorf("the table is %s", got)
	}
	for name, ok := range map[string]bool{
		"entry": true, `with "quotes"`: true, "naïve": true, "": false, "a\x00b": false, "\xff": false, strings.Repeat("x", 64): false,
	} {
		err := tx.CheckName(name, 63)
		var nameErr *tx.NameError
		if (err == nil) != ok || err != nil && !errors.As(err, &nameErr) {
			t.Errorf("CheckName(%q) = %v, want ok %v", name, err, ok)
		}
	}
}
