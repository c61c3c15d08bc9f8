package testdb

import (
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// RedisBinEnv names the folder of Redis' or Valkey's redis-server.
const RedisBinEnv = "HOLDFAST_REDIS_BIN"

// StartRedis starts a Redis server that writes each command to disk before it answers. The caller closes it.
func StartRedis(ctx context.Context) (*Server, error) {
	bin, err := find("redis-server", RedisBinEnv)
	if err != nil {
		var valkey error
		if bin, valkey = find("valkey-server", RedisBinEnv); valkey != nil {
			return nil, err
		}
	}
	return startWith(ctx, func() (*Server, error) { return newRedis(ctx, bin) })
}

func newRedis(ctx context.Context, bin string) (*Server, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := newFolder("redis")
	if err != nil {
		return nil, err
	}
	url := "redis://127.0.0.1:" + strconv.Itoa(port)
	return &Server{
		url:     url,
		dir:     dir,
		bin:     filepath.Dir(bin),
		version: versionOf(ctx, bin),
		stop:    syscall.SIGTERM,
		launch: func() *exec.Cmd {
			return exec.Command(bin, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, //nolint:noctx // the server outlives the call
				"--save", "", "--appendonly", "yes", "--appendfsync", "always")
		},
		ping: func(ctx context.Context) error { return pingRedis(ctx, url) },
	}, nil
}

func pingRedis(ctx context.Context, url string) error {
	conn, err := dialRedis(ctx, url)
	if err != nil {
		return err
	}
	defer conn.close()
	_, err = conn.do("PING") // an error while the server loads its data
	return err
}
