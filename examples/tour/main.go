// Command tour runs every story and ends with a table: what the naive way damages, and what ours does.
//
//	go run ./examples/tour                          embedded SQLite, no server needed
//	go run ./examples/tour -dsn postgres://…        PostgreSQL
//	go run ./examples/tour -redis redis://…         with the story that needs Redis
//	go run ./examples/tour -only payments,signup    some of them
//	go run ./examples/tour -json                    an object a line
//
// It exits with 0 only if every invariant held, and every naive control broke: a control without damage means that the
// load showed nothing.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/examples/charge-client/charge"
	"github.com/holdfast-go/holdfast/examples/charge-once/cashier"
	"github.com/holdfast-go/holdfast/examples/counters/views"
	"github.com/holdfast-go/holdfast/examples/documents/edit"
	"github.com/holdfast-go/holdfast/examples/fencing/payroll"
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/examples/nightly/batch"
	"github.com/holdfast-go/holdfast/examples/payments/pay"
	"github.com/holdfast-go/holdfast/examples/queue/work"
	"github.com/holdfast-go/holdfast/examples/signup/register"
	"github.com/holdfast-go/holdfast/examples/stampede/herd"
	"github.com/holdfast-go/holdfast/examples/tickets/box"
	"github.com/holdfast-go/holdfast/examples/transfers/bank"
	"github.com/holdfast-go/holdfast/examples/webhooks/hook"
	"github.com/holdfast-go/holdfast/examples/writeskew/oncall"
)

// A chapter is a story on the tour.
type chapter struct {
	name   string
	hazard string
	needs  string // a server without which the story is listed as not run
	crash  bool
	run    func(ctx context.Context, c story.Config) (story.Result, error)
}

var chapters = []chapter{
	{name: "payments", hazard: "retried or double-clicked POST", run: pay.Run},
	{name: "payments-crash", hazard: "SIGKILL in the middle of payments", run: pay.Run, crash: true},
	{name: "charge-once", hazard: "a crash between the provider's charge and our save", run: cashier.Run},
	{name: "webhooks", hazard: "duplicate webhook delivery", run: hook.Run},
	{name: "webhooks-crash", hazard: "SIGKILL in the middle of deliveries", run: hook.Run, crash: true},
	{name: "signup", hazard: "two requests create the same user or booking", run: register.Run},
	{name: "documents", hazard: "lost update on an edit form", run: edit.Run},
	{name: "overlaps", hazard: "two bookings that overlap", run: register.RunOverlaps, needs: "PostgreSQL"},
	{name: "transfers", hazard: "a transfer must see consistent balances", run: bank.Run},
	{name: "queue", hazard: "workers pull the same job", run: work.Run},
	{name: "nightly", hazard: "a scheduled job on several instances", run: batch.Run},
	{name: "counters", hazard: "counter increments lost, or doubled by a retry", run: views.Run},
	{name: "tickets", hazard: "stock oversold", run: box.Run},
	{name: "stampede", hazard: "cache miss stampede, stale fill", run: herd.Run},
	{name: "stampede-redis", hazard: "the same in three processes that share a cache", run: herd.RunProcesses, needs: "Redis"},
	{name: "fencing", hazard: "a process stands still between looking at its lock and writing", run: payroll.Run},
	{name: "charge-client", hazard: "retry of a non-idempotent call", run: charge.Run},
	{name: "writeskew", hazard: "two doctors leave, each because the other is there", run: oncall.Run, needs: "PostgreSQL"},
}

// lacks returns the flag that would name the server which the chapter needs and does not have.
func (ch chapter) lacks(c story.Config) string {
	switch {
	case ch.needs == "PostgreSQL" && c.DSN == "":
		return "-dsn"
	case ch.needs == "Redis" && c.Redis == "":
		return "-redis"
	}
	return ""
}

func main() {
	story.RunChild()
	c := story.Config{Out: os.Stderr}
	flag.StringVar(&c.DSN, "dsn", "", "URL of a PostgreSQL database; SQLite without it")
	flag.StringVar(&c.Payloads, "payloads", "", "file of webhook bodies, a JSON object a line")
	flag.StringVar(&c.Redis, "redis", "", "URL of a Redis server, for stampede-redis and a part of fencing")
	flag.Uint64Var(&c.Seed, "seed", uint64(time.Now().UnixNano()), "seed of the random choices")
	only := flag.String("only", "", "names of the stories to run, with commas between")
	asJSON := flag.Bool("json", false, "print an object a line instead of the table")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "tour takes flags only, not %q: name stories with -only\n", flag.Args())
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	names, err := pick(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2) //nolint:gocritic // the process ends anyway
	}
	results := tour(ctx, c, names)
	if *asJSON {
		err = printJSON(os.Stdout, results)
	} else {
		err = printTable(os.Stdout, results)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !held(results) {
		os.Exit(1)
	}
}

// pick returns the chapters of a comma-separated list, or all.
func pick(only string) ([]chapter, error) {
	if only == "" {
		return chapters, nil
	}
	var picked []chapter
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(chapters, func(ch chapter) bool { return ch.name == strings.TrimSpace(name) })
		if i < 0 {
			var known []string
			for _, ch := range chapters {
				known = append(known, ch.name)
			}
			return nil, fmt.Errorf("-only: there is no story %q: there are %s", name, strings.Join(known, ", "))
		}
		picked = append(picked, chapters[i])
	}
	return picked, nil
}

func tour(ctx context.Context, c story.Config, chapters []chapter) []story.Result {
	results := make([]story.Result, 0, len(chapters))
	for i, ch := range chapters {
		_, _ = fmt.Fprintf(c.Out, "[%d/%d] %s\n", i+1, len(chapters), ch.name)
		if how := ch.lacks(c); how != "" {
			results = append(results, story.Result{Story: ch.name, Hazard: ch.hazard, NotRun: "needs " + ch.needs + ", give " + how})
			continue
		}
		c.Crash = ch.crash
		r, err := ch.run(ctx, c)
		r.Story, r.Hazard = ch.name, ch.hazard
		if err != nil {
			r.OK, r.Error = false, err.Error()
			_, _ = fmt.Fprintf(c.Out, "  %v\n", err)
		}
		results = append(results, r)
	}
	return results
}

// held reports whether every story that ran is right, and at least one did.
func held(results []story.Result) bool {
	ran := 0
	for _, r := range results {
		if r.NotRun != "" {
			continue
		}
		if ran++; !r.OK {
			return false
		}
	}
	return ran > 0
}

func printJSON(w io.Writer, results []story.Result) error {
	encoder := json.NewEncoder(w)
	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func printTable(w io.Writer, results []story.Result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\nSTORY\tHAZARD\tBACKEND\tOPERATIONS\tNAIVE DAMAGE\tDAMAGE\tVERDICT")
	for _, r := range results {
		if r.NotRun != "" || r.Error != "" {
			_, _ = fmt.Fprintf(table, "%s\t%s\t-\t-\t-\t-\t%s\n", r.Story, r.Hazard, verdict(r))
			continue
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", r.Story, r.Hazard, r.Backend, r.Operations, r.NaiveDamage, r.Damage, verdict(r))
	}
	return table.Flush()
}

func verdict(r story.Result) string {
	switch {
	case r.NotRun != "":
		return "not run: " + r.NotRun
	case r.Error != "":
		return "FAILED, see above"
	case r.Damage > 0:
		return "BROKEN"
	case !r.OK:
		return "THE NAIVE CONTROL SHOWED NOTHING"
	}
	return "held"
}
