package story

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// childEnv tells a process of the same binary which server to be.
const childEnv = "HOLDFAST_EXAMPLE_SERVER"

// order is what a server process is told.
type order struct{ Name, Address, URL string }

// RunChild makes this process a server or a worker, and does not return, if it was started as one. Call it first in main.
func RunChild() {
	if text := os.Getenv(workerEnv); text != "" {
		fmt.Fprintln(os.Stderr, beWorker(context.Background(), text))
		os.Exit(1)
	}
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	go func() { // the pipe closes when the parent dies, however it dies
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	fmt.Fprintln(os.Stderr, beServer(context.Background(), text))
	os.Exit(1)
}

func beServer(ctx context.Context, text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	open, ok := children[o.Name]
	if !ok {
		open = func(url string) (http.Handler, error) {
			handler, _, err := Place{URL: url}.handler(ctx, o.Name)
			return handler, err
		}
	}
	handler, err := open(o.URL)
	if err != nil {
		return err
	}
	l, err := listen(ctx, o.Address)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr()) // tells the parent that connections are taken, and where
	return newServer(handler).Serve(l)
}

var children = map[string]func(text string) (http.Handler, error){}

// RegisterChild names what a process of the same binary can do that needs no database. The text is what [StartChild] gives it.
func RegisterChild(name string, open func(text string) (http.Handler, error)) { children[name] = open }

// StartChild starts a process that does what was registered by that name, and returns where it answers. It ends with stop, or
// with this process.
func StartChild(ctx context.Context, name, text string) (url string, stop func(), err error) {
	p, err := startProcess(ctx, name, Place{URL: text})
	if err != nil {
		return "", nil, err
	}
	return "http://" + p.address, p.kill, nil
}

// process is a server in a process of its own.
type process struct {
	name    string
	place   Place
	address string // with port 0 before the first start
	cmd     *exec.Cmd
	stdin   io.Closer
}

func startProcess(ctx context.Context, name string, place Place) (*process, error) {
	p := &process{name: name, place: place, address: "127.0.0.1:0"}
	return p, p.start(ctx)
}

// start returns when the server takes connections.
func (p *process) start(ctx context.Context) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(order{Name: p.name, Address: p.address, URL: p.place.URL})
	if err != nil {
		return err
	}
	cmd := exec.Command(binary) //nolint:noctx // it is killed on purpose, and waited for
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.stdin = cmd, stdin
	// A server that does not come up closes its end of the pipe, or is killed.
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		p.kill()
		return errors.Join(errors.New("the server process did not start"), ctx.Err())
	}
	p.address = strings.TrimSpace(line)
	return nil
}

// kill ends the server with SIGKILL, in the middle of whatever it does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = p.stdin.Close()
}
