package services

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	readyTimeout = time.Minute
	tryTimeout   = 2 * time.Second // Docker's proxy accepts connections before the server does
)

// await tries until the server answers, or ended says that it never will.
func await(ctx context.Context, try, ended func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		tryCtx, cancelTry := context.WithTimeout(ctx, tryTimeout)
		err := try(tryCtx)
		cancelTry()
		if err == nil {
			return nil
		}
		if err := ended(ctx); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// postgresReady succeeds when a session can be had. The image's first server, which makes the database, listens on no
// port, so it is not taken for the real one.
func postgresReady(ctx context.Context, address string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// redisReady succeeds when Redis has loaded its data.
func redisReady(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(reply, "+PONG") {
		err = fmt.Errorf("redis answered %q", strings.TrimSpace(reply))
	}
	return err
}
