package prove_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/prove"
)

// A printer stands for the *testing.T of a test, and prints what is reported to it.
type printer struct{ failures int }

func (p *printer) Helper()             {}
func (p *printer) Logf(string, ...any) {}
func (p *printer) Errorf(format string, args ...any) {
	if p.failures++; p.failures == 1 {
		fmt.Printf(format+"\n", args...)
	}
}

func (p *printer) verdict() {
	if p.failures == 0 {
		fmt.Println("proved")
	}
}

// shopFile makes a database with a table of charges and one of the keys that were seen.
func shopFile() (dsn string, remove func()) {
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	dsn = "file:" + filepath.Join(dir, "shop.db") + "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(context.Background(), `create table charge (id integer primary key, key text not null);
		create table seen (key text primary key, answer text not null)`); err != nil {
		log.Fatal(err)
	}
	return dsn, func() { _ = os.RemoveAll(dir) }
}

func charges(ctx context.Context, db *sql.DB, key string) (n int, err error) {
	err = db.QueryRowContext(ctx, "select count(*) from charge where key = $1", key).Scan(&n)
	return n, err
}

// A handler that looks, works and marks in one transaction, which holds the write lock from its start.
func ExampleCrashEverywhere() {
	dsn, remove := shopFile()
	defer remove()
	db := prove.SQL("sqlite", dsn)
	charge := prove.Handler[*sql.DB, string]{Call: inOneCommit, Effects: charges}

	t := &printer{} // in a test, its own t
	prove.Twice(t, db, charge)
	prove.Together(t, db, charge)
	prove.CrashEverywhere(t, db, charge)
	t.verdict()
	// Output: proved
}

// The same without the transaction: the work is done, and the crash comes before the mark.
func ExampleCrashEverywhere_failing() {
	dsn, remove := shopFile()
	defer remove()
	db := prove.SQL("sqlite", dsn)

	prove.CrashEverywhere(&printer{}, db, prove.Handler[*sql.DB, string]{Call: checkThenAct, Effects: charges})
	// Output: prove: error-after at point 3 (query insert into charge (key) values ($1) returning 'charge ' || …), replay with HOLDFAST_FAULT=3:error-after: after a retry: 2 effects, want 1
}

// Two calls look before either has acted.
func ExampleTogether_failing() {
	dsn, remove := shopFile()
	defer remove()
	db := prove.SQL("sqlite", dsn)

	t := &recorder{} // in a test, its own t
	prove.Together(t, db, prove.Handler[*sql.DB, string]{Call: checkThenAct, Effects: charges})
	fmt.Println("caught:", len(t.failures) > 0)
	// Output: caught: true
}

// A handler that does not look at all.
func ExampleTwice_failing() {
	dsn, remove := shopFile()
	defer remove()
	prove.Twice(&printer{}, prove.SQL("sqlite", dsn), prove.Handler[*sql.DB, string]{Call: never, Effects: charges})
	// Output: prove: after a retry: 2 effects, want 1: each call had one of its own, so the handler ignores its key
}

// A handler that makes up a key of its own.
func ExampleTwice_otherKey() {
	dsn, remove := shopFile()
	defer remove()
	prove.Twice(&printer{}, prove.SQL("sqlite", dsn), prove.Handler[*sql.DB, string]{
		Call: func(ctx context.Context, db *sql.DB, _ string) (string, error) {
			return inOneCommit(ctx, db, "a key of the handler's")
		},
		Effects: charges,
	})
	// Output: prove: after the first call: 0 effects, want 1: the call was answered, and Effects finds nothing of its key: Call has to use the key, and Effects to count by it
}

func ExampleHTTP() {
	dsn, remove := shopFile()
	defer remove()
	serve := func(db *sql.DB) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer, err := inOneCommit(r.Context(), db, r.Header.Get("Idempotency-Key"))
			if err != nil {
				http.Error(w, "try again", http.StatusServiceUnavailable)
				return
			}
			_, _ = fmt.Fprint(w, answer)
		})
	}
	request := func(key string) *http.Request {
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "/charge", strings.NewReader("100"))
		r.Header.Set("Idempotency-Key", key)
		return r
	}
	t := &printer{} // in a test, its own t
	prove.CrashEverywhere(t, prove.SQL("sqlite", dsn), prove.Handler[*sql.DB, prove.Answer]{
		Call:    prove.HTTP(serve, request),
		Effects: charges,
	})
	t.verdict()
	// Output: proved
}
