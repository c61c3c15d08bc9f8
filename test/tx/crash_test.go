package tx_test

import (
	"context"
	"os"

	"github.com/jackc/pgx/v5"
)

// crashOne kills the process of one connection, after which the server starts over, and returns when it is back.
func crashOne(ctx context.Context, url string, pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	watch, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	if err := process.Kill(); err != nil {
		return err
	}
	_, _ = watch.Exec(ctx, "select pg_sleep(60)") // until the server ends every connection
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return conn.Close(ctx)
		}
		if ctx.Err() != nil {
			return err
		}
	}
}
