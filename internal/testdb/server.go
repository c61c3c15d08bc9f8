package testdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Server is a server process with a data folder and a port of its own. It does not outlive the process that started it.
// Its methods are for one goroutine at a time.
type Server struct {
	url     string
	dir     string
	bin     string
	version string
	stop    syscall.Signal // asks for a clean end
	launch  func() *exec.Cmd
	ping    func(ctx context.Context) error

	mu      sync.Mutex // guards the two below
	process *os.Process
	exited  chan struct{}
}

// URL is the address of the server. It stays the same over restarts.
func (s *Server) URL() string { return s.url }

// Bin is the folder of the server's binaries.
func (s *Server) Bin() string { return s.bin }

// Version is the version that the binary says it has.
func (s *Server) Version() string { return s.version }

// Start starts the server and waits until it answers. It does nothing if the server runs.
func (s *Server) Start(ctx context.Context) error {
	if s.running() {
		return nil
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := s.launch()
	cmd.Stdout, cmd.Stderr = log, log
	exited := make(chan struct{})
	if err := startBound(cmd, exited); err != nil {
		return err
	}
	s.mu.Lock()
	s.process, s.exited = cmd.Process, exited
	s.mu.Unlock()
	return s.await(ctx, exited)
}

// await polls the server until it answers.
func (s *Server) await(ctx context.Context, exited <-chan struct{}) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := s.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-exited:
			return fmt.Errorf("the server ended at once: %s", s.logTail())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (s *Server) logTail() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}

func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// Stop ends the server cleanly.
func (s *Server) Stop(ctx context.Context) error {
	return s.end(ctx, func(p *os.Process) error { return p.Signal(s.stop) })
}

// Kill ends the server and its children with SIGKILL, as a crash does: nothing is flushed, nobody is told.
func (s *Server) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return s.end(ctx, killFamily)
}

func (s *Server) end(ctx context.Context, ask func(*os.Process) error) error {
	if !s.running() {
		return nil
	}
	if err := ask(s.process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the server did not end: %w", ctx.Err())
	}
}

// Restart stops the server cleanly, if it runs, and starts it on the same port and data.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Close ends the server and removes its data.
func (s *Server) Close() error {
	return errors.Join(s.Kill(), os.RemoveAll(s.dir))
}

// folderPrefix begins the names of the servers' folders.
const folderPrefix = "holdfast-"

// newFolder makes the folder of a server of the kind.
func newFolder(kind string) (string, error) {
	sweepOnce()
	dir, err := os.MkdirTemp("", folderPrefix+kind+"-")
	if err != nil {
		return "", err
	}
	if err := claim(dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// starts is how often a start is tried, each time with a new port.
const starts = 3

// startWith starts the server that build makes, on one of the ports. A port that another process took in between makes the
// start fail, and the next is tried.
func startWith(
	ctx context.Context, ports func(context.Context) (int, error), build func(port int) (*Server, error),
) (*Server, error) {
	var errs []error
	for range starts {
		port, err := ports(ctx)
		if err != nil {
			return nil, err
		}
		s, err := build(port)
		if err != nil {
			return nil, err
		}
		if err = s.Start(ctx); err == nil {
			return s, nil
		}
		errs = append(errs, err)
		_ = s.Close()
	}
	return nil, errors.Join(errs...)
}

// sameFolder returns an error unless the answering server works in the folder that ours has. When ours lost its port, some
// other server answers there, in the moment before ours ends.
func sameFolder(theirs, ours string) error {
	a, err := os.Stat(theirs)
	if err != nil {
		return fmt.Errorf("another server answers: %w", err)
	}
	b, err := os.Stat(ours)
	if err != nil {
		return err
	}
	if !os.SameFile(a, b) {
		return fmt.Errorf("another server answers, that of %s", theirs)
	}
	return nil
}
