package rediscounter_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter/rediscounter"
	"github.com/holdfast-go/holdfast/internal/rediscluster"
	"github.com/holdfast-go/holdfast/internal/testdb"
)

func addressOf(t *testing.T, s *testdb.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func dial(t *testing.T, address string, retries int) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: retries, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 10 * time.Millisecond})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until polls another process.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for begun := time.Now(); !done(); {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%s did not come", what)
		}
	}
}

func is(t *testing.T, want int64) func(got int64, err error) {
	return func(got int64, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("got %d, %v, want %d", got, err, want)
		}
	}
}

// A replica refuses. Only a client of one attempt knows that this was all.
func TestReplicaRefuses(t *testing.T) {
	t.Parallel()
	primary, replica, ctx := testdb.RedisServer(t), testdb.RedisServer(t), t.Context()
	host, port, _ := net.SplitHostPort(addressOf(t, primary))
	direct, second := dial(t, addressOf(t, primary), 0), dial(t, addressOf(t, replica), 0)
	is(t, 5)(rediscounter.New(direct, nil).Add(ctx, "n", 5, "first"))
	must(t, second.ReplicaOf(ctx, host, port).Err())
	until(t, "the replica's copy", func() bool { n, _ := rediscounter.New(second, nil).Get(ctx, "n"); return n == 5 })
	for retries, want := range map[int]holdfast.Outcome{-1: holdfast.NotApplied, 0: holdfast.Unknown} {
		c := rediscounter.New(dial(t, addressOf(t, replica), retries), nil)
		for _, call := range []func() (int64, error){
			func() (int64, error) { return c.Add(ctx, "n", 1, "op") },
			func() (int64, error) { return c.Take(ctx, "n", 1, "op") },
			func() (int64, error) { return c.Add(ctx, "n", 1, "") },
		} {
			if _, err := call(); !redis.IsReadOnlyError(errors.Unwrap(err)) || holdfast.OutcomeOf(err) != want {
				t.Errorf("with MaxRetries %d: got %v, which is %v", retries, err, holdfast.OutcomeOf(err))
			}
		}
		is(t, 5)(c.Add(ctx, "n", 5, "first")) // what a replica knows it can say
	}
	is(t, 5)(rediscounter.New(direct, nil).Get(ctx, "n"))
	// It takes over with what it has, the ledger too.
	must(t, primary.Kill())
	must(t, second.ReplicaOf(ctx, "no", "one").Err())
	c := rediscounter.New(second, nil)
	is(t, 5)(c.Add(ctx, "n", 5, "first"))
	is(t, 6)(c.Add(ctx, "n", 1, "op"))
}

// What was acknowledged and not yet copied is lost, as the package says, and the ledger with it: never one without the other.
func TestFailoverToAnEmptyServer(t *testing.T) {
	t.Parallel()
	full, empty, ctx := testdb.RedisServer(t), testdb.RedisServer(t), t.Context()
	at := addressOf(t, full)
	client := redis.NewClient(&redis.Options{Addr: "failover", Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, at)
	}})
	t.Cleanup(func() { _ = client.Close() })
	c := rediscounter.New(client, nil)
	is(t, 10)(c.Add(ctx, "n", 10, "stock"))
	is(t, 7)(c.Take(ctx, "n", 3, "order"))
	at = addressOf(t, empty)
	must(t, full.Kill())
	_, err := c.Take(ctx, "n", 3, "order")
	if !errors.Is(err, rediscounter.ErrInsufficient) {
		t.Errorf("got %v", err)
	}
	is(t, 10)(c.Add(ctx, "n", 10, "stock"))
	is(t, 7)(c.Take(ctx, "n", 3, "order"))
	is(t, 7)(c.Take(ctx, "n", 3, "order"))
}

// A server that has forgotten the scripts gets them again, in the middle of everything.
func TestScriptsAreFlushed(t *testing.T) {
	t.Parallel()
	server, ctx := testdb.RedisServer(t), t.Context()
	client := dial(t, addressOf(t, server), 0)
	c := rediscounter.New(client, nil)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = client.ScriptFlush(ctx).Err()
			}
		}
	}()
	for i := range int64(300) {
		is(t, i+1)(c.Add(ctx, "n", 1, fmt.Sprint(i)))
		is(t, i+1)(c.Add(ctx, "n", 1, fmt.Sprint(i)))
	}
	close(stop)
	<-done
	must(t, server.Restart(ctx)) // which forgets them too
	until(t, "the server", func() bool { return client.Ping(ctx).Err() == nil })
	is(t, 300)(c.Add(ctx, "n", 1, "299"))
	is(t, 299)(c.Take(ctx, "n", 1, ""))
}

// A cluster of two, between which the slot of a counter moves. The client believes the old place until it is told.
func TestClusterMovesASlot(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := rediscluster.Start(t)
	client := cluster.Client(t, nil)
	c := rediscounter.New(client, nil)
	for i := range int64(64) { // names of every kind and slot: a counter and its ledger are never apart
		name := fmt.Sprint("{", i, "}x{}", i)
		is(t, 2)(c.Add(ctx, name, 2, "op"))
		is(t, 1)(c.Take(ctx, name, 1, ""))
	}
	is(t, 5)(c.Add(ctx, "n", 5, "before"))
	slot := cluster.Open(t, keyOf(ctx, t, cluster, "5"))
	is(t, 5)(c.Add(ctx, "n", 5, "before"))
	moved := slot.Keys(t)
	if len(moved) != 2 {
		t.Fatalf("in the slot: %v", moved)
	}
	tryAgain := func(operation string, n int64) {
		t.Helper()
		if got, err := c.Add(ctx, "n", n, operation); !redis.HasErrorPrefix(errors.Unwrap(err), "TRYAGAIN") {
			t.Errorf("got %d, %v", got, err)
		}
	}
	for i, key := range moved {
		slot.Move(t, key)
		if i == 0 { // the counter is apart from its ledger
			tryAgain("before", 5)
		}
	}
	is(t, 5)(c.Add(ctx, "n", 5, "before")) // by ASK
	tryAgain("while it moves", 1)          // its entry could be at either end
	slot.Close(t)
	is(t, 6)(c.Add(ctx, "n", 1, "while it moves")) // by MOVED
	is(t, 6)(c.Add(ctx, "n", 1, "while it moves"))
	is(t, 7)(c.Add(ctx, "n", 1, "after"))
	is(t, 5)(c.Add(ctx, "n", 5, "before"))
	is(t, 7)(c.Get(ctx, "n"))
}

// keyOf finds the counter that has a value.
func keyOf(ctx context.Context, t *testing.T, cluster *rediscluster.Cluster, value string) string {
	t.Helper()
	for _, node := range cluster.Nodes {
		keys, err := node.Keys(ctx, "counter:*").Result()
		must(t, err)
		for _, key := range keys {
			if node.Get(ctx, key).Val() == value {
				return key
			}
		}
	}
	t.Fatalf("no counter has %s", value)
	return ""
}
