package retryhttp_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// Each host has a budget of its own by default, up to a number of hosts: who makes up names does not fill the memory.
func TestHostsHaveBudgets(t *testing.T) {
	t.Parallel()
	sent := 0
	below := roundTripper(func(r *http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: r}, nil
	})
	transport := retryhttp.New(below, quick(retryhttp.Options{}))
	send := func(host string) int {
		sent = 0
		res, err := transport.RoundTrip(request(t, "GET", "http://"+host, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return sent
	}
	const calls, burst, hosts = 100, 10, 1000
	total := 0
	for range calls {
		total += send("down")
	}
	if total != calls+burst {
		t.Errorf("a host that is down got %d requests for %d calls", total, calls)
	}
	for i := range hosts - 1 {
		if n := send(fmt.Sprint("host-", i)); n != 3 {
			t.Fatalf("host %d pays for another: %d requests", i, n)
		}
	}
	total = 0
	for i := range calls {
		total += send(fmt.Sprint("one-too-many-", i))
	}
	if total != calls+burst {
		t.Errorf("hosts beyond the bound got %d requests for %d calls", total, calls)
	}
}
