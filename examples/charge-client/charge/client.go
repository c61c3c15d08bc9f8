// Package charge is the charge-client story: a client whose provider answers 502 after it has charged.
package charge

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// tries is how often each client sends a request at most.
const tries = 5

// Loop tries again until it is told yes. Each time may be another charge.
func Loop(ctx context.Context, client *http.Client, url, order string) error {
	var err error
	for range tries {
		var res *http.Response
		if res, err = post(ctx, client, url, order, ""); err != nil {
			continue // the answer was lost; what it said is anybody's guess
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusCreated {
			return nil
		}
		err = fmt.Errorf("the provider answered %d", res.StatusCode)
	}
	return err
}

// NewTransport sends a request again if it has a key. The budget is for a bad day of the provider: by default each host has 10
// attempts beyond the first, and then one for each 10 requests that succeed.
func NewTransport(next http.RoundTripper) http.RoundTripper {
	return retryhttp.New(next, &retryhttp.Options{Retry: retry.Options{
		Attempts: tries, BaseDelay: time.Millisecond, Budget: retry.NewBudget(1, 1000),
	}})
}

// Ours gives the request the order's own key, and leaves the rest to the transport. Without a key the outcome would be unknown
// after the first 502, and so it says.
func Ours(ctx context.Context, client *http.Client, url, order, key string) error {
	res, err := post(ctx, client, url, order, key)
	if err == nil {
		defer func() { _ = res.Body.Close() }()
		err = retryhttp.ErrorOf(res)
	}
	if err != nil && holdfast.OutcomeOf(err) == holdfast.Unknown {
		return fmt.Errorf("order %s may be charged: ask again with its key: %w", order, err)
	}
	return err
}

func post(ctx context.Context, client *http.Client, url, order, key string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(order))
	if err != nil {
		return nil, err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return client.Do(r)
}
