package redisidem

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

var _ idem.Waker = (*Store)(nil)

// Pool implements [idem.Waker]: stores of one client share a subscription.
func (s *Store) Pool() any { return s.client }

// Channel implements [idem.Waker].
func (s *Store) Channel() string { return s.o.Prefix + "done" }

// Notify implements [idem.Waker].
func (s *Store) Notify(ctx context.Context, channel, payload string) error {
	if s.err != nil {
		return s.err
	}
	return s.client.Publish(ctx, channel, payload).Err()
}

// Listen implements [idem.Waker]. The connection is beside the client's pool.
func (s *Store) Listen(ctx context.Context) (tx.Notifications, error) {
	if s.err != nil {
		return nil, s.err
	}
	n := &notifications{conn: s.client.Subscribe(ctx), arrivals: make(chan any), closed: make(chan struct{})}
	if err := n.conn.Ping(ctx); err != nil { // it dials
		_ = n.conn.Close()
		return nil, fmt.Errorf("%w: redisidem: listen: %w", tx.ErrNotSent, err)
	}
	go n.read()
	return n, nil
}

// notifications are those of a subscription. go-redis does not stop to read when a context ends, so a goroutine reads.
type notifications struct {
	conn     *redis.PubSub
	arrivals chan any         // a message of go-redis, or the error that ended the reading
	passed   []*redis.Message // while an answer was waited for
	closed   chan struct{}
	close    sync.Once
}

func (n *notifications) read() {
	for {
		arrival, err := n.conn.Receive(context.Background())
		if err != nil {
			arrival = err
		}
		select {
		case n.arrivals <- arrival:
		case <-n.closed:
			return
		}
		if err != nil {
			close(n.arrivals)
			return
		}
	}
}

// arrival waits for what comes next.
func (n *notifications) arrival(ctx context.Context) (any, error) {
	select {
	case arrival, ok := <-n.arrivals:
		if err, failed := arrival.(error); failed {
			return nil, err
		}
		if !ok {
			return nil, redis.ErrClosed
		}
		return arrival, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (n *notifications) Listen(ctx context.Context, channel string) error {
	return n.await(ctx, "subscribe", channel, n.conn.Subscribe)
}

func (n *notifications) Unlisten(ctx context.Context, channel string) error {
	return n.await(ctx, "unsubscribe", channel, n.conn.Unsubscribe)
}

// await makes a request, and waits for its answer.
func (n *notifications) await(ctx context.Context, kind, channel string, request func(ctx context.Context, channels ...string) error) error {
	if err := request(ctx, channel); err != nil {
		return err
	}
	for {
		arrival, err := n.arrival(ctx)
		if err != nil {
			return err
		}
		switch arrival := arrival.(type) {
		case *redis.Message:
			n.passed = append(n.passed, arrival)
		case *redis.Subscription:
			if arrival.Kind == kind && arrival.Channel == channel {
				return nil
			}
		}
	}
}

func (n *notifications) Next(ctx context.Context) (channel, payload string, err error) {
	if len(n.passed) > 0 {
		first := n.passed[0]
		n.passed = n.passed[1:]
		return first.Channel, first.Payload, nil
	}
	for {
		arrival, err := n.arrival(ctx)
		if err != nil {
			return "", "", err
		}
		if m, ok := arrival.(*redis.Message); ok {
			return m.Channel, m.Payload, nil
		}
	}
}

func (n *notifications) Close() (err error) {
	n.close.Do(func() {
		close(n.closed)
		err = n.conn.Close()
	})
	return err
}
