package testdb

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// RedisBinEnv names the folder of Redis' or Valkey's redis-server.
const RedisBinEnv = "HOLDFAST_REDIS_BIN"

// StartRedis starts a Redis server that writes each command to disk before it answers. The caller closes it.
func StartRedis(ctx context.Context) (*Server, error) { return startRedis(ctx, FreePort) }

func startRedis(ctx context.Context, ports func(context.Context) (int, error)) (*Server, error) {
	return startRedisWith(ctx, ports)
}

// startRedisNode starts a server that can be a node of a cluster.
func startRedisNode(ctx context.Context) (*Server, error) {
	return startRedisWith(ctx, FreePort, "--cluster-enabled", "yes")
}

func startRedisWith(ctx context.Context, ports func(context.Context) (int, error), args ...string) (*Server, error) {
	bin, err := find("redis-server", RedisBinEnv)
	if err != nil {
		var valkey error
		if bin, valkey = find("valkey-server", RedisBinEnv); valkey != nil {
			return nil, err
		}
	}
	return startWith(ctx, ports, func(port int) (*Server, error) { return newRedis(ctx, bin, port, args) })
}

func newRedis(ctx context.Context, bin string, port int, args []string) (*Server, error) {
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
			return exec.Command(bin, append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, //nolint:noctx // the server outlives the call
				"--save", "", "--appendonly", "yes", "--appendfsync", "always"}, args...)...)
		},
		ping: func(ctx context.Context) error { return pingRedis(ctx, url, dir) },
	}, nil
}

// pingRedis succeeds when the server of the folder answers, and has loaded its data.
func pingRedis(ctx context.Context, url, dir string) error {
	conn, err := dialRedis(ctx, url)
	if err != nil {
		return err
	}
	defer conn.close()
	reply, err := conn.do("CONFIG", "GET", "dir")
	if err != nil {
		return err
	}
	pair, ok := reply.([]any)
	if !ok || len(pair) != 2 {
		return fmt.Errorf("redis answered %v to CONFIG GET", reply)
	}
	if err := sameFolder(fmt.Sprint(pair[1]), dir); err != nil {
		return err
	}
	_, err = conn.do("PING") // unlike CONFIG, it is refused while the server loads its data
	return err
}
