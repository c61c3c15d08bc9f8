package retryhttp

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// A trace proves that nothing of a request was sent: the transport asked for a connection, and got none. Without the first
// it proves nothing, since not every transport tells. The later hooks, such as WroteHeaders, would prove more, but HTTP/2
// calls them beside RoundTrip, which can return before.
type trace struct {
	hooks      httptrace.ClientTrace
	asked, got atomic.Bool
	shared     bool // the hooks include those of the caller, which must not get into another request
}

func newTrace() *trace {
	t := &trace{}
	t.hooks.GetConn = func(string) { t.asked.Store(true) }
	t.hooks.GotConn = func(httptrace.GotConnInfo) { t.got.Store(true) }
	return t
}

// trace returns a context whose request is traced.
func (t *Transport) trace(ctx context.Context) (context.Context, *trace) {
	if httptrace.ContextClientTrace(ctx) != nil {
		tr := newTrace()
		tr.shared = true
		return httptrace.WithClientTrace(ctx, &tr.hooks), tr
	}
	tr, _ := t.traces.Get().(*trace)
	tr.asked.Store(false)
	tr.got.Store(false)
	return httptrace.WithClientTrace(ctx, &tr.hooks), tr
}

// unsent reports whether the request is proved not to have been sent, and puts the trace back.
func (t *Transport) unsent(tr *trace) bool {
	if tr == nil {
		return false
	}
	unsent := tr.asked.Load() && !tr.got.Load()
	if !tr.shared {
		t.traces.Put(tr)
	}
	return unsent
}
