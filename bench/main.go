// Command bench measures Holdfast beside hand-written pgx. Run it from the root:
//
//	make bench                              // all, some minutes
//	make bench ARGS="-only replay -c 1"     // one group, one caller
//	make bench ARGS="-dsn postgres://…"     // that server, else HOLDFAST_TEST_POSTGRES, else one that it starts
//
// The group "http" is the middleware beside fiber's, which keeps answers in the memory of one process: each is to be compared
// with the bare handler of its own, and the first with the database between.
//
// The group "effects" measures no time. It counts how often an effect outside happened for each key in the end, when a process
// dies or stands still at the worst moment and another is asked for the same, by hand and with products that are said to do a
// thing once. Most have the effect twice unless the other side knows keys and still remembers them. "effects-rate" has the same
// undisturbed, as rates; several of them store nothing, or in the memory of the process alone.
//
// Variants take turns in short slices. A ratio is the median of the ratios within a round, which holds where the rates
// themselves drift. The bars are what the project wants to hold; the command prints how it stands and does not fail.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/testdb"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	if text := os.Getenv(peerEnv); text != "" {
		fmt.Fprintln(os.Stderr, bePeer(ctx, text))
		os.Exit(1) //nolint:gocritic // the process ends anyway
	}
	err := bench(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context) (err error) {
	dsn := flag.String("dsn", os.Getenv(testdb.PostgresEnv), "URL of a PostgreSQL server; a schema of its own is used")
	length := flag.Duration("slice", 120*time.Millisecond, "length of a slice")
	rounds := flag.Int("rounds", 40, "how often each variant has its turn")
	callers := flag.String("c", "1,8,32", "concurrent callers")
	only := flag.String("only", "", "groups to run, of "+strings.Join(groupNames(), ", "))
	delays := flag.String("delay", "0s,1ms", "added network delay of a round trip")
	flag.Parse()

	counts, err := list(*callers, strconv.Atoi)
	if err != nil {
		return err
	}
	lags, err := list(*delays, time.ParseDuration)
	if err != nil {
		return err
	}
	if *dsn == "" {
		server, err := testdb.StartPostgres(ctx)
		if err != nil {
			return fmt.Errorf("no PostgreSQL server: %w: name one with -dsn", err)
		}
		defer func() { _ = server.Close() }()
		*dsn = server.URL()
	}
	p := plan{slice: *length, rounds: *rounds}
	for _, lag := range lags {
		for _, g := range groups {
			if *only != "" && !slices.Contains(strings.Split(*only, ","), g.name) || g.local && lag > 0 {
				continue
			}
			if err := p.group(ctx, *dsn, g, lag, counts); err != nil {
				return err
			}
		}
	}
	return nil
}

func list[T any](text string, parse func(string) (T, error)) ([]T, error) {
	var values []T
	for part := range strings.SplitSeq(text, ",") {
		v, err := parse(part)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// group measures one group and prints it.
func (p plan) group(ctx context.Context, dsn string, g group, lag time.Duration, counts []int) (err error) {
	if g.callers != nil {
		counts = g.callers
	}
	if g.rounds > 0 {
		p.rounds = min(p.rounds, g.rounds)
	}
	s, err := open(ctx, dsn, lag/2, slices.Max(counts))
	if err != nil {
		return err
	}
	defer func() {
		if e := s.close(); err == nil {
			err = e
		}
	}()
	if g.report != nil {
		return g.report(ctx, s)
	}
	results := make([][][]slice, len(counts))
	variants := g.variants(s)
	for i, callers := range counts {
		if results[i], err = p.measure(ctx, variants, callers); err != nil {
			return err
		}
	}
	g.print(variants, results, counts, lag)
	return nil
}
