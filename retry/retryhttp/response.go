package retryhttp

import (
	"io"
	"net/http"
	"time"
)

// drainTime is how long the rest of a failed response is waited for. It has had the delay before the attempt to arrive.
const drainTime = 250 * time.Millisecond

// drain reads what is left of a failed response, so that the connection can be used again, and closes it. What net/http
// unpacks is not read: to close that waits for a Read that waits for the first bytes.
func drain(res *http.Response, limit int64) {
	if res.ContentLength <= limit && !res.Uncompressed {
		timer := time.AfterFunc(drainTime, func() { _ = res.Body.Close() })
		_, _ = io.CopyN(io.Discard, res.Body, limit)
		timer.Stop()
	}
	_ = res.Body.Close()
}

// guard ends the attempt's context when the body of the response has been read, or is closed.
func (l *limit) guard(res *http.Response) {
	if l == nil {
		return
	}
	body := &guardedBody{res.Body, l}
	res.Body = body
	if w, ok := body.ReadCloser.(io.Writer); ok { // the connection, after 101 Switching Protocols
		res.Body = struct {
			io.ReadCloser
			io.Writer
		}{body, w}
	}
}

type guardedBody struct {
	io.ReadCloser

	limit *limit
}

func (b *guardedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.limit.release()
	}
	return n, err
}

func (b *guardedBody) Close() error {
	err := b.ReadCloser.Close()
	b.limit.release()
	return err
}
