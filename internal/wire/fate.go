package wire

import (
	"bufio"
	"io"
)

// fate is what happens to the replies of a cycle.
type fate struct {
	cycle int64
	hook  *Hook
}

// act does what a hook says at a message, before it is delivered. before is what was sent together with the message and
// ahead of it. It reports whether the message is to be delivered.
func (s *session) act(h *Hook, before []byte, in *bufio.Reader, out *line) bool {
	switch h.action {
	case cutBefore, swallow:
		out.send(before)
		h.done()
		if h.action == swallow {
			_, _ = io.Copy(io.Discard, in) // until the connection ends
		}
		return false
	case late:
		out.late = h.delay
	case trickle:
		out.slow = true
	}
	h.done()
	return true
}

// await lets the fate of a reply take its course. It reports whether the client is to get the reply after all.
func (s *session) await(f *fate, out *line) bool {
	f.hook.done()
	switch f.hook.action {
	case cutReply:
		return false
	case holdReply:
		select {
		case <-f.hook.free:
		case <-s.closed:
			return false
		}
	case lateReply:
		out.late = f.hook.delay
	case trickleReply:
		out.slow = true
	}
	s.fate.Store(nil)
	return true
}
