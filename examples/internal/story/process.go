package story

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// childEnv tells a process of the same binary which server to be.
const childEnv = "HOLDFAST_EXAMPLE_SERVER"

// A Server is what a server process is started with.
type Server struct {
	// Name is the server, as given to RegisterServer.
	Name string
	// Address is where it listens.
	Address string
	// Place is its database.
	Place Place
}

var servers = map[string]func(ctx context.Context, p Place) (http.Handler, func(), error){}

// RegisterServer names a function that opens a server, so that a process of the same binary can be that server.
func RegisterServer(name string, open func(ctx context.Context, p Place) (http.Handler, func(), error)) {
	servers[name] = open
}

// RunChild makes this process a server, and does not return, if it was started as one. Call it first in main.
func RunChild() {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	var s struct{ Name, Address, URL string }
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	go func() { // the pipe closes when the parent dies, however it dies
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(1)
	}()
	handler, _, err := servers[s.Name](context.Background(), Place{URL: s.URL})
	if err == nil {
		err = listen(s.Address, handler)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func listen(address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

// A Process is a server in a process of its own.
type Process struct {
	server Server
	cmd    *exec.Cmd
	stdin  interface{ Close() error }
	exited chan struct{}
	kills  int
}

// StartProcess starts the server on a free port.
func StartProcess(ctx context.Context, name string, place Place) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Process{server: Server{Name: name, Address: address, Place: place}}
	return p, p.start(ctx)
}

// URL is where the server answers.
func (p *Process) URL() string { return "http://" + p.server.Address }

// Kills is how often it was killed.
func (p *Process) Kills() int { return p.kills }

func (p *Process) start(ctx context.Context) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(map[string]string{"Name": p.server.Name, "Address": p.server.Address, "URL": p.server.Place.URL})
	if err != nil {
		return err
	}
	cmd := exec.Command(binary) //nolint:noctx // it is killed on purpose
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	p.cmd, p.exited = cmd, exited
	return p.await(ctx)
}

// await waits until the server takes connections.
func (p *Process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		var dialer net.Dialer
		if conn, err := dialer.DialContext(ctx, "tcp", p.server.Address); err == nil {
			return conn.Close()
		}
		select {
		case <-ticker.C:
		case <-p.exited:
			return fmt.Errorf("the server process ended at once")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Crash kills the server with SIGKILL, in the middle of whatever it does, and starts it again on the same address.
func (p *Process) Crash(ctx context.Context) error {
	p.Kill()
	p.kills++
	return p.start(ctx)
}

// Kill ends the server with SIGKILL.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
	_ = p.stdin.Close()
}

// FreeAddress returns an address of this machine that nobody listens on.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
