package retryhttp

import (
	"io"
	"net/http"
	"sync"
)

// open prepares the body for being sent more than once.
func (s *sending) open() {
	if s.r.Body != nil && s.r.Body != http.NoBody && s.r.GetBody == nil {
		s.tape = newTape(s.r.Body, s.t.o.MaxBody)
	}
}

// body returns that of the attempt.
func (s *sending) body(number int) (io.ReadCloser, error) {
	switch {
	case s.tape != nil:
		s.reader = s.tape.next()
		return s.reader, nil
	case number > 1 && s.r.GetBody != nil && s.r.Body != nil && s.r.Body != http.NoBody:
		return s.r.GetBody()
	}
	return s.r.Body, nil
}

func (s *sending) replayable() bool { return s.tape == nil || s.tape.hold() }

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

	reading sync.Mutex // guards reading src, which may take for ever: never to be waited for with mu, nor by an attempt's end

	mu     sync.Mutex // guards the fields below, and those of readers
	change sync.Cond  // of held, or of a reader's closed
	kept   []byte
	spilt  bool // more was read than fits
	held   bool // nothing more is read until it is known whether there is another attempt
	err    error
	reader *reader // of the last attempt
}

func newTape(src io.ReadCloser, limit int) *tape {
	t := &tape{src: src, limit: limit}
	t.change.L = &t.mu
	return t
}

// next returns the body of the next attempt. That of the one before takes nothing from the tape any more.
func (t *tape) next() *reader {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reader != nil {
		t.reader.closed = true
	}
	t.reader = &reader{tape: t}
	t.held = false
	t.change.Broadcast()
	return t.reader
}

// hold reports whether everything that was read is still there, and sees to it that it stays so: an attempt that has its
// answer may still be sending.
func (t *tape) hold() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = !t.spilt
	return t.held
}

// keep needs mu. What was being read as the tape was held, or the reader closed, is for the next one, and is kept in any case.
func (t *tape) keep(r *reader, p []byte) {
	if !t.spilt && (t.held || r.closed || len(t.kept)+len(p) <= t.limit) {
		t.kept = append(t.kept, p...)
		return
	}
	t.spilt, t.kept = t.spilt || len(p) > 0, nil
}

func (t *tape) close() { t.once.Do(func() { _ = t.src.Close() }) }

// A reader is the body of one attempt. The transport may read it, and close it, after it has returned: so a reader that is
// closed takes nothing from the tape any more, and what it was reading goes to the next.
type reader struct {
	tape          *tape
	at            int
	closed, final bool
}

// Read returns what the tape has, then what comes.
func (r *reader) Read(p []byte) (int, error) {
	if n, err, done := r.replay(p); done {
		return n, err
	}
	t := r.tape
	t.reading.Lock()
	defer t.reading.Unlock()
	if n, err, done := r.replay(p); done { // what an older reader was still reading has come
		return n, err
	}
	n, err := t.src.Read(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(r, p[:n])
	t.err = err
	r.at += n
	return n, err
}

// replay reads from the tape. It is not done if there is nothing, and the source is to be read.
func (r *reader) replay(p []byte) (n int, err error, done bool) {
	t := r.tape
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.held && !r.closed {
		t.change.Wait()
	}
	switch {
	case r.closed:
		return 0, http.ErrBodyReadAfterClose, true
	case r.at < len(t.kept):
		n = copy(p, t.kept[r.at:])
		r.at += n
		return n, nil, true
	}
	return 0, t.err, t.err != nil
}

// Close ends the reader. It must not wait for a Read that hangs: the last one's closes the source, which frees it.
func (r *reader) Close() error {
	r.end(func() { r.closed = true })
	return nil
}

// finish says that there is no other reader after this one.
func (r *reader) finish() {
	r.end(func() { r.final, r.tape.held = true, false })
}

// end makes a change, and closes the source after both.
func (r *reader) end(change func()) {
	t := r.tape
	t.mu.Lock()
	change()
	over := r.closed && r.final
	t.change.Broadcast()
	t.mu.Unlock()
	if over {
		t.close()
	}
}
