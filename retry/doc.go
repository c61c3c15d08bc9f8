// Package retry runs an operation again where that does no harm.
//
//	policy := retry.New(&retry.Options{Name: "ledger", Budget: retry.NewBudget(0.1, 10)}) // one for each target, shared
//
//	balance, err := retry.Do(ctx, policy, retry.Read, func(ctx context.Context, _ retry.Attempt) (int64, error) { … })
//
//	err = retry.Run(ctx, policy, retry.Keyed(order.ID), func(ctx context.Context, a retry.Attempt) error {
//		return provider.Charge(ctx, a.Key, order.Amount) // the same key each time
//	})
//
// Most damage by retries is done by loops around what may not be repeated. So the operation states why it may be: it is a
// [Read], it is [Idempotent], or its other side knows a repetition by a key, [Keyed]. [Unsafe] is run again only after a proof
// that the last attempt had no effect, and [Once], the zero value, never.
//
// # Guarantees
//
//   - An operation whose effect is unknown is run again only under a key or idempotence, and never reported as one that did not
//     happen: holdfast.OutcomeOf tells what is known, over all attempts.
//   - A key is the same in every attempt.
//   - A delay is random between 0 and a bound that doubles with each attempt (full jitter, as in Exponential Backoff And Jitter,
//     https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/), and never above Options.MaxDelay, whatever the
//     other side asks for, at any attempt number.
//   - Do does not sleep in vain: when the next attempt could not take place, since the deadline of the context, Options.Elapsed,
//     the budget or the breaker stands against it, Do returns at once.
//   - The error has both the reason for stopping and the last error: errors.Is and errors.As find either.
//   - Calls within an attempt of another call try once, unless Options.Nested says otherwise: attempts do not multiply.
//   - A policy is immutable. A [Budget] and a [Breaker] are shared by all policies that are given them.
//   - The breaker learns nothing from a caller who cancels, and a probe that hangs gives way to another after
//     BreakerOptions.ProbeTimeout.
//
// # Failure modes
//
// [Classify] reads an error: what states its outcome is believed; a dial that failed is not applied; anything else is unknown and
// may pass. What knows more gives Options.Classify, or wraps its errors with [Permanent] and [After].
//
// A function that ignores its context runs on after Options.AttemptTimeout. One of several steps that returns the proof of one
// step, that nothing happened, proves too much.
//
// What breaks the guarantees: calling something idempotent that is not; a key that is made anew for each call.
//
// # Storage
//
// None. A call allocates the mark of the active retry; with Options.Nested nothing.
//
// # Settings
//
// Three attempts, 100 ms doubled up to 5 s. Zero values are defaults; see [Options]. Options.BackOff takes the schedules of
// github.com/cenkalti/backoff/v4: a function that makes one, since they hold state.
//
// # When not to use it
//
// For transactions, which [github.com/holdfast-go/holdfast/tx.DB.Do] runs again as a whole; and for HTTP, where package retryhttp
// knows what was sent. Not around a loop that tries again by itself.
package retry
