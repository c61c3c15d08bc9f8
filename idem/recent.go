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
}

func (r *recent) slot(d digest) (*atomic.Uint64, uint64) {
	n := binary.BigEndian.Uint64(d[8:16])
	return &r.slots[n%uint64(len(r.slots))], n
}

func (r *recent) has(d digest) bool {
	slot, n := r.slot(d)
	return slot.Load() == n
}

func (r *recent) add(d digest) {
	slot, n := r.slot(d)
	if slot.Load() != n {
		slot.Store(n)
	}
}

func (r *recent) drop(d digest) {
	slot, n := r.slot(d)
	slot.CompareAndSwap(n, 0)
}
