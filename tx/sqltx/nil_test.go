package sqltx_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

func TestNewNamesWhatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for want, call := range map[string]func(){
		"sqltx: New: the *sql.DB is nil":          func() { sqltx.New(nil, tx.SQLite, nil) },
		"sqltx: New: the dialect is neither":      func() { sqltx.New(new(sql.DB), nil, nil) },
		"tx: the DB is nil: make one with pgxtx.": func() { (*tx.DB[*sql.Tx])(nil).Dialect() },
	} {
		if said := panicOf(call); !strings.Contains(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	}
}

func panicOf(call func()) (said string) {
	defer func() { said = fmt.Sprint(recover()) }()
	call()
	return ""
}
