package redislease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/redislease"
)

func TestScriptsThatAreFlushedAreLoadedAgain(t *testing.T) {
	t.Parallel()
	server := testdb.RedisServer(t)
	client := connect(t, server.URL(), nil)
	s := redislease.New(client, nil)
	flush := func() { must(t, client.ScriptFlush(t.Context()).Err()) }
	for i := range 5 {
		term := take(t, s, claim("a", fmt.Sprint(i), time.Minute))
		flush()
		renewed(t, s, true, term)
		flush()
		released(t, s, true, term)
		flush()
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
				_ = client.ScriptFlush(context.Background()).Err()
			}
		}
	}()
	for i := range 300 {
		term := take(t, s, claim("b", fmt.Sprint(i), time.Minute))
		renewed(t, s, true, term)
		released(t, s, true, term)
	}
	close(stop)
	<-done
}

// A server that answers nobody costs the lease, and the holder knows before another has it.
func TestClientPause(t *testing.T) {
	t.Parallel()
	server := testdb.RedisServer(t)
	client := connect(t, server.URL(), nil)
	s := redislease.New(client, nil)
	leases := lease.New(s, &lease.Options{TTL: time.Second, PollEvery: 10 * time.Millisecond})
	h, err := leases.Acquire(t.Context(), "a")
	must(t, err)
	must(t, client.Do(t.Context(), "client", "pause", 2500, "write").Err())
	next, err := lease.New(redislease.New(client, nil), &lease.Options{TTL: time.Minute}).Acquire(t.Context(), "a")
	must(t, err)
	var lost *lease.LostError
	if !errors.As(context.Cause(h.Context()), &lost) || lost.Reason != lease.Unreachable {
		t.Errorf("another has the lease, and the holder's context says: %v", context.Cause(h.Context()))
	}
	if next.Fence().Token <= h.Fence().Token {
		t.Errorf("token %d came after %d", next.Fence().Token, h.Fence().Token)
	}
	if got, err := h.Release(t.Context()); got != lease.AlreadyLost || err != nil {
		t.Errorf("the release came to %d, %v", got, err)
	}
	must(t, next.Check())
}

// A pause that is shorter than the lease costs nothing.
func TestAShortClientPause(t *testing.T) {
	t.Parallel()
	server := testdb.RedisServer(t)
	client := connect(t, server.URL(), nil)
	leases := lease.New(redislease.New(client, nil), &lease.Options{TTL: 4 * time.Second})
	h, err := leases.Acquire(t.Context(), "a")
	must(t, err)
	first := h.Deadline()
	must(t, client.Do(t.Context(), "client", "pause", 2000, "all").Err())
	for h.Deadline().Before(first.Add(2 * time.Second)) {
		must(t, h.Check())
	}
	if got, err := h.Release(t.Context()); got != lease.ReleaseDone || err != nil {
		t.Errorf("the release came to %d, %v", got, err)
	}
}

// A replica refuses; what it has got, it keeps when it takes over.
func TestReplica(t *testing.T) {
	t.Parallel()
	primary, replica, ctx := testdb.RedisServer(t), testdb.RedisServer(t), t.Context()
	host, port, _ := net.SplitHostPort(hostOf(t, primary))
	first, second := redislease.New(connect(t, primary.URL(), nil), nil), connect(t, replica.URL(), nil)
	s := redislease.New(second, nil)
	must(t, second.ReplicaOf(ctx, host, port).Err())
	term := take(t, first, claim("a", "n", time.Minute))
	for n := int64(0); n == 0; {
		n, _ = second.Exists(ctx, s.KeyOf("a")).Result()
	}
	if _, err := s.TryAcquire(ctx, claim("b", "n", time.Minute)); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Error(err)
	}
	if renewals, err := s.Renew(ctx, []lease.Term{term}); err != nil || renewals[0].Err == nil || renewals[0].Held {
		t.Errorf("%+v, %v", renewals, err)
	}
	var fault *redislease.ServerError
	if err := s.Check(ctx); !errors.Is(err, redislease.ErrServer) || !errors.As(err, &fault) || fault.Server.Primary {
		t.Error(err)
	}
	must(t, primary.Kill())
	must(t, second.ReplicaOf(ctx, "no", "one").Err())
	renewed(t, s, true, term)
	if g, err := s.TryAcquire(ctx, claim("a", "m", time.Minute)); err != nil || g.Held {
		t.Errorf("%+v, %v", g, err)
	}
	must(t, s.Check(ctx))
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	fine := redislease.Server{Name: "redis", Version: "6.2.0", Primary: true, Eviction: "noeviction", MaxMemory: 1 << 30}
	for _, c := range []struct {
		change func(s *redislease.Server)
		reason string
	}{
		{func(*redislease.Server) {}, ""},
		{func(s *redislease.Server) { s.Version = "10.0.1" }, ""},
		{func(s *redislease.Server) { s.Name, s.Version = "valkey", "8.1.0" }, ""},
		{func(s *redislease.Server) { s.MaxMemory, s.Eviction = 0, "allkeys-lru" }, ""},
		{func(s *redislease.Server) { s.Version = "6.0.16" }, "redis 6.2"},
		{func(s *redislease.Server) { s.Version = "5.0.14" }, "redis 6.2"},
		{func(s *redislease.Server) { s.Primary = false }, "replica"},
		{func(s *redislease.Server) { s.Eviction = "volatile-ttl" }, "noeviction"},
		{func(s *redislease.Server) { s.Eviction = "allkeys-lru" }, "noeviction"},
	} {
		s := fine
		c.change(&s)
		if err := s.Fault(); (err == nil) != (c.reason == "") || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	server := testdb.RedisServer(t)
	client, ctx := connect(t, server.URL(), nil), t.Context()
	s := redislease.New(client, nil)
	must(t, s.Check(ctx))
	servers, err := s.Servers(ctx)
	must(t, err)
	if len(servers) != 1 || !strings.Contains(server.Version(), servers[0].Version) || !servers[0].AppendOnly || servers[0].Replicas != 0 {
		t.Errorf("%+v of %q", servers, server.Version())
	}
	must(t, client.ConfigSet(ctx, "maxmemory", "100mb").Err())
	must(t, client.ConfigSet(ctx, "maxmemory-policy", "volatile-lru").Err())
	if err := s.Check(ctx); !errors.Is(err, redislease.ErrServer) {
		t.Error(err)
	}
	must(t, client.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	must(t, client.Do(ctx, "acl", "setuser", "default", "-set").Err())
	if err := s.Check(ctx); err == nil || errors.Is(err, redislease.ErrServer) {
		t.Errorf("without a right: %v", err)
	}
	keys, err := client.Keys(ctx, "*").Result()
	must(t, err)
	for _, key := range keys {
		if left := client.PTTL(ctx, key).Val(); left < 0 || left > 5*time.Second {
			t.Errorf("the check left %s for %v", key, left)
		}
	}
}

// A try that is refused changes nothing; each request is one.
func TestRequests(t *testing.T) {
	t.Parallel()
	server := testdb.RedisServer(t)
	client, ctx := connect(t, server.URL(), nil), t.Context()
	s := redislease.New(client, nil)
	terms := make([]lease.Term, 1000)
	for i := range terms {
		terms[i] = take(t, s, claim(fmt.Sprint(i), "n", time.Minute))
	}
	renewed(t, s, true, terms...)
	released(t, s, true, terms[0])
	counter := &requests{}
	client.AddHook(counter)
	want := func(n int, what string) {
		t.Helper()
		if counter.n != n {
			t.Errorf("%s are %d requests, want %d", what, counter.n, n)
		}
		counter.n = 0
	}
	renewed(t, s, true, terms[1:]...)
	want(1, "999 renewals")
	terms[0] = take(t, s, claim("0", "m", time.Minute))
	want(1, "an acquisition")
	before, err := client.Info(ctx, "persistence").Result()
	must(t, err)
	counter.n = 0
	for range 50 {
		if g, err := s.TryAcquire(ctx, claim("0", "other", time.Minute)); err != nil || g.Held {
			t.Fatalf("%+v, %v", g, err)
		}
	}
	want(50, "50 refusals")
	after, err := client.Info(ctx, "persistence").Result()
	must(t, err)
	if changes(before) != changes(after) {
		t.Errorf("there were %s changes, and are %s after 50 refusals", changes(before), changes(after))
	}
	counter.n = 0
	released(t, s, true, terms[0])
	want(1, "a release")
}

func changes(info string) string {
	_, rest, _ := strings.Cut(info, "rdb_changes_since_last_save:")
	n, _, _ := strings.Cut(rest, "\r\n")
	return n
}

type requests struct{ n int }

func (r *requests) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *requests) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.n++
		return next(ctx, cmd)
	}
}

func (r *requests) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.n++
		return next(ctx, cmds)
	}
}
