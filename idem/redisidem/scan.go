package redisidem

import (
	"context"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/redisnodes"
	"github.com/holdfast-go/holdfast/internal/redisscript"
)

// scan returns the oldest keys that f asks for, of all that there are.
func (s *Store) scan(ctx context.Context, f idem.Filter, limit int) ([]idem.Record, error) {
	return redisscript.Ask(ctx, s.scripts, func() ([]idem.Record, error) {
		var mu sync.Mutex // nodes are scanned at once
		var list []idem.Record
		// A key, and not what belongs to it.
		pattern := redisnodes.Literal(s.o.Prefix) + "{??}:" + strings.Repeat("?", 2*len(idem.ID{}))
		err := redisnodes.Scan(ctx, s.client, pattern, func(ctx context.Context, _ redisnodes.Client, keys []string) error {
			found, err := s.show(ctx, f, s.idsOf(keys))
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if list = append(list, found...); len(list) > 2*longestPage {
				list = page(list, limit)
			}
			return nil
		})
		return list, err
	})
}

// idsOf returns the IDs of keys.
func (s *Store) idsOf(keys []string) (ids []idem.ID) {
	for _, key := range keys {
		if id, ok := idOf(key, len(s.tag(0))); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
