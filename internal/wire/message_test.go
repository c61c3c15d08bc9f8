package wire

import (
	"bufio"
	"bytes"
	"testing"
	"testing/iotest"
)

func TestMessagesAreFramed(t *testing.T) {
	stream := []byte("Q\x00\x00\x00\x0dselect 1\x00S\x00\x00\x00\x04")
	for name, r := range map[string]*bufio.Reader{
		"at once":      bufio.NewReader(bytes.NewReader(stream)),
		"byte by byte": bufio.NewReader(iotest.OneByteReader(bytes.NewReader(stream))),
	} {
		first, err := readMessage(r, nil)
		if err != nil || string(first) != string(stream[:14]) {
			t.Errorf("%s: first message %q, error %v", name, first, err)
		}
		both, err := readMessage(r, first)
		if err != nil || string(both) != string(stream) {
			t.Errorf("%s: both messages %q, error %v", name, both, err)
		}
		if _, err := readMessage(r, nil); err == nil {
			t.Errorf("%s: a message after the end", name)
		}
	}
}

func TestLengthsThatCannotBeAreRefused(t *testing.T) {
	for _, stream := range []string{"Q\x00\x00\x00\x03xxxx", "Q\xff\xff\xff\xffxxxx"} {
		if _, err := readMessage(bufio.NewReader(bytes.NewReader([]byte(stream))), nil); err == nil {
			t.Errorf("%q was taken for a message", stream)
		}
	}
}

func TestNamesAreFollowed(t *testing.T) {
	s := newStatements()
	for _, step := range []struct {
		raw  string
		want Message
	}{
		{"P....a\x00commit\x00\x00\x00", Message{Type: parse, SQL: "commit"}},
		{"P....b\x00select 1\x00\x00\x00", Message{Type: parse, SQL: "select 1"}},
		{"B....\x00a\x00", Message{Type: bind, SQL: "commit"}},
		{"E....\x00\x00\x00\x00\x00", Message{Type: execute, SQL: "commit"}},
		{"B....p\x00b\x00", Message{Type: bind, SQL: "select 1"}},
		{"E....p\x00\x00\x00\x00\x00", Message{Type: execute, SQL: "select 1"}},
		{"S....", Message{Type: syncMessage}},
	} {
		if got := s.read([]byte(step.raw)); got != step.want {
			t.Errorf("%q: got %+v, want %+v", step.raw, got, step.want)
		}
	}
}

func TestRunsMatchesWholeWords(t *testing.T) {
	commit := Runs("COMMIT")
	for sql, want := range map[string]bool{" commit": true, "commit;": true, "COMMIT prepared": true, "commits": false, "": false} {
		if got := commit(Message{Type: query, SQL: sql}); got != want {
			t.Errorf("%q: %v", sql, got)
		}
	}
	if commit(Message{Type: parse, SQL: "commit"}) {
		t.Error("parsing a statement does not run it")
	}
}
