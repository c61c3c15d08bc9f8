package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testdb"
)

func openTest(t testing.TB) *setup {
	t.Helper()
	url := os.Getenv(testdb.PostgresEnv)
	if url == "" {
		server, err := testdb.StartPostgres(t.Context())
		if err != nil {
			t.Fatalf("no PostgreSQL server: %v: name one with %s", err, testdb.PostgresEnv)
		}
		t.Cleanup(func() { _ = server.Close() })
		url = server.URL()
	}
	s, err := open(context.WithoutCancel(t.Context()), url, 0, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// disaster is far below the bars. A machine that does other things at the same time can reach it once, so it takes three
// measurements in a row.
const (
	disaster = 0.6
	tries    = 3
)

// The bars themselves are for the command, on a quiet machine. This is to notice a lost pipeline or a second commit.
func TestNoDisaster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	s := openTest(t)
	p := plan{slice: 60 * time.Millisecond, rounds: 15}
	for _, g := range groups[:2] {
		variants := g.variants(s)
		b := g.bars[0]
		got := 0.0
		for try := 0; try < tries && got < disaster; try++ {
			rounds, err := p.measure(t.Context(), variants, 8)
			if err != nil {
				t.Fatal(err)
			}
			got = ratio(rounds, b.at, b.reference)
			t.Logf("%s: %.2f of %s", variants[b.at].name, got, variants[b.reference].name)
		}
		if got < disaster {
			t.Errorf("%s reaches %.2f of %s, want %.2f at least", variants[b.at].name, got, variants[b.reference].name, disaster)
		}
	}
}

// For profiles: go test -bench . -cpuprofile cpu.out -memprofile mem.out, in this folder with GOWORK=off
func BenchmarkVariants(b *testing.B) {
	s := openTest(b)
	for _, g := range groups {
		if g.variants == nil {
			continue
		}
		for _, v := range g.variants(s) {
			b.Run(g.name+"/"+v.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := v.op(b.Context(), 0, sequence.Add(1)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
