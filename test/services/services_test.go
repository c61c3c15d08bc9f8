package services

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testdb"
)

// world is a machine on which some ways work.
type world struct {
	env, engine, image, local, root bool
	broken                          bool // the binaries are there, but do not start
	asked, installed                bool
}

var errNo = errors.New("not here\nwith a second line")

func (w *world) start(t *testing.T) (string, error) {
	t.Helper()
	m := machine{
		getenv: func(string) string {
			if w.env {
				return "postgres://somewhere"
			}
			return ""
		},
		engine: func(context.Context) error { return unless(w.engine) },
		install: func(context.Context, string) error {
			w.asked, w.installed = true, w.root
			return unless(w.root)
		},
	}
	k := Kind{
		Name: "postgres", Env: "ENV", Debian: "postgresql",
		container: func(context.Context) (Server, error) { return named{url: "docker"}, unless(w.image) },
		local: func(context.Context) (*testdb.Server, error) {
			if w.broken {
				return nil, errNo
			}
			if !w.local && !w.installed {
				return nil, fmt.Errorf("%w: %w", testdb.ErrNoBinaries, errNo)
			}
			return &testdb.Server{}, nil
		},
	}
	var log strings.Builder
	s, err := m.start(t.Context(), k, &log)
	if (s == nil) == (err == nil) {
		t.Fatalf("server %v, error %v", s, err)
	}
	if strings.Count(log.String(), "\n") > 1 {
		t.Fatalf("more than one line: %q", log.String())
	}
	return log.String(), err
}

func unless(ok bool) error {
	if ok {
		return nil
	}
	return errNo
}

func TestWaysAreTakenInOrder(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]*world{
		"the server that ENV names":             {env: true, engine: true, image: true, local: true, root: true},
		"a container":                           {engine: true, image: true, local: true, root: true},
		"binaries in , at  (docker: not here)":  {engine: true, local: true, root: true},
		"binaries in , at  (docker: not here) ": {local: true, root: true},
		"installed the package postgresql: binaries in , at  (docker: not here; local: no binaries: not here)":  {root: true},
		"installed the package postgresql: binaries in , at  (docker: not here; local: no binaries: not here) ": {engine: true, root: true},
	} {
		line, err := w.start(t)
		if err != nil || !strings.HasPrefix(line, "services: postgres: "+strings.TrimSpace(want)) {
			t.Errorf("%+v: got %q, %v, want %q", *w, line, err, want)
		}
	}
}

func TestNoWayNamesTheFix(t *testing.T) {
	t.Parallel()
	_, err := (&world{}).start(t)
	for _, fix := range []string{"set ENV", "start Docker", "apt-get install postgresql"} {
		if err == nil || !strings.Contains(err.Error(), fix) {
			t.Errorf("%q is not in %v", fix, err)
		}
	}
}

// A full disk, say, is not mended by apt-get, which would upgrade what is there on the way.
func TestBinariesThatDoNotStartAreNotInstalledAgain(t *testing.T) {
	t.Parallel()
	w := &world{broken: true, root: true}
	if _, err := w.start(t); w.asked || !errors.Is(err, errNo) || !strings.Contains(err.Error(), "set ENV") {
		t.Errorf("installed: %v, got %v", w.asked, err)
	}
}

func TestServersOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	n := named{url: "x", env: "ENV"}
	for _, err := range []error{n.Start(t.Context()), n.Stop(t.Context()), n.Kill(), n.Restart(t.Context())} {
		if !errors.Is(err, ErrNotOurs) {
			t.Errorf("got %v", err)
		}
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

func TestLocalServersStartStopAndComeBack(t *testing.T) {
	t.Parallel()
	bare := machine{
		getenv: func(string) string { return "" }, engine: func(context.Context) error { return errNo },
		install: func(context.Context, string) error { return errors.New("a test does not change the machine") },
	}
	for _, k := range []Kind{Postgres, Redis} {
		var log strings.Builder
		s, err := bare.start(t.Context(), k, &log)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), s.URL()) {
			t.Errorf("%s: %s is not in %q", k.Name, s.URL(), log.String())
		}
		comesBack(t, k, s)
	}
}

// comesBack kills, starts, stops, restarts and closes a server.
func comesBack(t *testing.T, k Kind, s Server) {
	t.Helper()
	ready := map[string]func(context.Context, string) error{Postgres.Name: postgresReady, Redis.Name: redisReady}[k.Name]
	url := s.URL()
	for i, step := range []func() error{
		s.Kill, s.Kill, func() error { return s.Start(t.Context()) }, func() error { return s.Start(t.Context()) },
		func() error { return s.Stop(t.Context()) }, func() error { return s.Restart(t.Context()) }, s.Close,
	} {
		if err := step(); err != nil {
			t.Errorf("%s, step %d: %v", k.Name, i, err)
		}
		runs := i == 2 || i == 3 || i == 5
		if err := ready(t.Context(), url); (err == nil) != runs {
			t.Errorf("%s, step %d: runs: %v, answers: %v", k.Name, i, runs, err)
		}
	}
	if s.URL() != url {
		t.Errorf("%s: %s became %s", k.Name, url, s.URL())
	}
}
