package retryhttp

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/retry"
)

// maxHosts is how many hosts have a policy of their own. Those beyond share one: the names may be a stranger's.
const maxHosts = 1000

// hosts are the policies by host. A lookup takes no lock: hosts are few, and all known soon.
type hosts struct {
	first atomic.Pointer[host] // most clients have one
	known atomic.Pointer[map[string]*retry.Policy]
	make  func(host string) *retry.Policy

	mu   sync.Mutex // guards writing known, and rest
	rest *retry.Policy
}

type host struct {
	name   string
	policy *retry.Policy
}

func (h *hosts) policy(name string) *retry.Policy {
	if first := h.first.Load(); first != nil && first.name == name {
		return first.policy
	}
	if known := h.known.Load(); known != nil {
		if p := (*known)[name]; p != nil {
			return p
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	known := map[string]*retry.Policy{}
	if old := h.known.Load(); old != nil {
		if p := (*old)[name]; p != nil {
			return p
		}
		if len(*old) >= maxHosts {
			if h.rest == nil {
				h.rest = h.make("")
			}
			return h.rest
		}
		known = maps.Clone(*old)
	}
	p := h.make(name)
	known[name] = p
	h.known.Store(&known)
	h.first.CompareAndSwap(nil, &host{name, p})
	return p
}

// policyOf makes the policy of a host.
func (t *Transport) policyOf(host string) *retry.Policy {
	o := t.o.Retry
	o.AttemptTimeout = 0 // it would end the reading of the body: the transport keeps it by itself
	o.Nested = true      // the transport looks for the mark, and sets it together with what else an attempt needs
	o.Classify = func(err error) retry.Verdict { return verdict(t.o.Retry.Classify, err) }
	if o.Budget == nil {
		o.Budget = retry.NewBudget(budgetRatio, budgetBurst)
	}
	if t.o.Breaker != nil {
		o.Breaker = retry.NewBreaker(t.o.Breaker)
	}
	if o.Name == "" {
		o.Name = host
	}
	return retry.New(&o)
}
