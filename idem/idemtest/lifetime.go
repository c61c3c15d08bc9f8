package idemtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

func lifetimeRules[T any]() []rule[T] {
	return []rule[T]{
		{"Expired", "an expired key is refused until it is swept, and is new after that", expired[T]},
		{"Tombstone", "a sweep takes the answer and leaves the key, which is refused until its tombstone goes too", tombstone[T]},
		{"AllowReuse", "with AllowReuse an expired key does new work, once, at every isolation level", allowReuse[T]},
		{"SweptBehindSnapshot", "a call that is refused for a row which was swept since its snapshot leaves none behind", sweptBehind[T]},
		{"ReplayHoldsNothing", "what got an answer or a refusal does not keep the key from whoever comes after its deletion", replayHoldsNothing[T]},
		{"Sweep", "sweepers remove what has expired, in batches, and nothing else", sweeps[T]},
	}
}

func expired[T any](s *suite[T]) {
	heard := &events{}
	keys, runs := idem.New(s.DB, &idem.Options{TTL: time.Millisecond, Tombstone: -1, Observer: heard}), &counter{}
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

func tombstone[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, &idem.Options{TTL: time.Millisecond, Tombstone: time.Hour}), &counter{}
	first := key("buried")
	first.Fingerprint = idem.FingerprintOf("first")
	_, err := idem.Do(s.ctx, keys, first, work(s, "buried", runs, "secret"))
	s.must(err)
	s.awaitExpiry("idem_key", 0)
	for range 2 { // the second has nothing to do
		n, err := keys.Sweep(s.ctx)
		s.must(err)
		if n != 0 {
			s.Fatalf("swept %d keys, want none", n)
		}
	}
	var answers int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from idem_key where body is not null").Scan(&answers))
	if answers != 0 {
		s.Fatal("the answer is still there")
	}
	for _, k := range []*idem.Keys[T]{keys, idem.New(s.DB, nil)} {
		_, err = idem.Do(s.ctx, k, first, work(s, "buried", runs, "again"))
		s.want(err, idem.ErrKeyExpired)
		other := first
		other.Fingerprint = idem.FingerprintOf("other")
		_, err = idem.Do(s.ctx, k, other, work(s, "buried", runs, "again"))
		s.want(err, idem.ErrMismatch)
	}
	s.count(runs, 1)
	s.exec("update idem_key set expires_at = created_at")
	n, err := keys.Sweep(s.ctx)
	s.must(err)
	res, err := idem.Do(s.ctx, keys, first, work(s, "buried", runs, "again"))
	s.must(err)
	if n != 1 || res.Replayed || res.Value != "again" {
		s.Fatalf("swept %d keys, got %+v", n, res)
	}
}

func allowReuse[T any](s *suite[T]) {
	for _, level := range s.levels() {
		for _, swept := range []bool{false, true} {
			name := fmt.Sprintf("reuse %v %v", level, swept)
			old, runs := idem.New(s.DB, &idem.Options{TTL: time.Millisecond, Tombstone: time.Hour}), &counter{}
			_, err := idem.Do(s.ctx, old, key(name), work(s, name, runs, "old"))
			s.must(err)
			s.awaitExpiry("(select * from idem_key where state in (2, 3)) t", 0)
			if swept {
				_, err := old.Sweep(s.ctx)
				s.must(err)
			}
			s.reuse(level, name)
			s.wantEffects(name, 2)
			s.exec("delete from idem_key")
		}
	}
}

// reuse calls for the expired key from many processes at once, in transactions of ours, and in one of the caller's.
func (s *suite[T]) reuse(level tx.Isolation, name string) {
	s.Helper()
	db := s.DB.With(tx.Options{Isolation: level, Attempts: 50})
	again, runs := key(name), &counter{}
	again.Fingerprint = idem.FingerprintOf("another request")
	var wg sync.WaitGroup
	for range 8 {
		keys := idem.New(db, &idem.Options{AllowReuse: true, Wait: time.Minute})
		wg.Go(func() {
			res, err := idem.Do(s.ctx, keys, again, work(s, name, runs, "new"))
			if err != nil || res.Value != "new" {
				s.Errorf("%s: got %+v, %v", name, res, err)
			}
		})
	}
	wg.Wait()
	if level <= tx.ReadCommitted { // above, a lost race is found out at the end, and undone
		s.count(runs, 1)
	}
	_, err := idem.Do(s.ctx, idem.New(db, &idem.Options{AllowReuse: true}), key(name), work(s, name, runs, "replayed"))
	s.must(err)
	again.Fingerprint = idem.FingerprintOf("a third")
	_, err = idem.Do(s.ctx, idem.New(db, nil), again, work(s, name, runs, "third"))
	s.want(err, idem.ErrMismatch)
}

// levels are the isolation levels of the database that differ.
func (s *suite[T]) levels() []tx.Isolation {
	if !s.DB.Dialect().Capabilities.IsolationLevels {
		return []tx.Isolation{tx.DefaultIsolation}
	}
	return []tx.Isolation{tx.ReadCommitted, tx.RepeatableRead, tx.Serializable}
}

// awaitExpiry waits until the server's clock has left no more than alive rows of the table unexpired.
func (s *suite[T]) awaitExpiry(table string, alive int) {
	s.Helper()
	now := s.DB.Dialect().Now
	for left := alive + 1; left > alive; {
		s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from "+table+" where expires_at > "+now).Scan(&left))
	}
}

func sweeps[T any](s *suite[T]) {
	short := idem.New(s.DB, &idem.Options{TTL: time.Millisecond})
	long := idem.New(s.DB, &idem.Options{Tombstone: -1})
	const n = 2500 // more than two batches; all but the first are copies
	_, err := idem.Do(s.ctx, short, key("short"), work(s, "short", &counter{}, 1))
	s.must(err)
	another := "randomblob(32)"
	if s.DB.Dialect() == tx.PostgreSQL {
		another = "sha256(n.i::text::bytea)"
	}
	s.exec("with recursive n(i) as (select 2 union all select i + 1 from n where i < $1) insert into idem_key (k, scope, name, state, fp, nonce, body, expires_at) select "+
		another+", scope, name, state, fp, nonce, body, expires_at from idem_key, n", n)
	_, err = idem.Do(s.ctx, long, key("long"), work(s, "long", &counter{}, 1))
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

func sweptBehind[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.IsolationLevels {
		s.Log("there is one isolation level")
		return
	}
	for _, level := range []tx.Isolation{tx.RepeatableRead, tx.Serializable} {
		keys, runs := idem.New(s.DB, &idem.Options{TTL: time.Millisecond, Tombstone: -1}), &counter{}
		_, err := idem.Do(s.ctx, keys, key("swept"), work(s, "swept", runs, 1))
		s.must(err)
		s.awaitExpiry("idem_key", 0)
		db := s.DB.With(tx.Options{Isolation: level})
		s.must(db.Do(s.ctx, func(ctx context.Context, t T) error {
			var n int
			if err := db.Tx(t).QueryRow(ctx, "select count(*) from idem_key").Scan(&n); err != nil {
				return err
			}
			if n, err := keys.Sweep(s.ctx); err != nil || n != 1 {
				s.Errorf("swept %d keys, %v", n, err)
			}
			_, err := idem.Do(ctx, keys, key("swept"), work(s, "swept", runs, 2))
			s.want(err, idem.ErrKeyExpired)
			return nil
		}))
		res, err := idem.Do(s.ctx, keys, key("swept"), work(s, "swept", runs, 3))
		s.must(err)
		if res.Replayed || res.Value != 3 {
			s.Fatalf("%v: got %+v", level, res)
		}
		s.exec("delete from idem_key")
	}
}

func replayHoldsNothing[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		s.Log("there is one writer, and the caller's transaction is it")
		return
	}
	for name, o := range map[string]*idem.Options{
		"answered": nil, "answered with AllowReuse": {AllowReuse: true}, "refused": {TTL: time.Millisecond},
	} {
		keys, runs := idem.New(s.DB, o), &counter{}
		_, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, 1))
		s.must(err)
		f := s.begin()
		if name == "refused" {
			s.awaitExpiry("idem_key", 0)
			_, err = idem.DoTx(s.ctx, keys, f.Tx, key(name), work(s, name, runs, 2))
			s.want(err, idem.ErrKeyExpired)
		} else {
			res, err := idem.DoTx(s.ctx, keys, f.Tx, key(name), work(s, name, runs, 2))
			if err != nil || !res.Replayed {
				s.Fatalf("%s: got %+v, %v", name, res, err)
			}
		}
		s.exec("delete from idem_key")
		res, err := idem.Do(s.ctx, idem.New(s.DB, nil), key(name), work(s, name, runs, 3)) // f is still open
		if err != nil || res.Value != 3 {
			s.Fatalf("%s: got %+v, %v", name, res, err)
		}
		s.must(f.Rollback(s.ctx))
		s.exec("delete from idem_key")
	}
}
