package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

var errLost = errors.New("the answer was lost")

// An alreadyError is the provider's answer to a second capture. By is the key of the first.
type alreadyError struct{ By string }

func (e *alreadyError) Error() string { return "already captured by " + e.By }

// A provider is a payment service. Its capture without a key charges each time.
type provider struct {
	mu      sync.Mutex // guards all below
	charges int
	by      string
	lose    bool // the next answer
}

func (p *provider) authorized() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charges == 0
}

func (p *provider) capture(key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key != "" && p.by != "" {
		return &alreadyError{p.by}
	}
	p.charges++
	p.by = key
	if p.lose {
		p.lose = false
		return errLost
	}
	return nil
}

// captureOnce acts under the key of the payment. An answer that is lost is asked for again, and "already" by the same key is
// success.
func captureOnce(p *provider, key string) error {
	for range 3 {
		err := p.capture(key)
		var already *alreadyError
		switch {
		case err == nil, errors.As(err, &already) && already.By == key:
			return nil
		case !errors.Is(err, errLost):
			return err
		}
	}
	return fmt.Errorf("payment %s: nobody knows yet: try again later under the same key", key)
}

func capture(context.Context) (naive, ours int, err error) {
	p := &provider{}
	for _, ok := range []bool{p.authorized(), p.authorized()} { // two workers look, and then both act
		if ok {
			_ = p.capture("")
		}
	}
	naive = p.charges - 1

	p = &provider{lose: true}
	for range 2 {
		if err := captureOnce(p, "payment-17"); err != nil {
			return naive, ours, err
		}
	}
	return naive, p.charges - 1, nil
}
