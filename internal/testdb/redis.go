package testdb

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// RedisBinEnv names the folder of Redis' or Valkey's redis-server.
const RedisBinEnv = "HOLDFAST_REDIS_BIN"

// StartRedis starts a Redis server that writes each command to disk before it answers. The caller closes it.
func StartRedis(ctx context.Context) (*Server, error) {
	bin, err := find("redis-server", RedisBinEnv)
	if err != nil {
		return nil, err
	}
	return startWith(ctx, func() (*Server, error) { return newRedis(bin) })
}

func newRedis(bin string) (*Server, error) {
	dir, err := os.MkdirTemp("", "holdfast-redis-")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	return &Server{
		url:  "redis://" + address,
		dir:  dir,
		bin:  filepath.Dir(bin),
		stop: syscall.SIGTERM,
		launch: func() *exec.Cmd {
			cmd := exec.Command(bin, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, //nolint:noctx // the server outlives the call
				"--save", "", "--appendonly", "yes", "--appendfsync", "always")
			cmd.SysProcAttr = &syscall.SysProcAttr{}
			return cmd
		},
		ping: func(ctx context.Context) error { return pingRedis(ctx, address) },
	}, nil
}

func pingRedis(ctx context.Context, address string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
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
		err = fmt.Errorf("redis answered %q", reply)
	}
	return err
}
