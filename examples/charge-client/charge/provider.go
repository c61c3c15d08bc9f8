package charge

import (
	"io"
	"net/http"
	"sync"
)

// A provider charges, and its gateway answers 502, or hangs up, the first few times that it is asked about an order.
type provider struct {
	trouble map[string]int // how often the answer about an order is lost; not written

	mu      sync.Mutex // guards what follows
	charges map[string]int
	asked   map[string]int
	keys    map[string]bool
}

func newProvider(trouble map[string]int) *provider {
	return &provider{trouble: trouble, charges: map[string]int{}, asked: map[string]int{}, keys: map[string]bool{}}
}

// charge charges an order unless its key was seen, and returns how often it was asked to.
func (p *provider) charge(order, key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key == "" || !p.keys[key] {
		p.charges[order]++
	}
	p.keys[key] = true
	p.asked[order]++
	return p.asked[order]
}

func (p *provider) charged(order string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charges[order]
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	order, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	n := p.charge(string(order), r.Header.Get("Idempotency-Key"))
	switch {
	case n > p.trouble[string(order)]:
		w.WriteHeader(http.StatusCreated)
	case n%2 == 1:
		w.WriteHeader(http.StatusBadGateway)
	default:
		panic(http.ErrAbortHandler) // the connection ends without an answer
	}
}
