package idemtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
)

func eraseRules[T any]() []rule[T] {
	return []rule[T]{
		{"Delete", "a key that is deleted is new, whatever it held", deletes[T]},
		{"Release", "a key is released if it failed, and never if it completed", releases[T]},
		{"Running", "a running operation is not deleted, released or erased", leavesRunning[T]},
		{"Joined", "in a closure of the same database a key is deleted with its commit, or not at all", deletesJoined[T]},
		{"DeletedMeanwhile", "a call that begins after a deletion does not share an answer that was read before it", deletedMeanwhile[T]},
		{"DeleteStorm", "an operation runs no more than once, and once more for each time that it is deleted", deleteStorm[T]},
		{"Erase", "all of a scope is erased, and nothing of another, however it is spelled", erases[T]},
		{"ErasePages", "a scope is erased from a table of any size", erasesPages[T]},
		{"EraseBeside", "calls of other scopes go on while one is erased", erasesBeside[T]},
	}
}

func declined[T any](context.Context, T) (int, error) { return 0, &idem.Failure{Status: 402} }

func deletes[T any](s *suite[T]) {
	heard := &events{}
	keys, other, runs := idem.New(s.DB, nil), idem.New(s.DB, &idem.Options{Observer: heard}), &counter{}
	for name, fn := range map[string]func(context.Context, T) (int, error){"completed": work(s, "deleted", runs, 1), "failed": declined[T]} {
		_, err := idem.Do(s.ctx, keys, key(name), fn)
		if name == "completed" {
			s.must(err)
		}
		for _, want := range []bool{true, false} {
			got, err := other.Delete(s.ctx, key(name))
			if err != nil || got != want {
				s.Fatalf("%s: got %v, %v, want %v", name, got, err, want)
			}
		}
		if got := heard.kinds(s, ""); got != "idem.deleted " {
			s.Fatalf("%s: heard %q", name, got)
		}
		res, err := idem.Do(s.ctx, keys, key(name), work(s, "again", runs, 2))
		s.must(err)
		if res.Replayed || res.Value != 2 {
			s.Fatalf("%s: got %+v", name, res)
		}
	}
	s.count(runs, 3)
	s.wantEffects("deleted", 1)
	refusesBadKeys(s, func(k idem.Key) error { _, err := keys.Delete(s.ctx, k); return err })
}

func refusesBadKeys[T any](s *suite[T], call func(k idem.Key) error) {
	s.Helper()
	for _, k := range []idem.Key{
		{Name: "charge", Value: "v"},
		{Scope: "tenant", Value: "v"},
		{Scope: "tenant", Name: "charge"},
		{Scope: "ten\x00ant", Name: "charge", Value: "v"},
		{Scope: "\xff", Name: "charge", Value: "v"},
		{Scope: strings.Repeat("s", 256), Name: "charge", Value: "v"},
	} {
		err := call(k)
		if s.want(err, idem.ErrKeyInvalid); holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("outcome %v", holdfast.OutcomeOf(err))
		}
	}
}

func releases[T any](s *suite[T]) {
	heard := &events{}
	keys, runs := idem.New(s.DB, &idem.Options{Observer: heard}), &counter{}
	_, err := idem.Do(s.ctx, keys, key("failed"), declined[T])
	s.want(err, idem.ErrFailed)
	_, err = idem.Do(s.ctx, keys, key("completed"), work(s, "completed", runs, 1))
	s.must(err)
	heard.kinds(s, "")
	if got, err := keys.Release(s.ctx, key("failed")); err != nil || !got {
		s.Fatalf("got %v, %v", got, err)
	}
	if got := heard.kinds(s, ""); got != "idem.released " {
		s.Fatalf("heard %q", got)
	}
	for name, want := range map[string]error{"failed": nil, "never": nil, "completed": idem.ErrCompleted} {
		got, err := keys.Release(s.ctx, key(name))
		if got || !errors.Is(err, want) {
			s.Fatalf("%s: got %v, %v", name, got, err)
		}
	}
	res, err := idem.Do(s.ctx, keys, key("failed"), work(s, "failed", runs, 2))
	s.must(err)
	if res.Replayed {
		s.Fatalf("got %+v", res)
	}
	res, err = idem.Do(s.ctx, keys, key("completed"), work(s, "completed", runs, 3))
	s.must(err)
	if !res.Replayed || res.Value != 1 {
		s.Fatalf("got %+v", res)
	}
	s.wantEffects("completed", 1)
	s.exec("update idem_key set state = 4, codec = 0, status = 0, body = null") // what a sweep leaves of an expired answer
	_, err = keys.Release(s.ctx, key("failed"))
	s.want(err, idem.ErrKeyExpired)
	if got, err := keys.Delete(s.ctx, key("failed")); err != nil || !got {
		s.Fatalf("a tombstone: got %v, %v", got, err)
	}
	refusesBadKeys(s, func(k idem.Key) error { _, err := keys.Release(s.ctx, k); return err })
}

// leavesRunning: a row with a lease is one whose work is outside the database; an advisory lock has no row.
func leavesRunning[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	_, err := idem.Do(s.ctx, keys, key("leased"), work(s, "leased", runs, 1))
	s.must(err)
	s.exec("update idem_key set state = 1, lease_until = expires_at")
	remove := map[string]func(idem.Key) (bool, error){
		"Delete":  func(k idem.Key) (bool, error) { return keys.Delete(s.ctx, k) },
		"Release": func(k idem.Key) (bool, error) { return keys.Release(s.ctx, k) },
	}
	for name, call := range remove {
		got, err := call(key("leased"))
		if s.want(err, idem.ErrInFlight); got {
			s.Fatalf("%s did", name)
		}
	}
	if n, err := keys.Erase(s.ctx, "tenant"); err != nil || n != 0 {
		s.Fatalf("erased %d, %v", n, err)
	}
	_, err = idem.Do(s.ctx, keys, key("leased"), work(s, "leased", runs, 1))
	s.want(err, idem.ErrInFlight)
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		s.Log("they wait for the writer")
		return
	}
	release := s.held(keys, "held", nil)
	for name, call := range remove {
		if got, err := call(key("held")); err != nil || got {
			s.Fatalf("%s: got %v, %v", name, got, err)
		}
	}
	if n, err := keys.Erase(s.ctx, "tenant"); err != nil || n != 0 {
		s.Fatalf("erased %d, %v", n, err)
	}
	s.must(release())
	res, err := idem.Do(s.ctx, keys, key("held"), work(s, "held", runs, "second"))
	s.must(err)
	if !res.Replayed {
		s.Fatalf("got %+v", res)
	}
	s.wantEffects("held", 1)
}

func deletesJoined[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, &idem.Options{CacheBytes: 1 << 20}), &counter{}
	for i, outcome := range []error{errPlain, nil} {
		_, err := idem.Do(s.ctx, keys, key("joined"), work(s, "joined", runs, 1))
		s.must(err)
		err = s.DB.Do(s.ctx, func(ctx context.Context, _ T) error {
			if got, err := keys.Delete(ctx, key("joined")); err != nil || !got {
				s.Errorf("got %v, %v", got, err)
			}
			if s.DB.Dialect().Capabilities.ConcurrentWriters {
				_, err := idem.Do(s.ctx, keys, key("joined"), work(s, "joined", runs, 1)) // beside, it is still there, and cached
				s.must(err)
			}
			return outcome
		})
		if !errors.Is(err, outcome) {
			s.Fatalf("got %v", err)
		}
		s.count(runs, 1)
		res, err := idem.Do(s.ctx, keys, key("joined"), work(s, "joined", runs, 1))
		s.must(err)
		if res.Replayed != (outcome != nil) {
			s.Fatalf("after %v: got %+v", outcome, res)
		}
		s.count(runs, i+1)
	}
}

func deletedMeanwhile[T any](s *suite[T]) {
	for name, forget := range map[string]func(keys *idem.Keys[T]) error{
		"deleted": func(keys *idem.Keys[T]) error { _, err := keys.Delete(s.ctx, key("deleted")); return err },
		"erased":  func(keys *idem.Keys[T]) error { _, err := keys.Erase(s.ctx, "tenant"); return err },
	} {
		read, leave, runs := make(chan struct{}), make(chan struct{}), &counter{}
		pause := func(_ context.Context, e holdfast.Event) {
			if e.Kind == idem.EventReplayed {
				close(read)
				<-leave
			}
		}
		keys := idem.New(s.DB, &idem.Options{Observer: holdfast.ObserverFunc(pause)})
		do := func() (idem.Result[int], error) {
			ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second) // of the one that would wait for the other
			defer cancel()
			return idem.Do(ctx, keys, key(name), work(s, name, runs, 1))
		}
		_, err := do()
		s.must(err)
		replayed := make(chan error, 1)
		go func() {
			_, err := do()
			replayed <- err
		}()
		<-read
		s.must(forget(keys))
		res, err := do()
		close(leave)
		s.must(err)
		if res.Replayed {
			s.Fatalf("%s: got %+v", name, res)
		}
		s.must(<-replayed)
		s.count(runs, 2)
	}
}

func deleteStorm[T any](s *suite[T]) {
	for _, size := range []int{0, 1 << 20} {
		name := fmt.Sprint("storm ", size)
		keys := []*idem.Keys[T]{idem.New(s.DB, nil), idem.New(s.DB, &idem.Options{CacheBytes: size})}
		runs, deleted := &counter{}, &counter{}
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				for n := range 50 {
					k := keys[(n+i)%2]
					if i%3 == 0 {
						got, err := k.Delete(s.ctx, key(name))
						if err != nil {
							s.Errorf("Delete: %v", err)
						}
						if got {
							deleted.add()
						}
						continue
					}
					_, err := idem.Do(s.ctx, k, key(name), work(s, name, runs, 1))
					if err != nil && !errors.Is(err, idem.ErrInFlight) {
						s.Errorf("Do: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if n := deleted.get(); runs.get() > n+1 || n == 0 {
			s.Fatalf("%d runs, deleted %d times", runs.get(), n)
		}
		s.wantEffects(name, runs.get())
	}
}

// strangeScopes are tenants that a statement made by hand would take for one another, or for SQL.
var strangeScopes = []string{"a", "A", "a ", "a%", "%", "_", "a' or '1'='1", `a"; delete from idem_key; --`, "$1", "ä", "a\u0308"}

func erases[T any](s *suite[T]) {
	heard := &events{}
	keys, runs := idem.New(s.DB, &idem.Options{Observer: heard}), &counter{}
	do := func(scope string) bool {
		s.Helper()
		_, err := idem.Do(s.ctx, keys, idem.Key{Scope: scope, Name: "fails", Value: "v"}, declined[T])
		s.want(err, idem.ErrFailed)
		res, err := idem.Do(s.ctx, keys, idem.Key{Scope: scope, Name: "n", Value: "v"}, work(s, scope, runs, 1))
		s.must(err)
		return res.Replayed
	}
	for _, scope := range strangeScopes {
		do(scope)
	}
	heard.kinds(s, "")
	for i, gone := range strangeScopes {
		n, err := keys.Erase(s.ctx, gone)
		if err != nil || n != 2 {
			s.Fatalf("%q: erased %d, %v", gone, n, err)
		}
		if got := heard.kinds(s, ""); got != "idem.erased " {
			s.Fatalf("heard %q", got)
		}
		var rows int
		s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from idem_key").Scan(&rows))
		if want := 2 * (len(strangeScopes) - 1 - i); rows != want {
			s.Fatalf("%q: %d rows left, want %d", gone, rows, want)
		}
	}
	if do("a") {
		s.Fatal("an erased answer was replayed")
	}
	for _, scope := range []string{"", "a\x00", "\xff", strings.Repeat("s", 256)} {
		_, err := keys.Erase(s.ctx, scope)
		s.want(err, idem.ErrKeyInvalid)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	cancel(errPlain)
	_, err := keys.Erase(ctx, "a")
	s.want(err, errPlain)
}

func erasesPages[T any](s *suite[T]) {
	keys := idem.New(s.DB, nil)
	_, err := idem.Do(s.ctx, keys, key("kept"), work(s, "kept", &counter{}, 1))
	s.must(err)
	digest := "decode(md5(cast(i as text)), 'hex')"
	if !s.DB.Dialect().Capabilities.Schemas {
		digest = "randomblob(16)"
	}
	const third = 2_000
	s.exec(fmt.Sprintf(`insert into idem_key (k, scope, name, state, fp, nonce, expires_at)
		with recursive n (i) as (select 1 union all select i + 1 from n where i < %d)
		select %s, 'tenant' || (i %% 3), 'n', 2, fp, nonce, expires_at from n, idem_key`, 3*third, digest))
	for i, left := range []int{2 * third, third, 0} {
		got, err := keys.Erase(s.ctx, fmt.Sprint("tenant", i))
		if err != nil || got != third {
			s.Fatalf("erased %d, %v", got, err)
		}
		var rows int
		s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from idem_key").Scan(&rows))
		if rows != left+1 {
			s.Fatalf("%d rows, want %d", rows, left+1)
		}
	}
}

func erasesBeside[T any](s *suite[T]) {
	keys := idem.New(s.DB, nil)
	const each = 60
	var wg sync.WaitGroup
	of := func(scope string, i int) idem.Key { return idem.Key{Scope: scope, Name: "n", Value: fmt.Sprint(i)} }
	for _, scope := range []string{"gone", "stays", "stays too"} {
		runs := &counter{}
		wg.Go(func() {
			for i := range 2 * each {
				if _, err := idem.Do(s.ctx, keys, of(scope, i%each), work(s, scope, runs, 1)); err != nil {
					s.Error(err)
				}
			}
			if got := runs.get(); scope != "gone" && got != each {
				s.Errorf("%s: %d runs, want %d", scope, got, each)
			}
		})
	}
	total := int64(0)
	for i := range 10 {
		if i == 9 {
			wg.Wait()
		}
		n, err := keys.Erase(s.ctx, "gone")
		s.must(err)
		total += n
	}
	if total < each {
		s.Fatalf("erased %d, want %d or more", total, each)
	}
	var rows int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from idem_key where scope = 'gone'").Scan(&rows))
	if rows != 0 {
		s.Fatalf("%d rows left of a scope without traffic", rows)
	}
	s.wantEffects("stays", each)
	s.wantEffects("stays too", each)
}
