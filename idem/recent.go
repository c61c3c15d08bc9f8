package idem

import (
	"encoding/binary"
	"sync/atomic"
)

// recent remembers, in a fixed 32 KiB, digests of keys that are known to have an answer. For those, a plain read comes
// before a claim: a retry storm on this process then costs one round trip each, and no transaction. It is a hint and no
// more: a digest that is missing, overwritten or wrong costs time, never correctness.
type recent struct {
	slots [4096]atomic.Uint64
	tide  atomic.Int32
}

// A storm is when most of what comes are repetitions of keys that this process has not seen, as after the restart of a
// replica that retries are sent to. Then each call reads first. An answer raises the tide by one and a first call lowers
// it by two, so a storm lasts while more than two calls of three are repetitions.
const (
	stormTide = 8
	highTide  = 16
)

func (r *recent) storm() bool { return r.tide.Load() >= stormTide }

// turn tells what a call came to. Calls that overwrite each other's count cost accuracy, which does not matter.
func (r *recent) turn(repetition bool) {
	switch tide := r.tide.Load(); {
	case repetition && tide < highTide:
		r.tide.Store(tide + 1)
	case !repetition && tide > 0:
		r.tide.Store(max(tide-2, 0))
	}
}

// places returns the two slots that a digest may stand in, so that two keys which share one do not drive each other out
// time and again.
func (r *recent) places(d ID) (n uint64, places [2]*atomic.Uint64) {
	n = binary.BigEndian.Uint64(d[8:16])
	size := uint64(len(r.slots))
	return n, [2]*atomic.Uint64{&r.slots[n%size], &r.slots[n/size%size]}
}

func (r *recent) has(d ID) bool {
	n, places := r.places(d)
	return places[0].Load() == n || places[1].Load() == n
}

func (r *recent) add(d ID) {
	if r == nil {
		return
	}
	n, places := r.places(d)
	if places[0].Load() == n || places[1].Load() == n || places[0].CompareAndSwap(0, n) || places[1].CompareAndSwap(0, n) {
		return
	}
	places[n>>63].Store(n)
}

func (r *recent) drop(d ID) {
	n, places := r.places(d)
	for _, place := range places {
		place.CompareAndSwap(n, 0)
	}
}
