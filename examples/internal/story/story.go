// Package story is what the examples share: how a story is set up and what it reports.
package story

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// Config is what a story is run with.
type Config struct {
	// DSN is the URL of a PostgreSQL database, in which the story makes schemas and drops them. Empty means SQLite in a
	// temporary folder.
	DSN string
	// Crash runs each server in a process of its own and kills it in the middle of the load, again and again.
	Crash bool
	// Payloads is a file of webhook bodies. Empty means a few that the story brings along.
	Payloads string
	// Redis is the URL of a Redis server, for the stories that have a part on one.
	Redis string
	// Seed makes a run repeatable, as far as the scheduler allows.
	Seed uint64
	// Out takes the progress.
	Out io.Writer
}

// Logf writes a line of progress.
func (c Config) Logf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Out, "  "+format+"\n", args...)
}

// Elsewhere stands for what a request does at other services, such as a fraud check or fetching the customer's address:
// it takes time, and the database does not notice. Naive and ours do the same.
func Elsewhere(ctx context.Context) error {
	select {
	case <-time.After(2 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Main is the main function of a story's command: it parses the flags, runs the story as often as -rounds says, and exits
// with 1 when the invariant breaks.
func Main(run func(ctx context.Context, c Config) (Result, error)) {
	RunChild()
	c := Config{Out: os.Stdout}
	rounds := flag.Int("rounds", 1, "how often the story is run")
	flag.StringVar(&c.DSN, "dsn", "", "URL of a PostgreSQL database; SQLite without it")
	flag.BoolVar(&c.Crash, "crash", false, "kill the server process in the middle of the load")
	flag.StringVar(&c.Payloads, "payloads", "", "file of webhook bodies, a JSON object a line (webhooks only)")
	flag.StringVar(&c.Redis, "redis", "", "URL of a Redis server: a shared cache, and a naive lock, that are there (stampede and fencing)")
	flag.Uint64Var(&c.Seed, "seed", uint64(time.Now().UnixNano()), "seed of the random choices")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var total Result
	for round := range *rounds {
		if *rounds > 1 {
			fmt.Printf("round %d of %d, seed %d\n", round+1, *rounds, c.Seed)
		}
		r, err := run(ctx, c)
		if err == nil && !r.OK {
			err = fmt.Errorf("the invariant is broken: %+v", r)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "seed %d: %v\n", c.Seed, err)
			os.Exit(1) //nolint:gocritic // the process ends anyway
		}
		total.Operations += r.Operations
		total.NaiveDamage += r.NaiveDamage
		total.Kills += r.Kills
		c.Seed++
	}
	fmt.Printf("%d rounds held: %d operations, %d kills, naive damage %d, ours none\n", *rounds, total.Operations, total.Kills, total.NaiveDamage)
}
