package idem

import (
	"encoding/binary"
	"testing"
)

func digestOf(n uint64) (d ID) {
	binary.BigEndian.PutUint64(d[8:], n)
	return d
}

func TestRecentRemembersAndForgets(t *testing.T) {
	var r recent
	size := uint64(len(r.slots))
	a, b := digestOf(7+3*size), digestOf(7+5*size) // they share their first place
	for _, d := range []ID{a, b} {
		if r.has(d) {
			t.Error("a digest is known before it was added")
		}
		r.add(d)
		r.add(d)
	}
	if !r.has(a) || !r.has(b) {
		t.Error("one drove the other out")
	}
	r.drop(a)
	if r.has(a) || !r.has(b) {
		t.Error("dropping one must leave the other")
	}
}

// What is full forgets, and never says that it knows what it was not told.
func TestRecentIsBounded(t *testing.T) {
	var r recent
	known := 0
	for n := uint64(1); n <= 100_000; n++ {
		d := digestOf(n * 0x9e3779b97f4a7c15)
		if r.has(d) {
			t.Fatalf("%d is known before it was added", n)
		}
		if r.add(d); !r.has(d) {
			t.Fatalf("%d is not known after it was added", n)
		}
	}
	for n := uint64(1); n <= 100_000; n++ {
		if r.has(digestOf(n * 0x9e3779b97f4a7c15)) {
			known++
		}
	}
	if known > len(r.slots) {
		t.Errorf("%d digests in %d slots", known, len(r.slots))
	}
}

func TestStorm(t *testing.T) {
	t.Parallel()
	var r recent
	for range 1000 {
		r.turn(false)
	}
	calls := 0
	for ; !r.storm(); calls++ {
		r.turn(true)
	}
	if calls != stormTide {
		t.Errorf("a storm began after %d repetitions", calls)
	}
	for range 1000 {
		r.turn(true)
	}
	for calls = 0; r.storm(); calls++ {
		r.turn(false)
	}
	if calls > (highTide-stormTide)/2+1 {
		t.Errorf("a storm lasted for %d first calls", calls)
	}
	for i := range 900 { // two of three are repetitions
		r.turn(i%3 != 0)
	}
	if r.storm() {
		t.Error("two repetitions of three are a storm")
	}
}
