// Command services runs a command with the servers that the tests need.
//
//	go build -o bin/services ./test/cmd/services
//	bin/services -- go test ./...
//
// It starts PostgreSQL and Redis, names them to the command in HOLDFAST_TEST_POSTGRES and HOLDFAST_TEST_REDIS, stops them
// when the command ends or a signal comes, and exits with the code of the command. Under `go run` it works as well, but
// that hides the code and does not pass on a SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/test/services"
)

// grace is how long the command may take to end after a signal.
const grace = 10 * time.Second

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: services -- COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, args)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (code int, err error) {
	env := os.Environ()
	for _, kind := range []services.Kind{services.Postgres, services.Redis} {
		startCtx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		server, err := services.Start(startCtx, kind, os.Stderr)
		cancel()
		if err != nil {
			return 1, err
		}
		defer func() {
			if closeErr := server.Close(); closeErr != nil {
				err = errors.Join(err, closeErr)
				code = max(code, 1)
			}
		}()
		env = append(env, kind.Env+"="+server.URL())
	}
	return command(ctx, env, args)
}

// command runs the command and returns its exit code. When ctx ends, so does the command with all that it started.
func command(ctx context.Context, env, args []string) (int, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stderr
	group(cmd)
	cmd.WaitDelay = grace
	err := cmd.Run()
	if ctx.Err() != nil {
		return 1, fmt.Errorf("services: stopped by a signal: %w", errors.Join(context.Cause(ctx), err))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
