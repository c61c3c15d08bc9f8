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
	hooks  httptrace.ClientTrace
	state  atomic.Uint32 // asked and got
	shared bool          // the hooks include those of the caller, which must not get into another request
}

const (
	asked = 1 << iota
	got
)

func newTrace() *trace {
	t := &trace{}
	t.hooks.GetConn = func(string) { t.state.Or(asked) }
	t.hooks.GotConn = func(httptrace.GotConnInfo) { t.state.Or(got) }
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
	if f.trace.state.Load() != 0 {
		f.trace.state.Store(0)
	}
}

// unsent reports whether the request is proved not to have been sent, and puts the trace back.
func (t *Transport) unsent(tr *trace) bool {
	if tr == nil {
		return false
	}
	unsent := tr.state.Load() == asked
	if !tr.shared {
		t.traces.Put(tr)
	}
	return unsent
}
