// Package prove_test runs the proofs of package prove on handlers that are right and on handlers that are not, on drivers
// that the root module does not require.
package prove_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/prove"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A recorder is a test that fails for the test to see.
type recorder struct{ failures []string }

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

type charge func(ctx context.Context, db *sql.DB, key string) (string, error)

// database makes a file with the tables of a shop.
func database(t testing.TB) string {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "shop.db") + "?_pragma=journal_mode(wal)&_pragma=busy_timeout(5000)&_txlock=immediate"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(context.Background(), `create table charge (id integer primary key, key text not null);
		create table seen (key text primary key, answer text not null)`)
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

func handler(call charge) prove.Handler[*sql.DB, string] {
	return prove.Handler[*sql.DB, string]{
		Call: call,
		Effects: func(ctx context.Context, db *sql.DB, key string) (n int, err error) {
			err = db.QueryRowContext(ctx, "select count(*) from charge where key = $1", key).Scan(&n)
			return n, err
		},
	}
}

type queryer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func insertCharge(ctx context.Context, q queryer, key string) (answer string, err error) {
	err = q.QueryRowContext(ctx, "insert into charge (key) values ($1) returning 'charge ' || id", key).Scan(&answer)
	return answer, err
}

func mark(ctx context.Context, q queryer, key, answer string) error {
	_, err := q.ExecContext(ctx, "insert into seen (key, answer) values ($1, $2)", key, answer)
	return err
}

func known(ctx context.Context, q queryer, key string) (answer string, ok bool, err error) {
	err = q.QueryRowContext(ctx, "select answer from seen where key = $1", key).Scan(&answer)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return answer, err == nil, err
}

// inOneCommit is how it is done: the look, the work and the mark in one transaction, which has the write lock.
func inOneCommit(ctx context.Context, db *sql.DB, key string) (string, error) {
	t, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = t.Rollback() }()
	answer, ok, err := known(ctx, t, key)
	if err != nil || ok {
		return answer, err
	}
	if answer, err = insertCharge(ctx, t, key); err != nil {
		return "", err
	}
	if err := mark(ctx, t, key, answer); err != nil {
		return "", err
	}
	return answer, t.Commit()
}

// checkThenAct looks, works and marks in statements of their own.
func checkThenAct(ctx context.Context, db *sql.DB, key string) (string, error) {
	answer, ok, err := known(ctx, db, key)
	if err != nil || ok {
		return answer, err
	}
	if answer, err = insertCharge(ctx, db, key); err != nil {
		return "", err
	}
	return answer, mark(ctx, db, key, answer)
}

// markFirst marks, which keeps duplicates out, and works later.
func markFirst(ctx context.Context, db *sql.DB, key string) (string, error) {
	if err := mark(ctx, db, key, "done"); err != nil {
		if answer, ok, knownErr := known(ctx, db, key); ok && knownErr == nil {
			return answer, nil
		}
		return "", err
	}
	_, err := insertCharge(ctx, db, key)
	return "done", err
}

// newAnswer does it once, and answers a repetition with something else.
func newAnswer(ctx context.Context, db *sql.DB, key string) (string, error) {
	before, ok, err := known(ctx, db, key)
	if err != nil || ok {
		return before + ", already", err
	}
	return inOneCommit(ctx, db, key)
}

func never(ctx context.Context, db *sql.DB, key string) (string, error) {
	return insertCharge(ctx, db, key)
}

func TestProofs(t *testing.T) {
	t.Parallel()
	type proof func(prove.TB, *prove.Database[*sql.DB], prove.Handler[*sql.DB, string])
	proofs := map[string]proof{
		"Twice":           prove.Twice[*sql.DB, string],
		"Together":        prove.Together[*sql.DB, string],
		"CrashEverywhere": prove.CrashEverywhere[*sql.DB, string],
	}
	for name, c := range map[string]struct {
		call   charge
		caught string // the proofs that must fail
	}{
		"in one commit":  {inOneCommit, ""},
		"check then act": {checkThenAct, "Together CrashEverywhere"},
		"mark first":     {markFirst, "Together CrashEverywhere"},
		"new answer":     {newAnswer, "Twice Together CrashEverywhere"},
		"never looks":    {never, "Twice Together CrashEverywhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for proofName, run := range proofs {
				var r recorder
				run(&r, prove.SQL("sqlite", database(t)), handler(c.call))
				if caught := len(r.failures) > 0; caught != strings.Contains(c.caught, proofName) {
					t.Errorf("%s: caught is %v: %q", proofName, caught, r.failures)
				}
				for _, text := range r.failures {
					t.Logf("%s: %s", proofName, text)
				}
			}
		})
	}
}
