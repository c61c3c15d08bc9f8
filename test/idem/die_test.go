package idem_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/idem"
)

const dieEnv = "HOLDFAST_IDEM_DIE"

// TestDieInside is the process that dies in its closure, for the test below.
func TestDieInside(t *testing.T) {
	if os.Getenv(dieEnv) == "" {
		return
	}
	var driver, what, file string
	if _, err := fmt.Sscan(os.Getenv(dieEnv), &driver, &what, &file); err != nil {
		t.Fatal(err)
	}
	_, db := open(t, driver, file, "", nil)
	die := func(ctx context.Context, t *sql.Tx) error {
		if _, err := t.ExecContext(ctx, "insert into effect values ('lost')"); err != nil {
			return err
		}
		me, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		if err := me.Kill(); err != nil {
			return err
		}
		select {} // the signal is on its way
	}
	if what == "inbox" {
		_, err := idem.NewInbox(db, "c", nil).Do(t.Context(), "m", die)
		t.Fatal(err)
	}
	_, err := idem.Do(t.Context(), idem.New(db, nil), someKey, func(ctx context.Context, t *sql.Tx) (int, error) { return 1, die(ctx, t) })
	t.Fatal(err)
}

// A process that is killed in its closure must not leave a key that is running for as long as its TTL, or a message that is
// marked and was never handled.
func TestSQLiteProcessDies(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"sqlite", "sqlite3"} {
		file := filepath.Join(t.TempDir(), "a.db")
		pool, db := open(t, driver, file, "", nil)
		if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.ExecContext(t.Context(), "create table effect (name text)"); err != nil {
			t.Fatal(err)
		}
		for _, what := range []string{"keys", "inbox"} {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDieInside$")
			cmd.Env = append(os.Environ(), dieEnv+"="+driver+" "+what+" "+file)
			if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != -1 {
				t.Fatalf("%s, %s: it was not killed: %v\n%s", driver, what, err, out)
			}
		}
		res, err := idem.Do(t.Context(), idem.New(db, nil), someKey, one)
		if err != nil || res.Replayed {
			t.Errorf("%s: got %+v, %v", driver, res, err)
		}
		handled, err := idem.NewInbox(db, "c", nil).Do(t.Context(), "m", func(context.Context, *sql.Tx) error { return nil })
		if err != nil || !handled {
			t.Errorf("%s: handled %v, %v", driver, handled, err)
		}
		var effects int
		if err := pool.QueryRowContext(t.Context(), "select count(*) from effect").Scan(&effects); err != nil || effects != 0 {
			t.Errorf("%s: %d effects, %v", driver, effects, err)
		}
	}
}
