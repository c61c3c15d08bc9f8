package redisflight_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// processEnv makes the test binary a process that loads, as it says.
const processEnv = "HOLDFAST_TEST_FLIGHT"

// A job is what such a process does: it gets the key, or one key after the other. A load of the key does not end unless the
// parent writes a line, and is told before.
type job struct {
	Address, Prefix, Key string
	OwnerTimeout         time.Duration
	Many                 bool
}

func TestMain(m *testing.M) {
	if text := os.Getenv(processEnv); text != "" {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			panic(err)
		}
		j.run()
		os.Exit(0)
	}
	testdb.Main(m)
}

func (j job) run() {
	o, err := redis.ParseURL(j.Address)
	if err != nil {
		panic(err)
	}
	stdin := bufio.NewReader(os.Stdin)
	c := redisflight.New(redis.NewClient(o), func(context.Context, string) (string, error) {
		if j.Many {
			time.Sleep(time.Millisecond)
			return "value", nil
		}
		fmt.Println("loading")
		_, _ = stdin.ReadString('\n')
		return "of the dead", nil
	}, &redisflight.Options[string]{Prefix: j.Prefix, OwnerTimeout: j.OwnerTimeout, TTL: time.Hour})
	if !j.Many {
		got, err := c.Get(context.Background(), j.Key)
		fmt.Println(got, err)
		return
	}
	fmt.Println("loading")
	go func() { // so that it does not outlive the test
		_, _ = stdin.ReadString('\n')
		os.Exit(0)
	}()
	for i := 0; ; i++ {
		_, _ = c.Get(context.Background(), fmt.Sprint(i))
	}
}

// A process is one that loads.
type process struct {
	*exec.Cmd

	stdin io.WriteCloser
	out   *bufio.Reader
}

// spawn returns when the process loads.
func (f *fixture) spawn(j job) *process {
	f.t.Helper()
	j.Address, j.Prefix = f.address, f.prefix
	text, err := json.Marshal(j)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &process{Cmd: exec.CommandContext(f.t.Context(), os.Args[0])}
	p.Env, p.Stderr = append(os.Environ(), processEnv+"="+string(text)), os.Stderr
	if p.stdin, err = p.StdinPipe(); err != nil {
		f.t.Fatal(err)
	}
	stdout, err := p.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	p.out = bufio.NewReader(stdout)
	if err := p.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { p.kill() })
	if line, err := p.out.ReadString('\n'); line != "loading\n" {
		f.t.Fatalf("the process said %q, %v", line, err)
	}
	return p
}

// kill ends it with SIGKILL, wherever it is.
func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// S13: a process that is killed while it loads is replaced when the owner timeout is over, and not the TTL, which is an hour
// here; and not before: while it lives, its lease is renewed.
func TestS13AProcessThatIsKilledHandsOver(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	const timeout = 1500 * time.Millisecond
	owner := func(o *redisflight.Options[string]) { o.OwnerTimeout, o.TTL = timeout, time.Hour }
	p := f.spawn(job{Key: "key", OwnerTimeout: timeout})
	got := make(chan error, 1)
	c := f.cache(f.client, constant("value", &loads), owner)
	go func() {
		text, err := c.Get(t.Context(), "key")
		if text != "value" {
			err = fmt.Errorf("got %q: %w", text, err)
		}
		got <- err
	}()
	time.Sleep(2 * timeout) // the time is what is tested: one that lives is not replaced
	if loads.Load() != 0 {
		t.Fatal("a process that lives was replaced")
	}
	p.kill()
	killed := time.Now()
	select {
	case err := <-got:
		if err != nil || loads.Load() != 1 {
			t.Errorf("%d loads: %v", loads.Load(), err)
		}
		t.Logf("replaced after %v of %v", time.Since(killed), timeout)
	case <-time.After(30 * time.Second):
		t.Fatal("not replaced within 30 s")
	}
}

// Wherever a process is killed, its keys can be had soon after, and nothing is left without an expiry.
func TestProcessesKilledAnywhere(t *testing.T) {
	t.Parallel()
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	f := start(t)
	var loads atomic.Int64
	const timeout = 200 * time.Millisecond
	c := f.cache(f.client, constant("value", &loads), func(o *redisflight.Options[string]) { o.OwnerTimeout, o.TTL = timeout, time.Hour })
	orphans := 0
	for range rounds {
		p := f.spawn(job{OwnerTimeout: timeout, Many: true})
		time.Sleep(rand.N(30 * time.Millisecond)) // it is killed anywhere
		p.kill()
		for _, key := range f.keys() {
			if strings.HasSuffix(key, ":lease") {
				orphans++
			}
			if ttl, err := f.client.PTTL(t.Context(), key).Result(); err != nil || ttl == -1 {
				t.Errorf("%s never expires: %v", key, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		for i := range 40 {
			want(t, "value")(c.Get(ctx, fmt.Sprint(i)))
		}
		cancel()
		if err := f.client.Del(t.Context(), f.keys()...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d processes died with a lease", orphans, rounds)
}
