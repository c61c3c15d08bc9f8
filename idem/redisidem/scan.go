package redisidem

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/idem"
)

// scanned is how many keys of a server one step of a scan looks at.
const scanned = 1000

// scan returns the oldest keys that f asks for, of all that there are.
func (s *Store) scan(ctx context.Context, f idem.Filter, limit int) (list []idem.Record, err error) {
	var mu sync.Mutex // guards list: nodes are asked at once
	each := func(ctx context.Context, node interface {
		Scan(ctx context.Context, cursor uint64, match string, count int64) *redis.ScanCmd
	},
	) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, s.pattern(), scanned).Result()
			if err != nil {
				return err
			}
			found, err := s.show(ctx, f, s.idsOf(keys))
			if err != nil {
				return err
			}
			mu.Lock()
			if list = append(list, found...); len(list) > 2*longestPage {
				list = page(list, limit)
			}
			mu.Unlock()
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return each(ctx, node) })
	} else {
		err = each(ctx, s.client)
	}
	return list, err
}

// pattern matches all keys of s, and not what belongs to them.
func (s *Store) pattern() string {
	var b strings.Builder
	for _, r := range []byte(s.o.Prefix) {
		if strings.IndexByte(`*?[]^\-`, r) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(r)
	}
	return b.String() + "{??}:" + strings.Repeat("?", 2*len(idem.ID{}))
}

// idsOf returns the IDs of keys that match.
func (s *Store) idsOf(keys []string) (ids []idem.ID) {
	for _, key := range keys {
		if id, ok := idOf(key, len(s.tag(0))); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
