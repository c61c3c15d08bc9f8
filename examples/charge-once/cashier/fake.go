package cashier

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/story"
)

// A mood is how the fake provider treats the first request about an order. It treats all others well.
type mood string

const (
	prompt mood = ""
	slow   mood = "slow"   // takes longer than a lease lasts
	mute   mood = "mute"   // charges, and hangs up without an answer
	broken mood = "broken" // charges, and its gateway answers 502
	late   mood = "late"   // the network loses the caller, and delivers the request after a while all the same
)

const (
	slowness = 2 * ttl
	lateness = ttl
)

// fake is a provider with a ledger. As real ones do, it charges once for a key, answers 409 while it is at it, and forgets
// keys, but no charge.
type fake struct {
	underway sync.WaitGroup // requests, also those whose caller is gone

	mu      sync.Mutex // guards what follows
	ledger  []entry
	keys    map[string]*entry // nil while it is at it
	arrived map[string]chan struct{}
}

// An entry is a charge and the key that it was asked for with.
type entry struct {
	Charge
	Key string `json:"key"`
}

func init() {
	story.RegisterChild("provider", func(string) (http.Handler, error) { return newFake(), nil })
}

func newFake() http.Handler {
	f := &fake{keys: map[string]*entry{}, arrived: map[string]chan struct{}{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", f.charge)
	mux.HandleFunc("GET /charges", f.find)
	mux.HandleFunc("GET /ledger", f.list)     // for the audit
	mux.HandleFunc("POST /forget", f.forget)  // the time of an order's keys is over
	mux.HandleFunc("GET /arrived", f.waitFor) // answers once a request about an order has arrived
	return mux
}

func (f *fake) charge(w http.ResponseWriter, r *http.Request) {
	var o Order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key, m := r.Header.Get("Idempotency-Key"), prompt
	if f.isFirst(o.ID) {
		m = mood(r.Header.Get(moodHeader))
	}
	takes := time.Duration(0)
	switch m {
	case late:
		f.underway.Go(func() {
			time.Sleep(lateness)
			f.apply(key, o, 0)
		})
		panic(http.ErrAbortHandler)
	case slow:
		takes = slowness
	}
	f.underway.Add(1)
	defer f.underway.Done()
	c, status := f.apply(key, o, takes)
	switch m {
	case mute:
		panic(http.ErrAbortHandler) // the connection ends without an answer
	case broken:
		status = http.StatusBadGateway
	}
	w.WriteHeader(status)
	if status < http.StatusBadRequest {
		_ = json.NewEncoder(w).Encode(c)
	}
}

// isFirst tells the first request about an order, and whoever waits for it.
func (f *fake) isFirst(order string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.arrival(order):
		return false
	default:
		close(f.arrival(order))
		return true
	}
}

// arrival is closed when the first request about an order arrives. The mutex is held.
func (f *fake) arrival(order string) chan struct{} {
	if f.arrived[order] == nil {
		f.arrived[order] = make(chan struct{})
	}
	return f.arrived[order]
}

// apply charges, unless the key was seen.
func (f *fake) apply(key string, o Order, takes time.Duration) (Charge, int) {
	known, status := f.begin(key, o)
	if status != 0 {
		return known, status
	}
	time.Sleep(takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	e := entry{Charge{ID: fmt.Sprintf("ch_%d", len(f.ledger)+1), Order: o.ID, Amount: o.Amount}, key}
	f.ledger = append(f.ledger, e)
	if key != "" {
		f.keys[key] = &e
	}
	return e.Charge, http.StatusCreated
}

// begin notes the key, or returns the answer that it has by now.
func (f *fake) begin(key string, o Order) (c Charge, status int) {
	if key == "" {
		return c, 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch known, ok := f.keys[key]; {
	case !ok:
		f.keys[key] = nil
		return c, 0
	case known == nil:
		return c, http.StatusConflict
	case known.Order != o.ID || known.Amount != o.Amount:
		return c, http.StatusUnprocessableEntity
	default:
		return known.Charge, http.StatusOK
	}
}

func (f *fake) find(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := r.URL.Query().Get("key")
	if at, ok := f.keys[key]; ok && at == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	for _, e := range f.ledger {
		if e.Key == key && key != "" {
			_ = json.NewEncoder(w).Encode(e.Charge)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (f *fake) forget(_ http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, e := range f.keys {
		if e != nil && e.Order == r.URL.Query().Get("order") {
			delete(f.keys, key)
		}
	}
}

func (f *fake) waitFor(_ http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	arrived := f.arrival(r.URL.Query().Get("order"))
	f.mu.Unlock()
	select {
	case <-arrived:
	case <-r.Context().Done():
	}
}

// list waits for what is still to come.
func (f *fake) list(w http.ResponseWriter, _ *http.Request) {
	f.underway.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = json.NewEncoder(w).Encode(f.ledger)
}
