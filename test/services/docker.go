package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	quiet "github.com/testcontainers/testcontainers-go/log"

	"github.com/holdfast-go/holdfast/internal/testdb"
)

// The images. Their versions are the newest that the statements are written for; the binaries of a machine may be older.
const (
	postgresImage = "postgres:17-alpine"
	redisImage    = "redis:7-alpine"
)

// Limits on a Docker engine that hangs and on a registry that is slow: there are other ways to get a server.
const (
	probeTimeout     = 3 * time.Second
	containerTimeout = 5 * time.Minute
	killTimeout      = time.Minute
)

func init() {
	quiet.SetDefault(quiet.NewNoopLogger()) // it greets the engine on the global logger, but the launcher says one line, no more
}

// dockerEngine reports whether a Docker engine answers.
func dockerEngine(ctx context.Context) (err error) {
	defer func() {
		if recover() != nil { // how testcontainers-go reports that it finds no socket
			err = errors.New("no engine")
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(quiet.NewNoopLogger()))
	if err != nil {
		return errors.New("no engine")
	}
	defer func() { _ = provider.Close() }()
	if err := provider.Health(ctx); err != nil {
		return errors.New("no engine")
	}
	return nil
}

func postgresContainer(ctx context.Context) (Server, error) {
	return startContainer(ctx, "postgres://holdfast@%s/holdfast?sslmode=disable", "5432/tcp", postgresReady, testcontainers.ContainerRequest{
		Image: postgresImage,
		Env:   map[string]string{"POSTGRES_USER": "holdfast", "POSTGRES_DB": "holdfast", "POSTGRES_HOST_AUTH_METHOD": "trust"},
		Cmd:   []string{"postgres", "-c", "max_connections=200", "-c", "fsync=on", "-c", "synchronous_commit=on"},
	})
}

func redisContainer(ctx context.Context) (Server, error) {
	return startContainer(ctx, "redis://%s", "6379/tcp", redisReady, testcontainers.ContainerRequest{
		Image: redisImage,
		Cmd:   []string{"redis-server", "--protected-mode", "no", "--save", "", "--appendonly", "yes", "--appendfsync", "always"},
	})
}

// contained is a server in a container. Its port on the host is fixed, so that its URL survives a restart.
type contained struct {
	testcontainers.Container
	url   string
	ready func(ctx context.Context, url string) error
}

func startContainer(
	ctx context.Context, url, inner string, ready func(context.Context, string) error, request testcontainers.ContainerRequest,
) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, containerTimeout)
	defer cancel()
	host, bind, err := daemonHost(ctx)
	if err != nil {
		return nil, err
	}
	free, err := testdb.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	outer := strconv.Itoa(free)
	port, err := network.ParsePort(inner)
	if err != nil {
		return nil, err
	}
	request.ExposedPorts = []string{inner}
	request.HostConfigModifier = func(c *container.HostConfig) {
		c.PortBindings = network.PortMap{port: {{HostIP: bind, HostPort: outer}}}
	}
	c, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: request, Logger: quiet.NewNoopLogger(),
	})
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(c))
	}
	s := &contained{Container: c, url: fmt.Sprintf(url, net.JoinHostPort(host, outer)), ready: ready}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// daemonHost returns where ports of containers are reached, and the address to publish them at: only this machine's own,
// unless the engine is elsewhere.
func daemonHost(ctx context.Context) (host string, bind netip.Addr, err error) {
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(quiet.NewNoopLogger()))
	if err != nil {
		return "", netip.Addr{}, err
	}
	defer func() { _ = provider.Close() }()
	host, err = provider.DaemonHost(ctx)
	if err != nil {
		return "", netip.Addr{}, err
	}
	host, bind = publish(host)
	return host, bind, nil
}

func publish(host string) (string, netip.Addr) {
	if host == "localhost" || host == "127.0.0.1" {
		return "127.0.0.1", netip.AddrFrom4([4]byte{127, 0, 0, 1}) // "localhost" may be ::1, where nobody listens
	}
	return host, netip.IPv4Unspecified()
}

func (c *contained) URL() string { return c.url }

// Start does not look for a line in the log to know that the server is ready: after a restart, the old ones are there.
func (c *contained) Start(ctx context.Context) error {
	if err := c.Container.Start(ctx); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) error { return c.ready(ctx, c.url) }, c.ended)
}

// ended returns an error if the container does not run.
func (c *contained) ended(ctx context.Context) error {
	state, err := c.State(ctx)
	if err == nil && !state.Running {
		err = fmt.Errorf("the container ended with code %d", state.ExitCode)
	}
	return err
}

func (c *contained) Stop(ctx context.Context) error { return c.Container.Stop(ctx, nil) }

// Kill sends SIGKILL alone: a stop without patience sends the signal for a clean end first.
func (c *contained) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	state, err := c.State(ctx)
	if err != nil || !state.Running {
		return err
	}
	engine, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	_, err = engine.ContainerKill(ctx, c.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"})
	return err
}

func (c *contained) Restart(ctx context.Context) error {
	if err := c.Stop(ctx); err != nil {
		return err
	}
	return c.Start(ctx)
}

func (c *contained) Close() error { return testcontainers.TerminateContainer(c.Container) }
