package pgxtx

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/holdfast-go/holdfast/tx"
)

// Listen implements [tx.Listener]. It dials as the pool does, BeforeConnect included, but the connection is beside the pool: it
// does not count for MaxConns, and closing the pool does not close it.
func (d *driver) Listen(ctx context.Context) (tx.Notifications, error) {
	pooled := d.pool.Config()
	config := pooled.ConnConfig
	if pooled.BeforeConnect != nil {
		if err := pooled.BeforeConnect(ctx, config); err != nil {
			return nil, fmt.Errorf("%w: %w", tx.ErrNotSent, err)
		}
	}
	n := &notifications{}
	config.OnNotification = func(_ *pgconn.PgConn, heard *pgconn.Notification) { n.heard = append(n.heard, heard) }
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler { // the end of a wait must not cancel anything
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	conn, err := pgconn.ConnectConfig(ctx, &config.Config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tx.ErrNotSent, err)
	}
	n.conn = conn
	return n, nil
}

type notifications struct {
	conn  *pgconn.PgConn
	heard []*pgconn.Notification // not taken yet
}

func (n *notifications) Listen(ctx context.Context, channel string) error {
	return n.exec(ctx, "listen ", channel)
}

func (n *notifications) Unlisten(ctx context.Context, channel string) error {
	return n.exec(ctx, "unlisten ", channel)
}

// longestChannel is how many bytes of an identifier PostgreSQL looks at. It would listen to what is left of a longer one.
const longestChannel = 63

func (n *notifications) exec(ctx context.Context, verb, channel string) error {
	if err := tx.CheckName(channel, longestChannel); err != nil {
		return err
	}
	return n.conn.Exec(ctx, verb+tx.PostgreSQL.Quote(channel)).Close()
}

func (n *notifications) Next(ctx context.Context) (channel, payload string, err error) {
	for len(n.heard) == 0 {
		if err := n.conn.WaitForNotification(ctx); err != nil && len(n.heard) == 0 {
			return "", "", err
		}
	}
	first := n.heard[0]
	n.heard = n.heard[1:]
	return first.Channel, first.Payload, nil
}

// Close says goodbye to a server that reads, and lets one that does not keep nobody.
func (n *notifications) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	err := n.conn.Close(ctx)
	_ = n.conn.Conn().Close() // after an error pgx goes on reading it for a while
	return err
}

const farewell = time.Second
