package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// Images, of the versions that the project is tested on.
const (
	postgresImage = "postgres:17-alpine"
	redisImage    = "redis:7-alpine"
)

// dockerEngine reports whether a Docker engine answers.
func dockerEngine(ctx context.Context) (err error) {
	defer func() {
		if recover() != nil { // how testcontainers-go reports that it finds no socket
			err = errors.New("no engine")
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(log.New(io.Discard, "", 0)))
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
	return startContainer(ctx, "postgres://holdfast@%s/postgres?sslmode=disable", "5432/tcp", testcontainers.ContainerRequest{
		Image: postgresImage,
		Env:   map[string]string{"POSTGRES_USER": "holdfast", "POSTGRES_DB": "postgres", "POSTGRES_HOST_AUTH_METHOD": "trust"},
		Cmd:   []string{"-c", "max_connections=200", "-c", "fsync=on"},
		// The image starts the server twice, the first time to make the database.
		WaitingFor: wait.ForLog("database system is ready to accept connections").WithOccurrence(2).WithStartupTimeout(2 * time.Minute),
	})
}

func redisContainer(ctx context.Context) (Server, error) {
	return startContainer(ctx, "redis://%s", "6379/tcp", testcontainers.ContainerRequest{
		Image:      redisImage,
		Cmd:        []string{"redis-server", "--save", "", "--appendonly", "yes", "--appendfsync", "always"},
		WaitingFor: wait.ForLog("Ready to accept connections").WithStartupTimeout(time.Minute),
	})
}

// contained is a server in a container. Its port on the host is fixed, so that its URL survives a restart.
type contained struct {
	testcontainers.Container
	url string
}

func startContainer(ctx context.Context, url, inner string, request testcontainers.ContainerRequest) (Server, error) {
	outer, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	port, err := network.ParsePort(inner)
	if err != nil {
		return nil, err
	}
	request.ExposedPorts = []string{inner}
	request.HostConfigModifier = func(c *container.HostConfig) {
		c.PortBindings = network.PortMap{port: {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: outer}}}
	}
	c, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{ContainerRequest: request, Started: true})
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(c))
	}
	host, err := c.Host(ctx)
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(c))
	}
	return &contained{Container: c, url: fmt.Sprintf(url, net.JoinHostPort(host, outer))}, nil
}

func (c *contained) URL() string { return c.url }

func (c *contained) Stop(ctx context.Context) error { return c.Container.Stop(ctx, nil) }

// Kill gives the server no time to end: Docker then sends SIGKILL.
func (c *contained) Kill() error {
	now := time.Duration(0)
	return c.Container.Stop(context.Background(), &now)
}

func (c *contained) Restart(ctx context.Context) error {
	if err := c.Stop(ctx); err != nil {
		return err
	}
	return c.Start(ctx)
}

func (c *contained) Close() error { return testcontainers.TerminateContainer(c.Container) }

func freePort(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), l.Close()
}
