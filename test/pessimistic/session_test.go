package pessimistic_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/test/stddb"
)

// A pinned connection that is in doubt does not go back to the pool with its lock (B37a).
func TestSessionOnDatabaseSQL(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx", "postgres"} {
		address := testdb.Postgres(t)
		pool := stddb.Open(t, driver, address, 8)
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := pessimistic.LockSession(t.Context(), pessimistic.Pin(conn), address, "a")
		if err != nil {
			t.Fatalf("%s: %v", driver, err)
		}
		if err := s.Unlock(t.Context()); err != nil {
			t.Fatalf("%s: %v", driver, err)
		}
		if err := s.Unlock(t.Context()); !errors.Is(err, pessimistic.ErrNotHeld) {
			t.Fatalf("%s: got %v", driver, err)
		}
		if err := conn.PingContext(t.Context()); err == nil {
			t.Errorf("%s: the connection was kept", driver)
		}
		_ = conn.Close()
	}
}
