package redisidem_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/redisidem"
	"github.com/holdfast-go/holdfast/internal/testdb"
)

// through brings a key through every script, and returns its record before the end.
func through(t testing.TB, s idem.Store, value string, between func()) idem.Record {
	t.Helper()
	ctx := t.Context()
	r := begun(t, s, named(value, value))
	between()
	renewals, err := s.Renew(ctx, []idem.Term{termOf(r)}, time.Minute)
	if err != nil || renewals[0] != idem.RenewalDone {
		t.Fatal(renewals, err)
	}
	between()
	yes(t)(s.Announce(ctx, r.ID))
	between()
	yes(t)(s.Mark(ctx, termOf(r), []byte("steps")))
	between()
	yes(t)(s.Park(ctx, termOf(r), idem.Parking{State: idem.Pending}))
	between()
	taken, err := s.TakeDue(ctx, due([]string{value}, 1, idem.Pending))
	if err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	between()
	yes(t)(s.Release(ctx, termOf(taken[0])))
	between()
	r = begun(t, s, named(value, value))
	list, err := s.List(ctx, idem.Filter{States: []idem.State{idem.Running}, Name: value})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	between()
	yes(t)(s.Complete(ctx, termOf(r), idem.Answer{State: idem.Completed, Body: []byte("b")}, time.Minute))
	return r
}

func TestScriptsThatAreFlushedAreLoadedAgain(t *testing.T) {
	t.Parallel()
	f := alone(t)
	for i := range 5 {
		through(t, f, fmt.Sprint("a", i), func() { must(t, f.client.ScriptFlush(t.Context()).Err()) })
	}
	// And in the middle of everything.
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = f.client.ScriptFlush(context.Background()).Err()
			}
		}
	}()
	for i := range 50 {
		through(t, f, fmt.Sprint("b", i), func() {})
	}
	close(stop)
	<-done
}

// A server that answers nobody costs the lease, and who was at it knows before another is.
func TestClientPause(t *testing.T) {
	t.Parallel()
	f := alone(t)
	key := idem.Key{Scope: "tenant", Name: "charge", Value: "a"}
	keys := idem.NewLeasedOn(f, &idem.LeaseOptions{Lease: time.Second})
	other := idem.NewLeasedOn(redisidem.New(f.client, nil), &idem.LeaseOptions{Lease: time.Minute, Wait: time.Minute})
	_, err := idem.DoLeased(t.Context(), keys, key, func(ctx context.Context, first *idem.Run) (string, error) {
		must(t, f.client.Do(t.Context(), "client", "pause", 2500, "write").Err())
		res, err := idem.DoLeased(t.Context(), other, key, func(_ context.Context, second *idem.Run) (string, error) {
			var lost *idem.LeaseLostError
			if !errors.As(context.Cause(ctx), &lost) || lost.Reason != idem.Unreachable {
				t.Errorf("another is at it, and the context of the first says: %v", context.Cause(ctx))
			}
			if second.Epoch() <= first.Epoch() {
				t.Errorf("epoch %d came after %d", second.Epoch(), first.Epoch())
			}
			return "b", nil
		})
		if err != nil || res.Value != "b" {
			t.Errorf("%+v, %v", res, err)
		}
		return "a", nil
	})
	if !errors.Is(err, idem.ErrLeaseLost) {
		t.Error(err)
	}
}

// A pause that is shorter than the lease costs nothing.
func TestAShortClientPause(t *testing.T) {
	t.Parallel()
	f := alone(t)
	keys := idem.NewLeasedOn(f, &idem.LeaseOptions{Lease: 4 * time.Second})
	res, err := idem.DoLeased(t.Context(), keys, idem.Key{Scope: "tenant", Name: "charge", Value: "a"}, func(ctx context.Context, run *idem.Run) (string, error) {
		must(t, f.client.Do(t.Context(), "client", "pause", 2000, "all").Err())
		must(t, f.client.Ping(t.Context()).Err()) // is answered at its end
		return "a", run.Check()
	})
	if err != nil || res.Value != "a" {
		t.Errorf("%+v, %v", res, err)
	}
}

// A replica refuses; what it has got, it keeps when it takes over.
func TestReplica(t *testing.T) {
	t.Parallel()
	primary, replica, ctx := testdb.RedisServer(t), testdb.RedisServer(t), t.Context()
	host, port, _ := net.SplitHostPort(hostOf(t, primary))
	first, second := redisidem.New(connect(t, primary.URL(), nil), nil), connect(t, replica.URL(), nil)
	s := redisidem.New(second, nil)
	must(t, second.ReplicaOf(ctx, host, port).Err())
	r := begun(t, first, claim("a", time.Minute))
	for n := int64(0); n == 0; {
		n, _ = second.Exists(ctx, s.KeyOf(r.ID)).Result()
	}
	if _, err := s.Claim(ctx, claim("b", time.Minute)); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Error(err)
	}
	if renewals, err := s.Renew(ctx, []idem.Term{termOf(r)}, time.Minute); err == nil {
		t.Error(renewals)
	}
	if err := s.Check(ctx); !errors.Is(err, redisidem.ErrServer) || !strings.Contains(err.Error(), "replica") {
		t.Error(err)
	}
	must(t, primary.Kill())
	must(t, second.ReplicaOf(ctx, "no", "one").Err())
	if got, err := s.Claim(ctx, claim("a", time.Minute)); err != nil || got.Nonce != r.Nonce {
		t.Errorf("%+v, %v", got, err)
	}
	yes(t)(s.Complete(ctx, termOf(r), idem.Answer{State: idem.Completed}, time.Minute))
	must(t, s.Check(ctx))
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	const fine = "redis_version:6.2.0\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
	server := testdb.RedisServer(t)
	client, ctx := connect(t, server.URL(), nil), t.Context()
	s, told := redisidem.New(client, nil), redisidem.New(client, &redisidem.Options{AllowEviction: true})
	for _, c := range []struct{ from, to, reason string }{
		{"", "", ""},
		{"6.2.0", "10.0.1", ""},
		{"redis_version:6.2.0", "redis_version:7.2.4\r\nvalkey_version:8.1.0", ""},
		{"redis_version:6.2.0", "redis_version:7.2.4\r\nvalkey_version:7.0.0", "valkey 7.2"},
		{"6.2.0", "6.0.16", "redis 6.2"},
		{"master", "slave", "replica"},
		{"noeviction", "volatile-ttl", "noeviction"},
		{"noeviction", "volatile-lru", "noeviction"},
		{"noeviction", "allkeys-lru", "noeviction"},
	} {
		reason := s.Fault(strings.Replace(fine, c.from, c.to, 1))
		if (reason == "") != (c.reason == "") || !strings.Contains(reason, c.reason) {
			t.Errorf("%q: %q", c.to, reason)
		}
		if allowed := told.Fault(strings.Replace(fine, c.from, c.to, 1)); (allowed == "") != (reason == "" || c.reason == "noeviction") {
			t.Errorf("%q, and eviction is allowed: %q", c.to, allowed)
		}
	}
	must(t, s.Check(ctx))
	must(t, client.ConfigSet(ctx, "maxmemory-policy", "volatile-lru").Err())
	var fault *redisidem.ServerError
	if err := s.Check(ctx); !errors.Is(err, redisidem.ErrServer) || !errors.As(err, &fault) || !strings.Contains(server.Version(), strings.Fields(fault.Server)[1]) {
		t.Error(err)
	}
	must(t, told.Check(ctx))
	must(t, client.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	for _, right := range []string{
		"evalsha", "time", "hmget", "hset", "hexists", "hincrby", "hdel", "del", "get", "set", "pexpire", "zadd", "zrem", "zrangebyscore",
		"zrange", "info",
	} {
		must(t, client.Do(ctx, "acl", "setuser", "default", "-"+right).Err())
		if err := s.Check(ctx); err == nil || errors.Is(err, redisidem.ErrServer) {
			t.Errorf("without %s: %v", right, err)
		}
		must(t, client.Do(ctx, "acl", "setuser", "default", "+"+right).Err())
	}
	must(t, client.Do(ctx, "acl", "setuser", "default", "resetchannels").Err())
	must(t, s.Check(ctx))
	must(t, client.Do(ctx, "acl", "setuser", "default", "allchannels").Err())
}

// The check leaves nothing that stays.
func TestCheckCleansUp(t *testing.T) {
	t.Parallel()
	f := alone(t)
	must(t, f.Check(t.Context()))
	keys, err := f.client.Keys(t.Context(), "*").Result()
	must(t, err)
	for _, key := range keys {
		if left := f.client.PTTL(t.Context(), key).Val(); left < 0 || left > 5*time.Second {
			t.Errorf("it left %s for %v", key, left)
		}
	}
	if len(keys) == 0 {
		t.Error("it has tried nothing")
	}
}

// When the memory is full a claim is refused, and an answer is stored all the same.
func TestAFullMemory(t *testing.T) {
	t.Parallel()
	f, ctx := alone(t), t.Context()
	r := begun(t, f, claim("a", time.Minute))
	must(t, f.client.ConfigSet(ctx, "maxmemory", "1").Err())
	if got, err := f.Claim(ctx, claim("b", time.Minute)); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("%+v, %v", got, err)
	}
	yes(t)(f.Complete(ctx, termOf(r), idem.Answer{State: idem.Completed, Body: []byte("b")}, time.Minute))
	if got, err := f.Claim(ctx, claim("a", time.Minute)); err != nil || string(got.Answer.Body) != "b" {
		t.Errorf("%+v, %v", got, err)
	}
	must(t, f.client.ConfigSet(ctx, "maxmemory", "0").Err())
	begun(t, f, claim("b", time.Minute))
}

// Numbers that the documentation names. What is refused changes nothing.
func TestRequests(t *testing.T) {
	t.Parallel()
	f, ctx := alone(t), t.Context()
	must(t, f.Check(ctx))
	terms := make([]idem.Term, 1000)
	for i := range terms {
		terms[i] = termOf(begun(t, f, claim(fmt.Sprint(i), time.Minute)))
	}
	counter := &requests{}
	f.client.AddHook(counter)
	want := func(n int, what string) {
		t.Helper()
		if got := counter.n.Swap(0); got != int64(n) {
			t.Errorf("%s: %d requests, want %d", what, got, n)
		}
	}
	renewals, err := f.Renew(ctx, terms, time.Minute)
	must(t, err)
	for _, r := range renewals {
		if r != idem.RenewalDone {
			t.Fatal(r)
		}
	}
	want(1, "1000 renewals")
	key := idem.Key{Scope: "tenant", Name: "other", Value: "a"}
	keys := idem.NewLeasedOn(f, nil)
	work := func(ctx context.Context, run *idem.Run) (string, error) {
		want(1, "a claim")
		_, err := idem.Step(ctx, run, idem.External[int]{Name: "s", Call: func(context.Context, string) (int, error) {
			want(1, "that a step begins")
			return 1, nil
		}})
		want(1, "that it is made")
		return "a", err
	}
	_, err = idem.DoLeased(ctx, keys, key, work)
	must(t, err)
	want(1, "an answer")
	changed := func() string {
		info, err := f.client.Info(ctx, "persistence").Result()
		must(t, err)
		_, rest, _ := strings.Cut(info, "rdb_changes_since_last_save:")
		n, _, _ := strings.Cut(rest, "\r\n")
		return n
	}
	before := changed()
	counter.n.Store(0)
	for range 50 {
		if res, err := idem.DoLeased(ctx, keys, key, work); err != nil || !res.Replayed {
			t.Fatal(res, err)
		}
	}
	want(50, "50 replays")
	for range 50 {
		if r, err := f.Claim(ctx, claim("0", time.Minute)); err != nil || r.Nonce != terms[0].Nonce {
			t.Fatal(r, err)
		}
	}
	want(50, "50 refusals")
	list, err := f.TakeDue(ctx, due([]string{"charge"}, 10, allOpen...))
	if err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
	want(1, "nothing is due")
	if after := changed(); before != after {
		t.Errorf("there were %s changes, and are %s after replays and refusals", before, after)
	}
	counter.n.Store(0)
	yes(t)(f.Park(ctx, terms[0], idem.Parking{State: idem.Pending}))
	want(1, "parking")
	if list, err = f.TakeDue(ctx, due([]string{"charge"}, 10, allOpen...)); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	want(2, "taking what is due")
	yes(t)(f.Release(ctx, termOf(list[0])))
	want(1, "a release")
	if list, err = f.List(ctx, idem.Filter{States: allOpen, Limit: 50}); err != nil || len(list) != 50 {
		t.Fatal(len(list), err)
	}
	want(2, "a page of open keys")
}

type requests struct{ n atomic.Int64 }

func (r *requests) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *requests) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.n.Add(1)
		return next(ctx, cmd)
	}
}

func (r *requests) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.n.Add(1)
		return next(ctx, cmds)
	}
}
