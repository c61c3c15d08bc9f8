package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	avast "github.com/avast/retry-go/v4"
	backoff4 "github.com/cenkalti/backoff/v4"
	backoff5 "github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"
	goretry "github.com/sethvargo/go-retry"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

var errPasses = errors.New("it may pass")

// batch is how many calls an operation makes where a call takes nanoseconds.
const batch = 100

// batches makes operations of so many calls.
func batches(variants []variant) []variant {
	for i, v := range variants {
		variants[i].op = func(ctx context.Context, worker int, seq int64) error {
			for range batch {
				if err := v.op(ctx, worker, seq); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return variants
}

// retries are calls that succeed at once. What nested saves is the mark which keeps nested calls from multiplying; a plain call of
// the function is there to take off what the measuring itself costs.
var retries = group{
	name: "retry",
	variants: func(*setup) []variant {
		nested := retry.New(&retry.Options{Nested: true})
		policy := retrypolicy.NewBuilder[any]().Build()
		return batches([]variant{
			{"go-retry Do", func(ctx context.Context, _ int, _ int64) error {
				return goretry.Do(ctx, goretry.WithMaxRetries(3, goretry.NewConstant(time.Millisecond)), succeed)
			}},
			{"retry.Run", func(ctx context.Context, _ int, _ int64) error { return retry.Run(ctx, nil, retry.Idempotent, attempt) }},
			{"retry.Run, nested", func(ctx context.Context, _ int, _ int64) error {
				return retry.Run(ctx, nested, retry.Idempotent, attempt)
			}},
			{"a plain call", func(ctx context.Context, _ int, _ int64) error { return attempt(ctx, retry.Attempt{}) }},
			{"backoff v4 Retry", func(ctx context.Context, _ int, _ int64) error {
				return backoff4.Retry(func() error { return succeed(ctx) }, backoff4.WithContext(backoff4.NewExponentialBackOff(), ctx))
			}},
			{"backoff v5 Retry", func(ctx context.Context, _ int, _ int64) error {
				_, err := backoff5.Retry(ctx, func() (int, error) { return 1, succeed(ctx) })
				return err
			}},
			{"avast retry-go Do", func(ctx context.Context, _ int, _ int64) error {
				return avast.Do(func() error { return succeed(ctx) }, avast.Context(ctx))
			}},
			{"failsafe-go Run", func(ctx context.Context, _ int, _ int64) error {
				return failsafe.With(policy).WithContext(ctx).Run(func() error { return succeed(ctx) })
			}},
		})
	},
	bars:  []bar{{at: 1, reference: 0, direct: 0.33}},
	local: true,
	calls: batch,
}

func succeed(context.Context) error                { return nil }
func attempt(context.Context, retry.Attempt) error { return nil }

// failures are calls that fail three times, with no delay between.
var failures = group{
	name: "retry-failing",
	variants: func(*setup) []variant {
		ours := retry.New(&retry.Options{Attempts: 4, BackOff: func() backoff4.BackOff { return &backoff4.ZeroBackOff{} }})
		policy := retrypolicy.NewBuilder[any]().WithMaxRetries(3).Build()
		return batches([]variant{
			{"backoff v4 Retry", func(context.Context, int, int64) error { return backoff4.Retry(thrice(), &backoff4.ZeroBackOff{}) }},
			{"retry.Run", func(ctx context.Context, _ int, _ int64) error {
				fn := thrice()
				return retry.Run(ctx, ours, retry.Idempotent, func(context.Context, retry.Attempt) error { return fn() })
			}},
			{"backoff v5 Retry", func(ctx context.Context, _ int, _ int64) error {
				fn := thrice()
				_, err := backoff5.Retry(ctx, func() (int, error) { return 1, fn() }, backoff5.WithBackOff(&backoff5.ZeroBackOff{}))
				return err
			}},
			{"failsafe-go Run", func(ctx context.Context, _ int, _ int64) error {
				return failsafe.With(policy).WithContext(ctx).Run(thrice())
			}},
		})
	},
	bars:  []bar{{at: 1, reference: 0, direct: 10}},
	local: true,
	calls: batch,
}

// thrice returns a function that fails three times.
func thrice() func() error {
	n := 0
	return func() error {
		if n++; n <= 3 {
			return errPasses
		}
		return nil
	}
}

// clients are HTTP clients over a transport that answers at once: what is measured is what the retries cost when none is needed.
var clients = group{
	name: "retryhttp",
	variants: func(*setup) []variant {
		quiet := retryablehttp.NewClient()
		quiet.HTTPClient.Transport, quiet.Logger = instant{}, nil
		return batches([]variant{
			{"net/http", get(&http.Client{Transport: instant{}})},
			{"retryhttp", get(&http.Client{Transport: retryhttp.New(instant{}, nil)})},
			{"go-retryablehttp", get(quiet.StandardClient())},
		})
	},
	local: true,
	calls: batch,
}

type instant struct{}

func (instant) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

func get(client *http.Client) func(context.Context, int, int64) error {
	return func(ctx context.Context, _ int, _ int64) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
		if err != nil {
			return err
		}
		res, err := client.Do(r)
		if err != nil {
			return err
		}
		return res.Body.Close()
	}
}
