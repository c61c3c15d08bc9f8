package wake

import (
	"context"
	"crypto/rand"
)

func echoChannel() string { return "holdfast_echo_" + rand.Text() }

// probe finds out whether the server is still there: a network that lost the connection says nothing. The first time it sends a
// notification by the pool and waits for it here: behind a pooler, LISTEN may succeed and nothing arrive. If the pool has no
// connection to spare nothing is known, and the next probe tries again.
func (h *hub) probe(conn Conn) error {
	if err := ask(conn.Listen, h.echo); err != nil {
		return err
	}
	h.mu.Lock()
	proved := h.proved
	if proved {
		h.failures, h.told = 0, false
	}
	h.mu.Unlock()
	if proved {
		return nil
	}
	nonce := rand.Text()
	ctx, cancel := context.WithTimeout(context.Background(), normal.answer)
	defer cancel()
	if h.notify(ctx, h.echo, nonce) != nil {
		return nil
	}
	ctx, cancel = context.WithTimeout(context.Background(), normal.answer)
	defer cancel()
	for {
		name, key, err := conn.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return errDeaf
		case err != nil:
			return err
		case name == h.echo && key == nonce:
			h.prove(true)
			return nil
		}
		h.heard(name, key)
	}
}

func (h *hub) prove(proved bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proved = proved
}
