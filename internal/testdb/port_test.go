package testdb

import (
	"context"
	"testing"
)

func TestPortsAreNotThoseOfClients(t *testing.T) {
	t.Parallel()
	const clients = 32768 // where Linux begins, unless told otherwise; others begin higher
	for range 100 {
		port, err := FreePort(t.Context())
		if err != nil || port < 1024 || port >= clients {
			t.Fatalf("got %d, %v", port, err)
		}
	}
}

// The server that holds the port answers as well as ours would, so an answer alone does not mean that ours has started.
func TestAServerThatLosesItsPortTakesAnother(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(context.Context, func(context.Context) (int, error)) (*Server, error){
		"PostgreSQL": startPostgres, "Redis": startRedis,
	} {
		var taken int
		first, err := start(t.Context(), func(ctx context.Context) (port int, err error) {
			taken, err = FreePort(ctx)
			return taken, err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = first.Close() })
		tries := 0
		second, err := start(t.Context(), func(ctx context.Context) (int, error) {
			if tries++; tries == 1 {
				return taken, nil
			}
			return FreePort(ctx)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = second.Close() })
		if tries != 2 || second.URL() == first.URL() || !second.running() {
			t.Errorf("%s: after %d tries at %s, the first is at %s", name, tries, second.URL(), first.URL())
		}
	}
}
