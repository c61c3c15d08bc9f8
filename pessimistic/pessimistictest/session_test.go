package pessimistictest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/pessimistic"
)

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // each statement is one message batch, as poolers like it
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// held reports how many sessions hold a name.
func held(t *testing.T, conn *pgx.Conn, namespace, name string) (n int) {
	t.Helper()
	id := uint64(pessimistic.AdvisoryID(namespace, name))
	err := conn.QueryRow(t.Context(), "select count(*) from pg_locks where locktype = 'advisory' and granted and classid = $1::bigint::oid and objid = $2::bigint::oid",
		int64(id>>32), int64(id&0xffffffff)).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A session's lock lasts over its transactions, and its release is verified: otherwise the connection is closed (B37a).
func TestSession(t *testing.T) {
	t.Parallel()
	address := testdb.Postgres(t)
	conn, other := connect(t, address), connect(t, address)
	s, err := pessimistic.LockSession(t.Context(), conn, address, "a", "b", "a")
	if err != nil {
		t.Fatal(err)
	}
	if held(t, other, address, "a") != 1 || held(t, other, address, "b") != 1 {
		t.Fatal("not locked")
	}
	if err := s.Unlock(t.Context()); err != nil || conn.IsClosed() || held(t, other, address, "a")+held(t, other, address, "b") != 0 {
		t.Fatalf("got %v", err)
	}
	if err := s.Unlock(t.Context()); !errors.Is(err, pessimistic.ErrNotHeld) || !conn.IsClosed() {
		t.Fatalf("a second time: got %v", err)
	}
	inside := connect(t, address)
	if _, err := inside.Exec(t.Context(), "begin"); err != nil {
		t.Fatal(err)
	}
	if _, err := pessimistic.LockSession(t.Context(), inside, address, "a"); !errors.Is(err, pessimistic.ErrInvalid) || !inside.IsClosed() {
		t.Fatalf("in a transaction: got %v", err)
	}
	if _, err := pessimistic.LockSession(t.Context(), connect(t, address), address); !errors.Is(err, pessimistic.ErrInvalid) {
		t.Fatalf("without a name: got %v", err)
	}
}

// Behind a transaction pooler nothing is locked, and a pooler that only shows later is found out by Unlock (B37a).
func TestSessionBehindAPooler(t *testing.T) {
	t.Parallel()
	address := testdb.Postgres(t)
	watch := connect(t, address)
	conn := connect(t, poolerFor(t, address, 0))
	if _, err := pessimistic.LockSession(t.Context(), conn, address, "a"); !errors.Is(err, pessimistic.ErrPooled) || !conn.IsClosed() {
		t.Fatalf("got %v", err)
	}
	if held(t, watch, address, "a") != 0 {
		t.Fatal("locked all the same")
	}
	late := connect(t, poolerFor(t, address, 3)) // the probe and the lock are on one server connection
	s, err := pessimistic.LockSession(t.Context(), late, address, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Unlock(t.Context()); !errors.Is(err, pessimistic.ErrPooled) || !late.IsClosed() {
		t.Fatalf("got %v", err)
	}
}

// poolerFor starts a transaction pooler with two server connections for each client, which it changes after each transaction
// but for the first ones.
func poolerFor(t *testing.T, address string, same int) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	server := u.Host
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go pool(client, server, same)
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}

func pool(client net.Conn, server string, same int) {
	defer func() { _ = client.Close() }()
	startup, err := message(client, 0)
	if err != nil {
		return
	}
	var servers [2]net.Conn
	for i := range servers {
		var d net.Dialer
		if servers[i], err = d.DialContext(context.Background(), "tcp", server); err != nil {
			return
		}
		defer func() { _ = servers[i].Close() }()
		_, _ = servers[i].Write(startup)
		to := io.Discard
		if i == 0 {
			to = client
		}
		if _, err := untilReady(servers[i], to); err != nil {
			return
		}
	}
	for at, n := 0, 1; ; {
		for { // until Query or Sync
			m, err := message(client, 1)
			if err != nil {
				return
			}
			_, _ = servers[at].Write(m)
			if m[0] == 'Q' || m[0] == 'S' {
				break
			}
		}
		status, err := untilReady(servers[at], client)
		if err != nil {
			return
		}
		if status == 'I' {
			if n++; n > same {
				at = 1 - at
			}
		}
	}
}

// message reads a message whose length comes after tag bytes.
func message(r io.Reader, tag int) ([]byte, error) {
	head := make([]byte, tag+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[tag:])-4)
	_, err := io.ReadFull(r, body)
	return append(head, body...), err
}

// untilReady copies replies until the server waits for the next request, and returns the state of its transaction.
func untilReady(server io.Reader, to io.Writer) (status byte, err error) {
	for {
		m, err := message(server, 1)
		if err != nil {
			return 0, err
		}
		if _, err := to.Write(m); err != nil {
			return 0, err
		}
		if m[0] == 'Z' {
			return m[5], nil
		}
	}
}
