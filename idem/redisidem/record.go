package redisidem

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/idem"
)

// told reads the reply of tell in key.lua, and remembers its epoch.
func (s *Store) told(what string, id idem.ID, reply any) (idem.Record, error) {
	list, _ := reply.([]any)
	if len(list) != 3 {
		return idem.Record{}, fmt.Errorf("redisidem: %s: %w: %v", what, errReply, reply)
	}
	now, isTime := list[0].(int64)
	values, _ := list[1].([]any)
	if !isTime || len(values) < 14 {
		return idem.Record{}, fmt.Errorf("redisidem: %s: %w: %v", what, errReply, reply)
	}
	r, err := readRecord(id, now, fields(values))
	if err != nil {
		return idem.Record{}, fmt.Errorf("redisidem: %s: what is stored in %s is none of a key: %w", what, s.KeyOf(id), err)
	}
	body, hasBody := list[2].(string)
	if hasBody {
		r.Answer.Body = []byte(body)
	}
	// It goes a moment after the answer is over, or was deleted by somebody.
	if len(values) == 15 && values[13] == "1" && !hasBody {
		r.State, r.Over = idem.Expired, true
	}
	s.saw(r.Epoch)
	return r, nil
}

// fields are the values of a key, in the order of fields in key.lua. What is not there is nil.
type fields []any

func (f fields) text(i int) string {
	text, _ := f[i].(string)
	return text
}

func (f fields) bytes(i int) []byte {
	if text, ok := f[i].(string); ok {
		return []byte(text)
	}
	return nil
}

// readRecord reads what is stored, by the clock of the server in µs.
func readRecord(id idem.ID, now int64, f fields) (r idem.Record, err error) {
	number := func(i int) (n int64) {
		if text, ok := f[i].(string); ok && err == nil {
			n, err = strconv.ParseInt(text, 10, 64)
		}
		return n
	}
	r = idem.Record{
		ID: id, State: idem.State(number(0)), Nonce: number(1), Epoch: number(2), Attempts: int(number(3)),
		Created: time.UnixMicro(number(5)), Scope: f.text(6), Name: f.text(7), Fingerprint: f.bytes(8),
		Answer: idem.Answer{Codec: int(number(9)), Status: int(number(10))}, Note: f.text(11), Steps: f.bytes(12),
	}
	if len(f) > 14 {
		r.Input = f.bytes(14)
	}
	till := number(4)
	switch r.State {
	case idem.Running, idem.Unknown, idem.Pending:
		r.Left = time.Duration(till-now) * time.Microsecond
	case idem.Completed, idem.Failed:
		r.Answer.State = r.State
		if r.Over = till <= now; r.Over {
			r.State = idem.Expired
		}
	}
	return r, err
}
