package wire

import (
	"bufio"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
)

const bufferSize = 32 << 10

// A session is one client and its connection to the server.
type session struct {
	p      *Proxy
	client net.Conn
	server net.Conn
	closed chan struct{}
	once   sync.Once

	// Cycles divide what both sides send: one ends with each Sync or Query of the client, and with each ReadyForQuery
	// of the server. Both sides count, so that a reply is known by its cycle.
	sent atomic.Int64         // cycles that the client has ended
	fate atomic.Pointer[fate] // what to do with a reply
}

func newSession(p *Proxy, client, server net.Conn) *session {
	return &session{p: p, client: client, server: server, closed: make(chan struct{})}
}

func (s *session) close() {
	s.once.Do(func() {
		close(s.closed)
		_ = s.client.Close()
		_ = s.server.Close()
	})
}

// run forwards in both directions until either ends.
func (s *session) run() {
	defer s.close()
	in := bufio.NewReaderSize(s.client, bufferSize)
	opening, serve := s.open(in)
	if !serve {
		return
	}
	var both sync.WaitGroup
	both.Add(2)
	go func() {
		defer both.Done()
		defer s.close()
		out := newLine(s.server, s.p.delay, s.closed)
		defer out.close()
		if out.send(opening) {
			s.requests(in, out)
		}
	}()
	go func() {
		defer both.Done()
		defer s.close()
		out := newLine(s.client, s.p.delay, s.closed)
		defer out.close()
		s.replies(bufio.NewReaderSize(s.server, bufferSize), out)
	}()
	both.Wait()
}

// open reads the packets that open a connection and returns the one for the server. A request to cancel is passed on by
// itself.
func (s *session) open(in *bufio.Reader) (packet []byte, serve bool) {
	for {
		packet, err := readPacket(in, nil)
		if err != nil || len(packet) < 8 {
			return nil, false
		}
		switch binary.BigEndian.Uint32(packet[4:]) {
		case sslRequest, gssEncRequest:
			if _, err := s.client.Write([]byte{'N'}); err != nil {
				return nil, false
			}
		case cancelRequest:
			if s.p.losesCancels() {
				return nil, false
			}
			_, _ = s.server.Write(packet)
			_, _ = s.server.Read(make([]byte, 1)) // the server closes once it has acted
			return nil, false
		default:
			return packet, true
		}
	}
}

// requests forwards what the client sends.
func (s *session) requests(in *bufio.Reader, out *line) {
	names := newStatements()
	var chunk []byte
	for {
		at := len(chunk)
		var err error
		if chunk, err = readMessage(in, chunk); err != nil {
			out.send(chunk[:at])
			return
		}
		m := names.read(chunk[at:])
		for _, h := range s.p.at(m) {
			if h.action.reply() {
				s.fate.CompareAndSwap(nil, &fate{cycle: s.sent.Load(), hook: h})
				continue
			}
			if !s.act(h, chunk[:at:at], in, out) {
				return
			}
		}
		switch m.Type {
		case syncMessage, query, functionCall:
			s.sent.Add(1)
		case flush:
			s.p.trips.Add(1)
		}
		if in.Buffered() == 0 || len(chunk) > bufferSize {
			if !out.send(chunk) {
				return
			}
			chunk = nil
		}
	}
}

// replies forwards what the server sends.
func (s *session) replies(in *bufio.Reader, out *line) {
	var (
		started bool // the first ReadyForQuery ends the start, and no cycle
		cycle   int64
		caught  *fate
		chunk   []byte
	)
	for {
		at := len(chunk)
		var err error
		if chunk, err = readMessage(in, chunk); err != nil {
			out.send(chunk[:at])
			return
		}
		ended := chunk[at] == ready
		if started && caught == nil {
			for _, h := range s.p.at(Message{Server: true, Type: chunk[at]}) {
				if !s.act(h, chunk[:at:at], in, out) {
					return
				}
			}
		}
		if f := s.fate.Load(); caught == nil && f != nil && started && f.cycle == cycle {
			caught = f
			if !out.send(chunk[:at:at]) {
				return
			}
			chunk = chunk[at:]
		}
		if ended && started {
			s.p.trips.Add(1)
			cycle++
		}
		started = started || ended
		if caught != nil {
			if !ended {
				continue // the server is not yet done
			}
			if !s.await(caught, out) {
				return
			}
			caught = nil
		}
		if in.Buffered() == 0 || len(chunk) > bufferSize {
			if !out.send(chunk) {
				return
			}
			chunk = nil
		}
	}
}
