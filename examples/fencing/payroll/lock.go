package payroll

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/tx"
)

// ttl is how long locks and leases last. A real one lasts seconds; here somebody waits for it to run out.
const ttl = 600 * time.Millisecond

// pause is between two tries.
const pause = 20 * time.Millisecond

// A row is a lock in a table: who wants it writes itself in, if the last owner's time is over.
type row[T any] struct {
	db    *tx.DB[T]
	owner string
}

func newRow[T any](db *tx.DB[T]) Lock { return row[T]{db, rand.Text()} }

func (l row[T]) Acquire(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		now := time.Now()
		n, err := l.db.Conn().Exec(ctx, `insert into lock_row (name, owner, ends) values ('payout', $1, $2)
			on conflict (name) do update set owner = excluded.owner, ends = excluded.ends where lock_row.ends <= $3`,
			l.owner, now.Add(ttl).UnixMilli(), now.UnixMilli())
		return n == 1, err
	})
}

func (l row[T]) Mine(ctx context.Context) (mine bool, err error) {
	err = l.db.Conn().QueryRow(ctx, "select owner = $1 and ends > $2 from lock_row", l.owner, time.Now().UnixMilli()).Scan(&mine)
	return mine, err
}

func (l row[T]) Release(ctx context.Context) error {
	_, err := l.db.Conn().Exec(ctx, "delete from lock_row where owner = $1", l.owner)
	return err
}

// A key is the lock that everybody knows from Redis' pages.
type key struct {
	client *redis.Client
	name   string
	owner  string
}

var deleteIfMine = redis.NewScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`)

func (l key) Acquire(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		err := l.client.SetArgs(ctx, l.name, l.owner, redis.SetArgs{Mode: "NX", TTL: ttl}).Err() // SET payout owner NX PX 600
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return err == nil, err
	})
}

func (l key) Mine(ctx context.Context) (bool, error) {
	owner, err := l.client.Get(ctx, l.name).Result()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return owner == l.owner, err
}

func (l key) Release(ctx context.Context) error {
	return deleteIfMine.Run(ctx, l.client, []string{l.name}, l.owner).Err()
}

// poll tries until it succeeds.
func poll(ctx context.Context, try func() (bool, error)) error {
	for {
		if got, err := try(); got || err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
