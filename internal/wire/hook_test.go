package wire_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// A commit reaches the server as a simple query, or as an execution of a statement that was parsed long ago.
var commits = map[string]func(t *testing.T, conn *pgx.Conn) error{
	"query": func(t *testing.T, conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "commit")
		return err
	},
	"prepared": func(t *testing.T, conn *pgx.Conn) error {
		_, err := conn.PgConn().ExecPrepared(t.Context(), "finish", nil, nil, nil).Close()
		return err
	},
}

func insert(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Prepare(t.Context(), "finish", "commit"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"create table if not exists done (n int)", "begin", "insert into done values (1)"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

func rows(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "select count(*) from done").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCutBefore(t *testing.T) {
	for name, commit := range commits {
		t.Run(name, func(t *testing.T) {
			p, direct := start(t, 0)
			conn := connect(t, p.URL())
			insert(t, conn)
			cut := p.CutBefore(wire.Runs("commit"))
			if err := commit(t, conn); err == nil {
				t.Fatal("the commit was answered")
			}
			<-cut.Hit()
			if n := rows(t, direct); n != 0 {
				t.Errorf("%d rows were committed", n)
			}
			again := connect(t, p.URL())
			insert(t, again)
			if err := commit(t, again); err != nil {
				t.Errorf("the hook acted twice: %v", err)
			}
			if cut.Hits() != 1 {
				t.Errorf("%d hits", cut.Hits())
			}
		})
	}
}

func TestCutReplyTo(t *testing.T) {
	for name, commit := range commits {
		t.Run(name, func(t *testing.T) {
			p, direct := start(t, 0)
			cut := p.CutReplyTo(wire.Runs("commit")).Always()
			for i := range 2 {
				conn := connect(t, p.URL())
				insert(t, conn)
				if err := commit(t, conn); err == nil {
					t.Fatal("the commit was answered")
				}
				<-cut.Hit()
				if n := rows(t, direct); n != i+1 {
					t.Errorf("%d rows, want %d", n, i+1)
				}
			}
			cut.Disarm()
			conn := connect(t, p.URL())
			insert(t, conn)
			if err := commit(t, conn); err != nil {
				t.Errorf("a hook that was disarmed acted: %v", err)
			}
		})
	}
}

func TestHoldReplyTo(t *testing.T) {
	p, direct := start(t, 0)
	conn := connect(t, p.URL())
	insert(t, conn)
	held := p.HoldReplyTo(wire.Runs("commit"))
	replied := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "commit")
		replied <- err
	}()
	<-held.Hit()
	if n := rows(t, direct); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	select {
	case err := <-replied:
		t.Errorf("the reply was not held: %v", err)
	default:
	}
	held.Release()
	if err := <-replied; err != nil {
		t.Errorf("the reply that was released: %v", err)
	}
	if n := rows(t, conn); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestWatch(t *testing.T) {
	p, _ := start(t, 0)
	conn := connect(t, p.URL())
	commits, begins := p.Watch(wire.Runs("commit")), p.Watch(wire.Runs("BEGIN"))
	insert(t, conn)
	if _, err := conn.Exec(t.Context(), "commit"); err != nil {
		t.Fatal(err)
	}
	if commits.Hits() != 1 || begins.Hits() != 1 {
		t.Errorf("%d commits, %d begins, want 1 of each: parsing a statement does not run it", commits.Hits(), begins.Hits())
	}
}
