package idem

import (
	"bytes"
	"container/list"
	"errors"
	"sync"
	"time"
)

// A cache keeps rows that hold an answer, as they are stored: what is sealed stays so. A nil cache keeps nothing. The
// oldest go first, which are the first to end too, since each is kept for as long.
type cache struct {
	limit int
	keep  time.Duration

	mu    sync.Mutex // guards what follows
	size  int
	epoch uint64 // how often something was dropped
	order *list.List
	rows  map[ID]*list.Element
}

type cached struct {
	digest ID
	row    row
	until  time.Time
}

// size is about what a row takes in memory.
func (r *cached) size() int { return 384 + len(r.row.body) + len(r.row.fp) }

// asked is when a row was asked for.
type asked struct {
	at    time.Time
	epoch uint64
}

func newCache(limit int, keep time.Duration) *cache {
	if limit <= 0 {
		return nil
	}
	return &cache{limit: limit, keep: keep, order: list.New(), rows: map[ID]*list.Element{}}
}

func checkCache(o Options) error {
	if o.CacheBytes < 0 || o.CacheFor < 0 {
		return errors.New("idem: Options.CacheBytes and Options.CacheFor must not be negative")
	}
	return nil
}

// ask is called before a request is sent: its answer is good from then, not from when it arrives, and not if something is
// dropped in between, since it may have been read before.
func (m *cache) ask() asked {
	if m == nil {
		return asked{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return asked{at: time.Now(), epoch: m.epoch}
}

// get returns the row of d for the caller to keep.
func (m *cache) get(d ID) (r row, ok bool) {
	if m == nil {
		return row{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.rows[d]
	if !ok {
		return row{}, false
	}
	found := e.Value.(*cached)
	if !time.Now().Before(found.until) {
		m.remove(e)
		return row{}, false
	}
	r = found.row
	r.body = bytes.Clone(r.body)
	return r, true
}

// add keeps r, which the request of a has found or stored.
func (m *cache) add(d ID, r row, a asked) {
	if m == nil {
		return
	}
	r.body = bytes.Clone(r.body) // the caller may change its own
	kept := &cached{digest: d, row: r, until: a.at.Add(m.keep)}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if a.epoch != m.epoch || kept.size() > m.limit || !now.Before(kept.until) {
		return
	}
	if e, ok := m.rows[d]; ok {
		m.remove(e)
	}
	for e := m.order.Front(); e != nil && (m.size+kept.size() > m.limit || !now.Before(e.Value.(*cached).until)); e = m.order.Front() {
		m.remove(e)
	}
	m.rows[d] = m.order.PushBack(kept)
	m.size += kept.size()
}

// remove takes out one row. mu is held.
func (m *cache) remove(e *list.Element) {
	r := m.order.Remove(e).(*cached)
	delete(m.rows, r.digest)
	m.size -= r.size()
}

// drop forgets the row of d.
func (m *cache) drop(d ID) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
	if e, ok := m.rows[d]; ok {
		m.remove(e)
	}
}

// clear forgets all rows.
func (m *cache) clear() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
	m.size = 0
	m.order.Init()
	clear(m.rows)
}

// recollect puts the row that c asks for into c if it is in the cache, with the same fingerprint. Any other call is for the
// database to judge: it alone knows that the key was not freed for another request meanwhile.
func (k *Keys[T]) recollect(c *call) bool {
	r, ok := k.cache.get(c.digest)
	if !ok || !c.key.Fingerprint.matches(r.fp) {
		return false
	}
	c.row = r
	return true
}

// keep puts the answer of a call into the cache, be it new or a replay. What others of this process had asked for is theirs
// to keep: only they know when.
func (k *Keys[T]) keep(c *call, e entry, replayed bool) {
	if k.cache == nil || c.asked.at.IsZero() {
		return
	}
	switch {
	case e.state != 0 && !replayed:
		e.body, e.stored = e.stored, nil
		k.cache.add(c.digest, row{entry: e, fp: c.key.Fingerprint.bytes()}, c.asked)
	case replayed:
		k.cache.add(c.digest, c.row, c.asked)
	}
}
