package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sync/errgroup"
)

// effects counts how often an effect outside happened for each key, when the process that works on it is killed or stops at
// the worst moment, and another is asked for the same. It has no rate to compare, and prints what it finds.
var effects = group{
	name: "effects", local: true,
	report: func(ctx context.Context, s *setup) error { return reportEffects(ctx, s.pool.Config().ConnString()) },
}

// A moment is what happens to the first process, or its request, at a key. Every way meets the same.
type moment string

const (
	refused      moment = "refused"       // the other side answers 503 and does nothing
	lost         moment = "lost"          // it does what it is asked, and its answer is lost
	killedBefore moment = "killed-before" // SIGKILL once the key is taken, before the effect
	killedAfter  moment = "killed-after"  // SIGKILL after the effect, before anything is saved
	killedLong   moment = "killed-long"   // the same, and the second process comes when the other side has forgotten the key
	pausedBefore moment = "paused-before" // the same with SIGSTOP, until the second process is done
	pausedAfter  moment = "paused-after"
)

// acts are the moments that one pair of processes goes through; the first act needs one process only.
var acts = [][]moment{{refused, lost}, {killedBefore, killedAfter, killedLong}, {pausedBefore, pausedAfter}}

const (
	keysOfMoment = 4
	// leaseTime is how long what runs out lasts, wherever a way lets one say so.
	leaseTime = 2 * time.Second
	// patience is how long clients of the second process try: River looks for jobs that were left each 30 seconds.
	patience = 100 * time.Second
)

// A count is how many keys had no effect, one, and several.
type count struct{ none, one, again int }

func reportEffects(ctx context.Context, dsn string) error {
	broker, stop, err := startNATS()
	if err != nil {
		return err
	}
	defer stop()
	ways := waysOf()
	counts := make([][2]map[moment]count, len(ways))
	var g errgroup.Group
	g.SetLimit(4) // pairs of processes at a time
	var mu sync.Mutex
	for i, w := range ways {
		for mode := range counts[i] {
			counts[i][mode] = map[moment]count{}
			for _, moments := range acts {
				g.Go(func() error {
					found, err := play(ctx, dsn, broker.ClientURL(), w.name, mode == 1, moments)
					if err != nil {
						return fmt.Errorf("%s: %w", w.name, err)
					}
					mu.Lock()
					defer mu.Unlock()
					for m, c := range found {
						counts[i][mode][m] = c
					}
					return nil
				})
			}
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	printEffects(ways, counts)
	return nil
}

func startNATS() (broker *server.Server, stop func(), err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-nats-")
	if err != nil {
		return nil, nil, err
	}
	stop = func() {
		if broker != nil {
			broker.Shutdown()
		}
		_ = os.RemoveAll(dir)
	}
	broker, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err == nil {
		broker.Start()
		if broker.ReadyForConnections(10 * time.Second) {
			return broker, stop, nil
		}
		err = errors.New("the NATS server did not start")
	}
	stop()
	return nil, nil, err
}

// play lets one process work on the keys until their moments have come, and a second one on what the clients have no answer to.
func play(ctx context.Context, dsn, broker, way string, keyed bool, moments []moment) (map[moment]count, error) {
	schema := "holdfast_effects_" + strings.ToLower(rand.Text()[:12])
	if err := execute(ctx, dsn, "create schema "+schema); err != nil {
		return nil, err
	}
	defer func() { _ = execute(context.WithoutCancel(ctx), dsn, "drop schema "+schema+" cascade") }()
	p := newProvider(keyed)
	defer p.close()
	o := order{Way: way, DSN: dsn, Schema: schema, Provider: p.server.URL, Broker: broker}
	first, err := startPeer(ctx, o)
	if err != nil {
		return nil, err
	}
	defer first.kill()
	var keys []string
	for _, m := range moments {
		for i := range keysOfMoment {
			keys = append(keys, fmt.Sprintf("%s/%d", m, i))
		}
	}
	clients := ask(ctx, first, keys)
	if err := p.await(ctx, keys); err != nil {
		return nil, err
	}
	told := map[string]bool{}
	switch {
	case slices.Contains(moments, pausedAfter):
		if err := first.pause(); err != nil {
			return nil, err
		}
	case slices.Contains(moments, killedAfter):
		first.kill()
		told = clients()
		p.forget(killedLong)
	default:
		told = clients()
	}
	if err := secondTurn(ctx, o, keys, told); err != nil {
		return nil, err
	}
	if slices.Contains(moments, pausedAfter) {
		p.release()
		if err := first.resume(); err != nil {
			return nil, err
		}
		clients() // whatever it does yet
	}
	return p.counts(moments), nil
}

// secondTurn has clients ask a second process for the keys that nobody was told to be done.
func secondTurn(ctx context.Context, o order, keys []string, told map[string]bool) error {
	rest := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return told[key] })
	if len(rest) == 0 {
		return nil
	}
	second, err := startPeer(ctx, o)
	if err != nil {
		return err
	}
	defer second.kill()
	again := ask(ctx, second, rest)()
	for _, key := range rest {
		if !again[key] {
			return fmt.Errorf("nobody says that %s is done", key)
		}
	}
	return nil
}

// ask has a client for each key, who asks until the process says that it is done, or is gone. The returned function waits for
// them, and tells the keys of those who were told.
func ask(ctx context.Context, p *peer, keys []string) func() map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	var mu sync.Mutex
	var all sync.WaitGroup
	told := map[string]bool{}
	for _, key := range keys {
		all.Go(func() {
			for ctx.Err() == nil && p.alive() {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/do?key="+url.QueryEscape(key), nil)
				if err != nil {
					return
				}
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					continue
				}
				_ = res.Body.Close()
				if res.StatusCode == http.StatusOK {
					mu.Lock()
					defer mu.Unlock()
					told[key] = true
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	return func() map[string]bool {
		all.Wait()
		cancel()
		return told
	}
}

func printEffects(ways []way, counts [][2]map[moment]count) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for mode, title := range []string{"the other side knows no keys", "the other side does once what comes with one key"} {
		_, _ = fmt.Fprintf(out, "\neffects, %s: keys with none/one/more of %d\n", title, keysOfMoment)
		for _, m := range slices.Concat(acts...) {
			_, _ = fmt.Fprintf(out, "%s\t", m)
		}
		_, _ = fmt.Fprintln(out)
		for i, w := range ways {
			for _, m := range slices.Concat(acts...) {
				c := counts[i][mode][m]
				_, _ = fmt.Fprintf(out, "%d/%d/%d\t", c.none, c.one, c.again)
			}
			_, _ = fmt.Fprintf(out, "  %s\n", w.name)
		}
		_ = out.Flush()
	}
}
