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
	// DSN is the URL of a PostgreSQL database, in which the story makes a schema and drops it. Empty means SQLite in a
	// temporary folder.
	DSN string
	// Crash kills the server process in the middle of the load, again and again.
	Crash bool
	// Payloads is a file of webhook bodies. Empty means a few that the story brings along.
	Payloads string
	// Seed makes a run repeatable, as far as the scheduler allows.
	Seed uint64
	// Out takes the progress.
	Out io.Writer
}

// Logf writes a line of progress.
func (c Config) Logf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Out, "  "+format+"\n", args...)
}

// Result is what a story found.
type Result struct {
	Story       string `json:"story"`
	Hazard      string `json:"hazard"`
	Backend     string `json:"backend"`
	Operations  int    `json:"operations"`
	NaiveDamage int    `json:"naive_damage"`
	Damage      int    `json:"damage"`
	OK          bool   `json:"ok"`
	// NotRun says why the story did not run. The numbers are then meaningless.
	NotRun string `json:"not_run,omitempty"`
}

// Judge sets OK: our way must be without damage, and the naive way must show that there was something to damage.
func (r *Result) Judge() {
	r.OK = r.NotRun == "" && r.Damage == 0 && r.NaiveDamage > 0
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
	flag.Uint64Var(&c.Seed, "seed", uint64(time.Now().UnixNano()), "seed of the random choices")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for round := range *rounds {
		if *rounds > 1 {
			fmt.Printf("round %d of %d, seed %d\n", round+1, *rounds, c.Seed)
		}
		r, err := run(ctx, c)
		if err == nil && !r.OK {
			err = fmt.Errorf("the invariant is broken: %+v", r)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:gocritic // the process ends anyway
		}
		c.Seed++
	}
}
