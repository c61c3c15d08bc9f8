package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Types of the messages that matter here. Which side sends one is part of its meaning.
const (
	query        = 'Q' // client
	parse        = 'P' // client
	bind         = 'B' // client
	execute      = 'E' // client
	syncMessage  = 'S' // client
	flush        = 'H' // client
	functionCall = 'F' // client
	ready        = 'Z' // server: ReadyForQuery
)

// Codes of the packets that have no type: those that open a connection.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssEncRequest = 80877104
)

// maxMessage bounds a message, as PostgreSQL does. What is longer is no message but a stream out of step.
const maxMessage = 1 << 30

// A Message is what a client sent, or the server.
type Message struct {
	// Server tells that it comes from the server.
	Server bool
	// Type is the protocol's letter.
	Type byte
	// SQL is the text of a Query or Parse, and that of the statement which a Bind or Execute refers to. Otherwise it
	// is empty.
	SQL string
}

// Ends reports whether m ends what a client sends in one round trip: the server answers all of it.
func (m Message) Ends() bool {
	return !m.Server && (m.Type == syncMessage || m.Type == query || m.Type == functionCall)
}

// A Match chooses messages. It is asked about each one, also of several connections at once.
type Match func(Message) bool

// Runs matches the message that runs a statement, whose text begins with the given words: a Query, or an Execute of a
// statement that was parsed at any time before.
func Runs(words string) Match {
	words = strings.ToLower(words)
	return func(m Message) bool {
		if m.Server || m.Type != query && m.Type != execute {
			return false
		}
		rest, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(m.SQL)), words)
		return ok && (rest == "" || !isWord(rest[0]))
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z'
}

// readPacket appends a packet without a type to buf.
func readPacket(r *bufio.Reader, buf []byte) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return buf, err
	}
	return readN(r, buf, int64(binary.BigEndian.Uint32(head)), 4)
}

// readMessage appends a message, with its type and length, to buf.
func readMessage(r *bufio.Reader, buf []byte) ([]byte, error) {
	head, err := r.Peek(5)
	if err != nil {
		return buf, err
	}
	return readN(r, buf, int64(binary.BigEndian.Uint32(head[1:]))+1, 5)
}

func readN(r *bufio.Reader, buf []byte, size, least int64) ([]byte, error) {
	if size < least || size > maxMessage {
		return buf, fmt.Errorf("wire: a message of %d bytes", size)
	}
	at := len(buf)
	buf = append(buf, make([]byte, size)...)
	_, err := io.ReadFull(r, buf[at:])
	return buf, err
}

// statements remembers what the names of a connection stand for.
type statements struct {
	prepared map[string]string
	portals  map[string]string
}

func newStatements() statements {
	return statements{prepared: map[string]string{}, portals: map[string]string{}}
}

// read makes a Message of a client's bytes.
func (s *statements) read(raw []byte) Message {
	m, body := Message{Type: raw[0]}, raw[5:]
	switch m.Type {
	case query:
		m.SQL, _ = text(body)
	case parse:
		name, rest := text(body)
		m.SQL, _ = text(rest)
		s.prepared[name] = m.SQL
	case bind:
		portal, rest := text(body)
		name, _ := text(rest)
		m.SQL = s.prepared[name]
		s.portals[portal] = m.SQL
	case execute:
		portal, _ := text(body)
		m.SQL = s.portals[portal]
	}
	return m
}

// text reads a string that ends in a zero byte.
func text(body []byte) (s string, rest []byte) {
	before, after, _ := bytes.Cut(body, []byte{0})
	return string(before), after
}
