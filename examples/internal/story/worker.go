package story

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/tx"
)

// workerEnv tells a process of the same binary which work to do.
const workerEnv = "HOLDFAST_EXAMPLE_WORKER"

// task is what a worker process is told.
type task struct {
	Name, URL, StopAt string
	Args              []string
}

// work is what a worker does on each engine. What it returns is told to the parent.
type work struct {
	onSQLite   func(context.Context, *tx.DB[*sql.Tx], []string) string
	onPostgres func(context.Context, *tx.DB[pgx.Tx], []string) string
}

var works = map[string]work{}

// RegisterWorker names a piece of work, so that a process of the same binary can do it. A generic function f is given as
// f[*sql.Tx], f[pgx.Tx].
func RegisterWorker(
	name string, onSQLite func(context.Context, *tx.DB[*sql.Tx], []string) string, onPostgres func(context.Context, *tx.DB[pgx.Tx], []string) string,
) {
	works[name] = work{onSQLite, onPostgres}
}

const (
	atPoint  = "at the point"
	finished = "finished: "
)

var (
	stopAt string        // the point at which this process waits; empty for none
	resume chan struct{} // gets something when it may go on
)

// Point is a place in the work at which [Worker.Stop] can meet it. It waits there, once, if its process was started to stop at it.
func Point(name string) {
	if name != stopAt {
		return
	}
	stopAt = ""
	fmt.Println(atPoint)
	<-resume
}

// beWorker does the work of this process, and ends it.
func beWorker(ctx context.Context, text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	stopAt, resume = t.StopAt, make(chan struct{})
	go func() {
		in := bufio.NewReader(os.Stdin)
		for {
			if _, err := in.ReadByte(); err != nil { // the parent is gone
				os.Exit(1)
			}
			resume <- struct{}{}
		}
	}()
	said := ""
	err := Place{URL: t.URL}.On(ctx,
		func(ctx context.Context, db *tx.DB[*sql.Tx]) error {
			said = works[t.Name].onSQLite(ctx, db, t.Args)
			return nil
		},
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error {
			said = works[t.Name].onPostgres(ctx, db, t.Args)
			return nil
		})
	if err != nil {
		return err
	}
	fmt.Println(finished + said)
	os.Exit(0)
	return nil
}

// A Worker is a process that does one piece of work.
type Worker struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // what it says, closed at its end
}

// Start starts a process that does the named work on the place. It waits at the point stopAt, if there is one, until it is
// told to go on.
func (p Place) Start(ctx context.Context, name, stopAt string, args ...string) (*Worker, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(task{Name: name, URL: p.URL, StopAt: stopAt, Args: args})
	if err != nil {
		return nil, err
	}
	w := &Worker{cmd: exec.CommandContext(ctx, binary), lines: make(chan string, 2)} // it is killed when ctx ends
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	w.cmd.Stderr = os.Stderr
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(w.lines)
		for in := bufio.NewScanner(stdout); in.Scan(); {
			w.lines <- in.Text()
		}
	}()
	return w, nil
}

// Stop waits until the process is at its point, and stops it with SIGSTOP.
func (w *Worker) Stop() error {
	if line := <-w.lines; line != atPoint {
		return fmt.Errorf("the process did not come to its point: %q", line)
	}
	return suspend(w.cmd.Process)
}

// Continue wakes a process that was stopped, and lets it pass its point.
func (w *Worker) Continue() error {
	_, err := w.stdin.Write([]byte{'\n'})
	return errors.Join(err, wake(w.cmd.Process))
}

// EndsWithin tells whether the process ends in a time, in which it is watched.
func (w *Worker) EndsWithin(d time.Duration) bool {
	select {
	case line, ok := <-w.lines:
		if ok {
			w.lines <- line // for Wait: it has room, since a process says two lines at most
		}
		return true
	case <-time.After(d):
		return false
	}
}

// Wait returns what the work came to, once the process has ended.
func (w *Worker) Wait() (string, error) {
	line := <-w.lines
	err := w.cmd.Wait()
	_ = w.stdin.Close()
	said, ok := strings.CutPrefix(line, finished)
	if !ok {
		return "", errors.Join(errors.New("the process ended without a result"), err)
	}
	return said, err
}

// Kill ends the process, also if it is stopped.
func (w *Worker) Kill() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}
