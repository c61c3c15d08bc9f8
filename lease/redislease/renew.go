package redislease

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lease"
)

// Renew implements [lease.Store]: one script for all on a *redis.Client. Other clients, for which leases are on several nodes,
// get a pipeline of one script for each, which is one round trip to each node; the failure of a node is that of its own leases.
func (s *Store) Renew(ctx context.Context, terms []lease.Term) ([]lease.Renewal, error) {
	if len(terms) == 0 {
		return nil, s.err
	}
	size := 1
	if _, ok := s.client.(*redis.Client); ok {
		size = len(terms)
	}
	replies, err := s.ask(ctx, func() ([]any, error) { return s.renew(ctx, terms, size), nil })
	if err != nil {
		return nil, fmt.Errorf("redislease: renew: %w", err)
	}
	renewals := make([]lease.Renewal, len(terms))
	for i, reply := range replies {
		switch reply := reply.(type) {
		case int64:
			renewals[i] = lease.Renewal{Held: reply > 0, Resign: reply == 2}
		case error:
			renewals[i] = lease.Renewal{Err: fmt.Errorf("redislease: renew: %w", reply)}
		default:
			renewals[i] = lease.Renewal{Err: fmt.Errorf("redislease: renew: %w: %v", errReply, reply)}
		}
	}
	return renewals, nil
}

// A part is one call of the script.
type part struct {
	terms []lease.Term
	reply *redis.Cmd
}

// renew returns a reply or an error for each term. size is how many go into one script.
func (s *Store) renew(ctx context.Context, terms []lease.Term, size int) (replies []any) {
	var parts, unknown []*part
	for terms := range slices.Chunk(terms, size) {
		parts = append(parts, &part{terms: terms})
	}
	s.send(ctx, parts, renewScript.EvalSha)
	for _, p := range parts {
		if redis.HasErrorPrefix(p.reply.Err(), "NOSCRIPT") {
			unknown = append(unknown, p)
		}
	}
	if len(unknown) > 0 {
		s.send(ctx, unknown, renewScript.Eval)
	}
	for _, p := range parts {
		values, err := p.reply.Slice()
		if err == nil && len(values) != len(p.terms) {
			err = fmt.Errorf("%w: %v", errReply, values)
		}
		for i := range p.terms {
			if err != nil {
				replies = append(replies, err)
				continue
			}
			replies = append(replies, values[i])
		}
	}
	return replies
}

type evaluate func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

// send calls the script for all parts at once. Each has its own error.
func (s *Store) send(ctx context.Context, parts []*part, evaluate evaluate) {
	pipe := s.client.Pipeline()
	for _, p := range parts {
		keys, args := make([]string, len(p.terms)), make([]any, 0, 4*len(p.terms))
		for i, t := range p.terms {
			keys[i] = s.KeyOf(t.Name)
			args = append(args, fmt.Sprintf("%016d", t.Token), mark(t.Nonce), t.TTL.Microseconds(), s.o.Retention.Milliseconds())
		}
		p.reply = evaluate(ctx, pipe, keys, args...)
	}
	_, _ = pipe.Exec(ctx)
}
