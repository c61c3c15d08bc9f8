// Package services provides the servers that the tests need, and takes the first way that works: a server that an
// environment variable names; a container, if a Docker engine answers; the server binaries of the machine; on Debian as
// root, the distribution's packages. It says in one line which way it took.
package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/internal/testdb"
)

// A Server is a server that tests can stop, kill and start again. [testdb.Server] is one.
type Server interface {
	// URL is the address, the same over restarts.
	URL() string
	// Start starts the server if it does not run.
	Start(ctx context.Context) error
	// Stop ends it cleanly.
	Stop(ctx context.Context) error
	// Kill ends it as a crash does.
	Kill() error
	// Restart stops and starts it on the same port and data.
	Restart(ctx context.Context) error
	// Close ends it and removes its data.
	Close() error
}

// A Kind is a kind of server, and the ways to get one.
type Kind struct {
	// Name is the name in messages.
	Name string
	// Env is the variable that names a server.
	Env string
	// Debian is the package that brings the binaries.
	Debian string

	container func(ctx context.Context) (Server, error)
	local     func(ctx context.Context) (*testdb.Server, error)
}

// Postgres is PostgreSQL.
var Postgres = Kind{
	Name: "postgres", Env: testdb.PostgresEnv, Debian: "postgresql",
	container: postgresContainer, local: testdb.StartPostgres,
}

// Redis is Redis.
var Redis = Kind{
	Name: "redis", Env: testdb.RedisEnv, Debian: "redis-server",
	container: redisContainer, local: testdb.StartRedis,
}

// machine is what the launcher asks of its surroundings, so that the order of the ways can be tested.
type machine struct {
	getenv  func(string) string
	engine  func(ctx context.Context) error // nil if a Docker engine answers
	install func(ctx context.Context, pkg string) error
}

var here = machine{getenv: os.Getenv, engine: dockerEngine, install: aptInstall}

// Start provides a server of the kind and writes to log, in one line, how. It returns an error that says what to do if
// no way works.
func Start(ctx context.Context, k Kind, log io.Writer) (Server, error) {
	return here.start(ctx, k, log)
}

func (m machine) start(ctx context.Context, k Kind, log io.Writer) (Server, error) {
	var passed []string
	say := func(way string) {
		line := "services: " + k.Name + ": " + way
		if len(passed) > 0 {
			line += " (" + strings.Join(passed, "; ") + ")"
		}
		_, _ = fmt.Fprintln(log, line)
	}
	if url := m.getenv(k.Env); url != "" {
		say("the server that " + k.Env + " names")
		return named{url: url, env: k.Env}, nil
	}
	if err := m.engine(ctx); err != nil {
		passed = append(passed, "docker: "+oneLine(err))
	} else if s, err := k.container(ctx); err != nil {
		passed = append(passed, "docker: "+oneLine(err))
	} else {
		say("a container at " + s.URL())
		return s, nil
	}
	if ctx.Err() != nil { // a signal: the other ways would fail for the same reason, and name the wrong fix
		return nil, fmt.Errorf("services: %s: %w", k.Name, context.Cause(ctx))
	}
	installed := ""
	s, err := k.local(ctx)
	if err != nil {
		if !errors.Is(err, testdb.ErrNoBinaries) { // to install what is there would change the machine, and mend nothing
			return nil, fmt.Errorf("services: the %s binaries of this machine do not start: %w\nmend that, or set %s to the URL of a server", k.Name, err, k.Env)
		}
		passed = append(passed, "local: "+oneLine(err))
		if err := m.install(ctx, k.Debian); err != nil {
			passed = append(passed, "packages: "+oneLine(err))
			return nil, fmt.Errorf("services: no %s server (%s): set %s to the URL of one, start Docker, or run `apt-get install %s`",
				k.Name, strings.Join(passed, "; "), k.Env, k.Debian)
		}
		if s, err = k.local(ctx); err != nil {
			return nil, fmt.Errorf("services: %s was installed, but does not start: %w", k.Debian, err)
		}
		installed = "installed the package " + k.Debian + ": "
	}
	way := "binaries in " + s.Bin() + ", at " + s.URL()
	if v := s.Version(); v != "" {
		way = v + ", " + way
	}
	say(installed + way)
	return s, nil
}

func oneLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSpace(text)
}

// named is a server that somebody else runs.
type named struct{ url, env string }

func (n named) URL() string                   { return n.url }
func (n named) Close() error                  { return nil }
func (n named) Start(context.Context) error   { return n.notOurs() }
func (n named) Stop(context.Context) error    { return n.notOurs() }
func (n named) Kill() error                   { return n.notOurs() }
func (n named) Restart(context.Context) error { return n.notOurs() }

// ErrNotOurs is the error of stopping a server that the launcher did not start.
var ErrNotOurs = errors.New("services: the server is not ours to stop")

func (n named) notOurs() error {
	return fmt.Errorf("%w: unset %s to let the launcher start one", ErrNotOurs, n.env)
}
