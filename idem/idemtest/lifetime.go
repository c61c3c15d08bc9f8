package idemtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/idem"
)

func lifetimeRules[T any]() []rule[T] {
	return []rule[T]{
		{"Expired", "an expired key is refused until it is swept, and is new after that", expired[T]},
		{"Sweep", "sweepers remove what has expired, in batches, and nothing else", sweeps[T]},
	}
}

func expired[T any](s *suite[T]) {
	heard := &events{}
	keys, runs := idem.New(s.DB, &idem.Options{TTL: time.Millisecond, Observer: heard}), &counter{}
	_, err := idem.Do(s.ctx, keys, key("old"), work(s, "old", runs, 1))
	s.must(err)
	s.awaitExpiry("idem_key", 0)
	for name, k := range map[string]*idem.Keys[T]{"remembered": keys, "claimed": idem.New(s.DB, nil)} {
		_, err = idem.Do(s.ctx, k, key("old"), work(s, "old", runs, 1))
		if s.want(err, idem.ErrKeyExpired); err == nil {
			s.Fatal(name)
		}
	}
	if got := heard.kinds(s, ""); got != "idem.claimed idem.completed idem.expired " {
		s.Fatalf("heard %q", got)
	}
	n, err := keys.Sweep(s.ctx)
	s.must(err)
	if n != 1 {
		s.Fatalf("swept %d", n)
	}
	res, err := idem.Do(s.ctx, keys, key("old"), work(s, "old", runs, 2))
	s.must(err)
	if res.Replayed || res.Value != 2 {
		s.Fatalf("got %+v", res)
	}
	s.count(runs, 2)
}

// awaitExpiry waits until the server's clock has left no more than alive rows of the table unexpired.
func (s *suite[T]) awaitExpiry(table string, alive int) {
	s.Helper()
	now := "clock_timestamp()"
	if !s.DB.Dialect().Capabilities.Schemas {
		now = "cast((julianday('now') - 2440587.5) * 86400000 as integer)"
	}
	for left := alive + 1; left > alive; {
		s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from "+table+" where expires_at > "+now).Scan(&left))
	}
}

func sweeps[T any](s *suite[T]) {
	short := idem.New(s.DB, &idem.Options{TTL: time.Millisecond})
	long := idem.New(s.DB, nil)
	const n = 2500
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		for i := range n {
			if _, err := idem.DoTx(ctx, short, t, key(fmt.Sprint("short ", i)), func(context.Context, T) (int, error) { return i, nil }); err != nil {
				return err
			}
		}
		return nil
	}))
	_, err := idem.Do(s.ctx, long, key("long"), work(s, "long", &counter{}, 1))
	s.must(err)
	s.exec("insert into idem_key (k, scope, name, state, fp, nonce, lease_until, expires_at) select $1, scope, name, 1, fp, nonce, expires_at, expires_at from idem_key where expires_at = (select min(expires_at) from idem_key) limit 1", []byte("running"))
	s.awaitExpiry("idem_key", 1)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var total int64
	for range 2 {
		wg.Go(func() {
			swept, err := long.Sweep(s.ctx)
			if err != nil {
				s.Error(err)
			}
			mu.Lock()
			total += swept
			mu.Unlock()
		})
	}
	wg.Wait()
	if total != n {
		s.Fatalf("swept %d, want %d", total, n)
	}
	var left int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from idem_key").Scan(&left))
	if left != 2 {
		s.Fatalf("%d rows left, want the live one and the running one", left)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	cancel(errPlain)
	s.want(long.SweepEvery(ctx, time.Hour), errPlain)
	if err := long.SweepEvery(s.ctx, 0); err == nil {
		s.Fatal("no interval is an error")
	}
}
