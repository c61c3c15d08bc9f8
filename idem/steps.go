package idem

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// steps are what is known of those of a key.
type steps struct {
	list    []step
	stored  []byte // as they were found, until they are read
	dirty   bool   // the store may not know the list as it is
	failure error  // of the call of a step that nobody knows about
}

// A step is one call to another service that has begun. It is stored as JSON.
type step struct {
	Name    string `json:"name"`
	Version int    `json:"version,omitempty"`
	Saved   bool   `json:"saved,omitempty"` // its result is Codec and Body; otherwise it has begun, and nobody knows more
	Codec   int    `json:"codec,omitempty"`
	Body    []byte `json:"body,omitempty"`

	asked bool // by this execution
}

// none reports whether nothing was done.
func (s *steps) none() bool { return len(s.list) == 0 && len(s.stored) == 0 }

// unsettled returns the name of a step that nobody knows about, or "".
func (s *steps) unsettled() string {
	for _, step := range s.list {
		if !step.Saved {
			return step.Name
		}
	}
	return ""
}

// find returns the step of a name, or nil.
func (s *steps) find(name string) *step {
	for i := range s.list {
		if s.list[i].Name == name {
			return &s.list[i]
		}
	}
	return nil
}

// skipped returns the name of a step that an execution before has made and this one has not asked for, or "".
func (s *steps) skipped() string {
	for _, step := range s.list {
		if !step.asked {
			return step.Name
		}
	}
	return ""
}

// load reads what executions before have stored.
func (r *Run) load(ctx context.Context) (err error) {
	if r.input, err = r.l.openPart(ctx, r.c, inputPart, r.input); err != nil {
		return err
	}
	text, err := r.l.openPart(ctx, r.c, stepsPart, r.steps.stored)
	if err != nil {
		return err
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &r.steps.list); err != nil {
			return fmt.Errorf("%w: stored steps: %w", ErrResult, err)
		}
	}
	r.steps.stored = nil
	return nil
}

// mark stores the list.
func (r *Run) mark(ctx context.Context) (held bool, err error) {
	text, err := json.Marshal(r.steps.list)
	if err != nil {
		return false, err
	}
	sealed, err := r.l.sealPart(ctx, r.c, r.c.row.fp, stepsPart, text)
	if err != nil {
		return false, err
	}
	r.steps.dirty = true
	held, err = r.l.store.Mark(ctx, r.term, sealed)
	r.steps.dirty = err != nil
	return held, err
}

// The parts of an open key that are sealed beside each other. Each is bound to its name, so that one does not open as another.
const (
	inputPart = "input"
	stepsPart = "steps"
)

// sealPart returns what to store of a part: the ID of the codec in 2 bytes, big endian, and what that made of it. Nil stays nil.
func (k *core) sealPart(ctx context.Context, c *call, fp []byte, part string, plain []byte) ([]byte, error) {
	if plain == nil {
		return nil, nil
	}
	e, err := k.seal(ctx, c, append(fp[:len(fp):len(fp)], part...), entry{state: stateRunning, codec: codecJSON, stored: plain})
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(e.codec)), e.stored...), nil //nolint:gosec // it is from 0 to 32767
}

// openPart is the reverse of sealPart.
func (k *core) openPart(ctx context.Context, c *call, part string, stored []byte) ([]byte, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	if len(stored) < 2 {
		return nil, errors.Join(ErrResult, errors.New("a part of the record was changed"))
	}
	sealed := *c
	sealed.row = row{
		entry: entry{state: stateRunning, codec: int(binary.BigEndian.Uint16(stored)), body: stored[2:]},
		fp:    append(c.row.fp[:len(c.row.fp):len(c.row.fp)], part...),
	}
	e, err := k.open(ctx, &sealed)
	return e.body, err
}
