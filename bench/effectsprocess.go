package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// peerEnv makes a process of this binary one that works on keys.
const peerEnv = "HOLDFAST_BENCH_PEER"

// An order is what such a process is told.
type order struct{ Way, DSN, Schema, Provider, Broker string }

// bePeer works on the keys that it is asked for, in its way, until it is killed.
func bePeer(ctx context.Context, text string) error {
	go func() { // the pipe closes when the parent dies, however it dies
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	do, err := openWay(ctx, o)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /do", func(w http.ResponseWriter, r *http.Request) {
		if err := do(context.WithoutCancel(r.Context()), r.URL.Query().Get("key")); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(l)
}

// openWay makes the way of an order ready.
func openWay(ctx context.Context, o order) (func(ctx context.Context, key string) error, error) {
	for _, w := range waysOf() {
		if w.name == o.Way {
			return w.open(ctx, o)
		}
	}
	return nil, errors.New("no such way: " + o.Way)
}

// work is what is to be done for a key: something before, and the effect, which goes with a reference. A 503 is an error, and so
// is an answer that is lost. Without a provider it is nothing.
func (o order) work(ctx context.Context, key, reference string) error {
	if o.Provider == "" {
		return nil
	}
	if err := o.call(ctx, http.MethodPost, "/before", key, ""); err != nil {
		return err
	}
	return o.call(ctx, http.MethodPost, "/effect", key, reference)
}

var errAbsent = errors.New("the other side knows nothing of it")

func (o order) call(ctx context.Context, method, path, key, reference string) error {
	q := url.Values{"key": {key}, "reference": {reference}}
	r, err := http.NewRequestWithContext(ctx, method, o.Provider+path+"?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	r.Close = true // a connection that broke while it was idle would be tried again by net/http
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusNotFound:
		return errAbsent
	}
	return fmt.Errorf("the other side answered %d", res.StatusCode)
}

// pool connects to the schema of the order.
func (o order) pool(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(o.DSN)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["search_path"] = o.Schema
	return pgxpool.NewWithConfig(ctx, config)
}

// A peer is such a process.
type peer struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
	dead  atomic.Bool
}

func startPeer(ctx context.Context, o order) (*peer, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &peer{cmd: exec.CommandContext(ctx, binary)}
	p.cmd.Env = append(os.Environ(), peerEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		p.kill()
		return nil, errors.New("the process did not start")
	}
	p.url = "http://" + strings.TrimSpace(line)
	return p, nil
}

func (p *peer) kill() {
	p.dead.Store(true)
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = p.stdin.Close()
}

func (p *peer) alive() bool { return !p.dead.Load() }

func (p *peer) pause() error  { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *peer) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
