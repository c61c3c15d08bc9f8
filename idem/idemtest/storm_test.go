package idemtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// Repetitions that come to a process which did not do the work, as after its restart: soon each is one trip. When first
// calls come again, each soon costs what it always did.
func TestAStormOfRepetitionsIsRead(t *testing.T) {
	r := openRig(t, pgx.QueryExecModeCacheStatement)
	const n = 30
	var known []string
	for range n {
		value := r.next()
		r.do(value, two, nil)
		known = append(known, value)
	}
	r.forget()
	for i, value := range known {
		want := 2
		if i >= 8 {
			want = 1
		}
		if i == 8 || i == 9 {
			r.do(value, two, nil) // the read is parsed on its first use
			continue
		}
		if got := r.Trips(func() { r.do(value, two, nil) }); got != want {
			t.Errorf("repetition %d: %d trips, want %d", i+1, got, want)
		}
	}
	for i := range 20 {
		got := r.Trips(func() { r.do(r.next(), two, nil) })
		if want := 4; i >= 5 && got != want {
			t.Errorf("first call %d after the storm: %d trips, want %d", i+1, got, want)
		}
	}
}
