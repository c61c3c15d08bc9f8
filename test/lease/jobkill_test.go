package lease_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

const (
	jobEnv    = "HOLDFAST_LEASE_JOB"
	jobPeriod = 200 * time.Millisecond
)

// TestJobProcess is the process that runs a job until it is killed, for the tests below.
func TestJobProcess(t *testing.T) {
	dsn := os.Getenv(jobEnv)
	if dsn == "" {
		return
	}
	driver, dialect := "pgx", tx.PostgreSQL
	if dsn[:5] == "file:" {
		driver, dialect = "sqlite", tx.SQLite
	}
	pool, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := sqltx.New(pool, dialect, nil)
	job := killedJob(db)
	t.Fatal(job.Run(t.Context(), func(ctx context.Context, s *lease.Slot) error {
		fmt.Println("begun") // the parent may kill it from here on
		return db.Do(ctx, func(ctx context.Context, t *sql.Tx) error {
			if err := job.Finish(ctx, t, s); err != nil {
				return err
			}
			if _, err := t.ExecContext(ctx, "insert into effect (name) values ($1)", s.At.Format(time.RFC3339Nano)); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond) // the work
			return nil
		})
	}, nil))
}

func killedJob(db *tx.DB[*sql.Tx]) *lease.Job[*sql.Tx] {
	return lease.NewJob(lease.NewSQL(db, lease.Names{}), "killed", &lease.JobOptions{
		Schedule: lease.Every(jobPeriod), Missed: lease.All(1000), Attempts: 100, Lease: lease.Options{TTL: time.Second},
	})
}

func TestKilledInASlotPostgres(t *testing.T) {
	t.Parallel()
	killInSlots(t, "pgx", testdb.Postgres(t), tx.PostgreSQL)
}

func TestKilledInASlotSQLite(t *testing.T) {
	t.Parallel()
	file := "file:" + filepath.Join(t.TempDir(), "test.db") + sqliteParams + "&_pragma=busy_timeout(5000)"
	killInSlots(t, "sqlite", file, tx.SQLite)
}

// Three processes run a job. Those that begin a slot are killed in it with SIGKILL, six times. Each slot up to then is committed
// once, by a later run where the first was killed.
func killInSlots(t *testing.T, driver, dsn string, dialect *tx.Dialect) {
	db := openDB(t, driver, dsn, dialect)
	migrateEffects(t, db)
	begun := make(chan *exec.Cmd)
	for range 3 {
		startJob(t, dsn, begun)
	}
	for range 6 {
		victim := <-begun
		_ = victim.Process.Kill()
		startJob(t, dsn, begun)
		for range 2 { // these live
			<-begun
		}
	}
	go func() {
		for {
			select {
			case <-begun: // those that live on
			case <-t.Context().Done():
				return
			}
		}
	}()
	until := time.Now().Truncate(jobPeriod)
	count := func(query string, args ...any) (n int) {
		t.Helper()
		if err := db.Conn().QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		n := open(t, db, until)
		if n == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d slots are not done", n)
		}
	}
	if again := count("select count(*) from lease_slot where attempts > 1"); again == 0 {
		t.Error("no process was killed in a slot")
	}
	// In one snapshot: they go on.
	if n := count("select (select count(*) from lease_slot where state = 'done') - (select count(distinct name) from effect)"); n != 0 {
		t.Errorf("%d more slots are done than have effects", n)
	}
	if n := count("select count(*) - count(distinct name) from effect"); n != 0 {
		t.Errorf("%d effects are of slots that have one already", n)
	}
}

// open counts the slots until then that are not done.
func open(t *testing.T, db *tx.DB[*sql.Tx], until time.Time) (n int) {
	t.Helper()
	job := killedJob(db)
	due, err := job.Due(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, slot := range due {
		if !slot.After(until) {
			n++
		}
	}
	const running = "select count(*) from lease_slot where state in ('running', 'left')"
	var more int
	if err := db.Conn().QueryRow(t.Context(), running).Scan(&more); err != nil {
		t.Fatal(err)
	}
	return n + more
}

// startJob starts a process, which is sent to begun each time that it has begun a slot.
func startJob(t *testing.T, dsn string, begun chan<- *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestJobProcess$") //nolint:noctx // it is killed on purpose, and waited for
	cmd.Env = append(os.Environ(), jobEnv+"="+dsn)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "begun" {
				select {
				case begun <- cmd:
				case <-t.Context().Done():
				}
			}
		}
		_ = cmd.Wait()
	}()
}
