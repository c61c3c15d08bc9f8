package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

// A group is measured together. The first variant is the reference.
type group struct {
	name     string
	variants func(s *setup) []variant
	bars     []bar
	local    bool  // not over the network
	callers  []int // instead of those of the command line
	rounds   int   // at most
	// report measures and prints by itself what is no rate, in the place of variants.
	report func(ctx context.Context, s *setup) error
	calls  int // that an operation makes, so that measuring costs little beside them. Default: 1.
}

// A bar is a ratio to hold, without and with a network.
type bar struct {
	at, reference  int
	direct, remote float64
	// byCallers are bars for some numbers of callers, in the place of direct.
	byCallers map[int]float64
}

var groups = []group{
	{
		name: "idem",
		variants: func(s *setup) []variant {
			return []variant{
				{"pgx, 3 trips: begin+claim, work, done+commit", s.threeTrips},
				{"pgx, 5 trips: one statement each", s.fiveTrips},
				{"pgx, 2 commits: claim, then the rest", s.twoCommits},
				{"pgx, no key: begin, work, commit", s.bare},
				{"idem.Do", s.do},
			}
		},
		bars: []bar{{at: 4, reference: 0, direct: 0.85, remote: 0.95}, {at: 4, reference: 2, direct: 1.3, remote: 1.5}},
	},
	{
		name: "replay",
		variants: func(s *setup) []variant {
			return []variant{
				{"pgx, select by primary key", s.bareSelect},
				{"idem.Do, known to this process", s.replay},
				{"idem.Do, first time in this process", s.replayElsewhere},
			}
		},
		bars: []bar{{at: 1, reference: 0, direct: 0.85, remote: 0.95}, {at: 2, reference: 0, direct: 0.85, remote: 0.95}},
	},
	{
		name: "inbox",
		variants: func(s *setup) []variant {
			return []variant{
				{"pgx, no inbox: begin, work, commit", s.bare},
				{"Inbox.Do", s.inboxDo},
				{fmt.Sprintf("Inbox.DoBatch of %d messages", batchSize), s.inboxBatch},
			}
		},
	},
	{
		name: "sql",
		variants: func(s *setup) []variant {
			return []variant{
				{"database/sql, 5 trips: one statement each", s.sqlFiveTrips},
				{"idem.Do on database/sql", s.sqlDo},
			}
		},
	},
	hot,
	redisCounters,
	txn,
	serial,
	cas,
	hotRow,
	transfer,
	counters,
	leases,
	renewals,
	redisLeases,
	waiting,
	wakes,
	flights,
	redisFlights,
	retries,
	failures,
	clients,
	leasedKeys,
	leasedReplays,
	effects,
	effectRates,
	{
		name:     "http",
		variants: func(s *setup) []variant { return s.web.variants() },
		local:    true,
	},
}

func groupNames() (names []string) {
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// print shows a group: rates, ratios to the reference, allocations with one caller or the fewest, and the bars.
func (g group) print(variants []variant, results [][][]slice, counts []int, lag time.Duration) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	calls := float64(max(g.calls, 1))
	network := "no added delay"
	if lag > 0 {
		network = fmt.Sprintf("%v added to a round trip", lag)
	}
	fmt.Printf("\n%s, %s\n", g.name, network)
	for _, c := range counts {
		_, _ = fmt.Fprintf(out, "c=%d ops/s\tratio\t", c)
	}
	if lag == 0 { // the proxy that makes the delay allocates too
		_, _ = fmt.Fprintf(out, "c=%d ns/op\tallocs/op\t", counts[0])
	}
	_, _ = fmt.Fprintln(out)
	for i, v := range variants {
		for _, rounds := range results {
			_, _ = fmt.Fprintf(out, "%.0f\t%.2f\t", calls*rate(rounds, i), ratio(rounds, i, 0))
		}
		if lag == 0 {
			_, _ = fmt.Fprintf(out, "%.0f\t%.0f\t", float64(counts[0])*1e9/rate(results[0], i)/calls, allocs(results[0], i)/calls)
		}
		_, _ = fmt.Fprintf(out, "  %s\n", v.name)
	}
	_ = out.Flush()
	for _, b := range g.bars {
		want := b.direct
		if lag > 0 {
			want = b.remote
		}
		for i, c := range counts {
			want := want
			if special, ok := b.byCallers[c]; ok && lag == 0 {
				want = special
			}
			got, verdict := ratio(results[i], b.at, b.reference), "PASS"
			if got < want {
				verdict = "below"
			}
			fmt.Printf("%-5s  c=%-2d  %.2f of %.2f  %s / %s\n", verdict, c, got, want, variants[b.at].name, variants[b.reference].name)
		}
	}
}
