package main

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// A provider is the other side: it counts the effects, and holds the first request about a key when its moment has come.
type provider struct {
	keyed  bool
	server *httptest.Server
	free   chan struct{} // closed by release

	mu      sync.Mutex // guards what follows
	arrived map[string]chan struct{}
	effects map[string]int
	done    map[string]bool   // references that came with an effect
	keys    map[string]string // what the references that it still remembers came for
}

func newProvider(keyed bool) *provider {
	p := &provider{keyed: keyed, free: make(chan struct{}), arrived: map[string]chan struct{}{}, effects: map[string]int{}, done: map[string]bool{}, keys: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /before", p.before)
	mux.HandleFunc("POST /effect", p.effect)
	mux.HandleFunc("GET /effect", p.find)
	p.server = httptest.NewServer(mux)
	return p
}

func (p *provider) close() {
	p.server.CloseClientConnections()
	p.server.Close()
}

func momentOf(key string) moment {
	m, _, _ := strings.Cut(key, "/")
	return moment(m)
}

// before is called once a key is taken.
func (p *provider) before(_ http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	if m := momentOf(key); (m == killedBefore || m == pausedBefore) && p.first(key) {
		p.hold(r)
	}
}

func (p *provider) effect(w http.ResponseWriter, r *http.Request) {
	key, reference := r.URL.Query().Get("key"), r.URL.Query().Get("reference")
	m := momentOf(key)
	struck := m != killedBefore && m != pausedBefore && p.first(key)
	if m == refused && struck {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	p.mu.Lock()
	if !p.keyed || p.keys[reference] == "" {
		p.effects[key]++
	}
	p.done[reference], p.keys[reference] = true, key
	p.mu.Unlock()
	switch {
	case !struck:
	case m == lost:
		panic(http.ErrAbortHandler)
	default:
		p.hold(r)
	}
}

// find tells whether an effect came with a reference.
func (p *provider) find(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done[r.URL.Query().Get("reference")] {
		w.WriteHeader(http.StatusNotFound)
	}
}

// first notes that a key's moment has come, if it is the first time.
func (p *provider) first(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.arrival(key):
		return false
	default:
		close(p.arrival(key))
		return true
	}
}

// arrival is closed when the moment of a key has come. The mutex is held.
func (p *provider) arrival(key string) chan struct{} {
	if p.arrived[key] == nil {
		p.arrived[key] = make(chan struct{})
	}
	return p.arrived[key]
}

// hold keeps the caller waiting, until it is gone or released.
func (p *provider) hold(r *http.Request) {
	select {
	case <-p.free:
	case <-r.Context().Done():
	}
}

func (p *provider) release() { close(p.free) }

// forget ends the time for which the keys of a moment are remembered. What was done stays known.
func (p *provider) forget(m moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.keys, func(_, key string) bool { return momentOf(key) == m })
}

// await returns when the moment of each key has come.
func (p *provider) await(ctx context.Context, keys []string) error {
	late := time.After(patience)
	for _, key := range keys {
		p.mu.Lock()
		arrived := p.arrival(key)
		p.mu.Unlock()
		select {
		case <-arrived:
		case <-late:
			return errors.New("nobody works on " + key)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *provider) counts(moments []moment) map[moment]count {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := map[moment]count{}
	for key := range p.arrived {
		m := momentOf(key)
		c := counts[m]
		switch p.effects[key] {
		case 0:
			c.none++
		case 1:
			c.one++
		default:
			c.again++
		}
		counts[m] = c
	}
	return counts
}
