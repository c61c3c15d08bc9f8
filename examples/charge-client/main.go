// Command charge-client shows a client of a payment provider that answers 502 after it has charged.
//
//	go run ./examples/charge-client
//
// The provider is a server in this process: its gateway gives up, or hangs up, before the answer comes, and the charge stands. A
// loop that tries again until it is told yes charges up to five times. With a key, which the provider knows a repetition by,
// and a transport that sends it again with that same key (charge/client.go), each order is charged once:
//
//	client := &http.Client{Transport: retryhttp.New(nil, nil)}
//	…
//	r.Header.Set("Idempotency-Key", order) // the order's own: the same in each attempt, and tomorrow
//	res, err := client.Do(r)
//
// A client that sends no key is not helped by the transport, nor harmed: it sends a POST once, and says that the outcome is unknown.
//
// It exits with 1 if ours charged an order twice or not at all, and also if the loop did not.
package main

import (
	"github.com/holdfast-go/holdfast/examples/charge-client/charge"
	"github.com/holdfast-go/holdfast/examples/internal/story"
)

func main() { story.Main(charge.Run) }
