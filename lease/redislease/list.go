package redislease

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redisnodes"
	"github.com/holdfast-go/holdfast/lease"
)

// List implements [lease.Lister]. Redis keeps no order of the names, so that each page looks at every key of the database, of each
// node of a cluster, some 1000 with a round trip, and reads the leases among them with another. It blocks nobody. What is taken all
// the while is told, and what is taken or released meanwhile may be.
func (s *Store) List(ctx context.Context, p lease.Page) ([]lease.Holding, error) {
	reply, err := s.ask(ctx, func() ([]any, error) {
		page, err := s.list(ctx, p)
		return []any{page}, err
	})
	if err != nil {
		return nil, fmt.Errorf("redislease: list: %w", err)
	}
	return reply[0].([]lease.Holding), nil
}

func (s *Store) list(ctx context.Context, p lease.Page) ([]lease.Holding, error) {
	var mu sync.Mutex // nodes are asked at once
	found := map[string]lease.Holding{}
	err := redisnodes.Scan(ctx, s.client, redisnodes.Literal(s.o.Prefix)+"{*", func(ctx context.Context, node redisnodes.Client, keys []string) error {
		holdings, err := s.read(ctx, node, keys)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, h := range holdings {
			if strings.HasPrefix(h.Name, p.Prefix) && h.Name > p.After {
				found[h.Name] = h
			}
		}
		return nil
	})
	page := slices.SortedFunc(maps.Values(found), func(a, b lease.Holding) int { return cmp.Compare(a.Name, b.Name) })
	return page[:min(len(page), p.Limit)], err
}

// read returns those of keys that are leases and are taken.
func (s *Store) read(ctx context.Context, node redisnodes.Client, keys []string) (holdings []lease.Holding, err error) {
	keys = slices.DeleteFunc(keys, isQueue)
	if len(keys) == 0 {
		return nil, nil
	}
	pipe := node.Pipeline()
	clock := pipe.Time(ctx)
	texts := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		texts[i] = pipe.Get(ctx, key)
	}
	_, _ = pipe.Exec(ctx) // each has its own error: a key may be gone, or be somebody else's
	now, err := clock.Result()
	if err != nil {
		return nil, err
	}
	for i, text := range texts {
		if h, ok := holding(text.Val()); ok && h.Until.After(now.Truncate(time.Microsecond)) && s.KeyOf(h.Name) == keys[i] {
			holdings = append(holdings, h)
		}
	}
	return holdings, nil
}
