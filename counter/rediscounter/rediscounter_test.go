package rediscounter_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter/rediscounter"
	"github.com/holdfast-go/holdfast/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func open(t *testing.T, address string, change func(*redis.Options)) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(o)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// swallower passes on everything but the replies that come while lose is above 0.
func swallower(t *testing.T, server string, lose *atomic.Int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(up, client); _ = up.Close() }()
			go func() {
				buffer := make([]byte, 4096)
				for {
					n, err := up.Read(buffer)
					if err != nil {
						_ = client.Close()
						return
					}
					if lose.Add(-1) < 0 {
						_, _ = client.Write(buffer[:n])
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// C1: go-redis sends a command again when its reply is late.
func TestC1ALostReplyCountsOnce(t *testing.T) {
	t.Parallel()
	address, prefix := testdb.Redis(t)
	direct := open(t, address, nil)
	var lose atomic.Int64
	proxy := swallower(t, direct.Options().Addr, &lose)
	client := open(t, address, func(o *redis.Options) { o.Addr, o.ReadTimeout = proxy, 300*time.Millisecond })
	ctx := t.Context()
	counters := rediscounter.New(client, &rediscounter.Options{Prefix: prefix})
	if _, err := counters.Add(ctx, "warm", 1, ""); err != nil { // loads the script
		t.Fatal(err)
	}
	if err := client.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		add  func() error
		get  func() (int64, error)
		ok   func(int64) bool
	}{
		{
			"plain", func() error { return client.Incr(ctx, prefix+"plain").Err() },
			func() (int64, error) { return direct.Get(ctx, prefix+"plain").Int64() }, func(n int64) bool { return n > 1 },
		},
		{
			"ours", func() error { _, err := counters.Add(ctx, "ours", 1, ""); return err },
			func() (int64, error) {
				return rediscounter.New(direct, &rediscounter.Options{Prefix: prefix}).Get(ctx, "ours")
			},
			func(n int64) bool { return n == 1 },
		},
	} {
		lose.Store(1)
		if err := c.add(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if n, err := c.get(); err != nil || !c.ok(n) {
			t.Errorf("%s: counted %d, %v", c.name, n, err)
		}
	}
}

func TestTakeInAStormIsNeverOversold(t *testing.T) {
	t.Parallel()
	address, prefix := testdb.Redis(t)
	c := rediscounter.New(open(t, address, nil), &rediscounter.Options{Prefix: prefix})
	ctx := context.Background()
	if _, err := c.Add(ctx, "{stock}\x00", 40, "fill"); err != nil {
		t.Fatal(err)
	}
	var sold, refused atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			switch _, err := c.Take(ctx, "{stock}\x00", 1, ""); {
			case err == nil:
				sold.Add(1)
			case errors.Is(err, rediscounter.ErrInsufficient) && holdfast.OutcomeOf(err) == holdfast.NotApplied:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sold.Load() != 40 || refused.Load() != 24 {
		t.Errorf("sold %d, refused %d", sold.Load(), refused.Load())
	}
}

func TestRefusalsChangeNothing(t *testing.T) {
	t.Parallel()
	address, prefix := testdb.Redis(t)
	c := rediscounter.New(open(t, address, nil), &rediscounter.Options{Prefix: prefix})
	ctx := t.Context()
	if _, err := c.Add(ctx, "big", math.MaxInt64, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Add(ctx, "big", 1, "b"); !errors.Is(err, rediscounter.ErrOverflow) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
		t.Errorf("overflow: %v", err)
	}
	if _, err := c.Add(ctx, "big", 1, "a"); !errors.Is(err, rediscounter.ErrMismatch) {
		t.Errorf("mismatch: %v", err)
	}
	if n, err := c.Add(ctx, "big", math.MaxInt64, "a"); err != nil || n != math.MaxInt64 {
		t.Errorf("replay: %d, %v", n, err)
	}
	if n, err := c.Take(ctx, "big", math.MaxInt64-1, "c"); err != nil || n != 1 {
		t.Errorf("take: %d, %v", n, err)
	}
	for _, name := range []string{"", string(make([]byte, 10<<20))} {
		if _, err := c.Add(ctx, name, 1, ""); !errors.Is(err, rediscounter.ErrInvalid) {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
}
