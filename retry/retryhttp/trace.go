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

// traceKey is where httptrace looks for hooks in a context. It is asked for it once, so that a frame can answer to it by itself.
var traceKey = func() any {
	spy := &keySpy{Context: context.Background()}
	httptrace.ContextClientTrace(spy)
	return spy.key
}()

type keySpy struct {
	context.Context

	key any
}

// Value keeps the key.
func (s *keySpy) Value(key any) any {
	s.key = key
	return nil
}

// trace gives the frame hooks. Those of the caller go on to be called: they were there first.
func (t *Transport) trace(f *frame) {
	if httptrace.ContextClientTrace(f.Context) != nil {
		f.trace = newTrace()
		f.trace.shared = true
		f.Context = httptrace.WithClientTrace(f.Context, &f.trace.hooks)
		return
	}
	f.trace, _ = t.traces.Get().(*trace)
	f.trace.asked.Store(false)
	f.trace.got.Store(false)
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
