package retryhttp

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// open prepares the body for being sent more than once.
func (s *sending) open() {
	if s.r.Body != nil && s.r.Body != http.NoBody && s.r.GetBody == nil {
		s.tape = &tape{src: s.r.Body, limit: s.t.o.MaxBody}
	}
}

// load gives the attempt's request its body.
func (s *sending) load(r *http.Request, number int) (err error) {
	switch {
	case s.tape != nil:
		s.reader = &reader{tape: s.tape}
		r.Body = s.reader
	case number > 1 && s.r.GetBody != nil && s.r.Body != nil && s.r.Body != http.NoBody:
		r.Body, err = s.r.GetBody()
	}
	return err
}

func (s *sending) replayable() bool { return s.tape == nil || s.tape.whole() }

// close lets the caller's body be closed: as soon as the last attempt has closed its own, or now if there was none.
func (s *sending) close() {
	switch {
	case s.reader != nil:
		s.reader.finish()
	case s.frame == nil && s.r.Body != nil:
		_ = s.r.Body.Close()
	}
}

// A tape keeps what is read of a body, as far as it fits, so that another attempt can read it once more. Nothing is read
// ahead: a caller may write the body while it reads the response.
type tape struct {
	src   io.ReadCloser
	limit int
	once  sync.Once // closes src

	mu    sync.Mutex // guards the fields below, and reading src
	kept  []byte
	spilt bool // more was read than fits
	err   error
}

// whole reports whether everything that was read is still there.
func (t *tape) whole() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.spilt
}

func (t *tape) keep(p []byte) {
	if t.spilt || len(t.kept)+len(p) > t.limit {
		t.spilt, t.kept = t.spilt || len(p) > 0, nil
		return
	}
	t.kept = append(t.kept, p...)
}

func (t *tape) close() { t.once.Do(func() { _ = t.src.Close() }) }

// A reader is the body of one attempt. The transport may read it, and close it, after it has returned: so a reader that is
// closed takes nothing from the tape any more, and what it was reading goes to the next.
type reader struct {
	tape          *tape
	at            int
	closed, final atomic.Bool
}

// Read returns what the tape has, then what comes.
func (r *reader) Read(p []byte) (int, error) {
	t := r.tape
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case r.at < len(t.kept):
		n := copy(p, t.kept[r.at:])
		r.at += n
		return n, nil
	case t.err != nil:
		return 0, t.err
	}
	n, err := t.src.Read(p)
	t.keep(p[:n])
	t.err = err
	r.at += n
	return n, err
}

// Close ends the reader. It must not wait for a Read that hangs: the last one's closes the source, which frees it.
func (r *reader) Close() error {
	r.closed.Store(true)
	if r.final.Load() {
		r.tape.close()
	}
	return nil
}

// finish says that there is no other reader after this one.
func (r *reader) finish() {
	r.final.Store(true)
	if r.closed.Load() {
		r.tape.close()
	}
}
