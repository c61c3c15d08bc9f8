package pgxtx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// What a user has set up for the pool's connections, such as passwords that change, holds for the one that listens; what would
// take its notifications away, or cancel for the end of a wait, does not.
func TestListenAsThePoolConnects(t *testing.T) {
	t.Parallel()
	asked := 0
	db := pgxtx.New(open(t, testdb.Postgres(t), func(c *pgxpool.Config) {
		password := c.ConnConfig.Password
		c.ConnConfig.Password = "expired"
		c.ConnConfig.RuntimeParams["application_name"] = "listens_here"
		c.BeforeConnect = func(_ context.Context, config *pgx.ConnConfig) error {
			asked++
			config.Password = password
			return nil
		}
		c.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { t.Error("the user's own was called") }
		c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, CancelRequestDelay: time.Hour, DeadlineDelay: time.Hour}
		}
	}))
	n, err := db.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if asked != 1 {
		t.Errorf("BeforeConnect was called %d times", asked)
	}
	const channel = "holdfast_listen_as_the_pool"
	if err := n.Listen(t.Context(), channel); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, _, err := n.Next(ctx)
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the wait goes on after its context has ended")
	}
	if err := db.Notify(t.Context(), channel, "heard"); err != nil {
		t.Fatal(err)
	}
	if _, payload, err := n.Next(t.Context()); payload != "heard" || err != nil {
		t.Errorf("heard %q, %v", payload, err)
	}
}

func TestListenThatCannotConnect(t *testing.T) {
	t.Parallel()
	refused := errors.New("no password today")
	db := pgxtx.New(open(t, testdb.Postgres(t), func(c *pgxpool.Config) {
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return refused }
	}))
	if _, err := db.Listen(t.Context()); !errors.Is(err, refused) || tx.Classify(err) != tx.NotSent {
		t.Errorf("%v", err)
	}
}
