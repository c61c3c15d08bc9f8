// Package retryhttp is an http.RoundTripper that sends a request again only where that does no harm.
//
//	client := &http.Client{Transport: retryhttp.New(nil, nil)}
//
//	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
//	…
//	r.Header.Set("Idempotency-Key", order.ID) // or retryhttp.EnsureKey(r)
//	res, err := client.Do(r)
//
// # Guarantees
//
//   - GET, HEAD, OPTIONS, PUT and DELETE are sent again by their method (RFC 9110, section 9.2.2), POST, PATCH and others only with
//     an Idempotency-Key. Every attempt sends the same key and the same correlation ID.
//   - Without a key, a 5xx or a lost reply comes back at once. [ErrorOf] and holdfast.OutcomeOf say Unknown, and why it was not sent
//     again: "not retried: POST without Idempotency-Key".
//   - Any request is sent again if httptrace proves that nothing of it was sent: no connection was had.
//   - The caller's request is not changed. A body is sent again from GetBody, or from the bytes that were kept, up to
//     Options.MaxBody; a longer one is sent once.
//   - The body of a response can be read for as long as the caller's context allows, also after Options.Retry.AttemptTimeout.
//   - The bodies of failed responses are read within bounds and closed, so that connections are used again. One that net/http
//     unpacks is closed unread.
//   - Retry-After, in both its forms, is heeded up to Options.Retry.MaxDelay.
//   - Nothing is sent while the transaction around the context holds row locks; see holdfast.ExternalCall.
//
// # Failure modes
//
// The last response is returned as it is, also one of failure, as every transport does; [ErrorOf] tells what it means for the
// effect. Without a response the error is a [*retry.Error].
//
// A 4xx is taken for the server's word that it did nothing, except 408, which is often a gateway's, and 409, which can stand for
// the same request under way. After the redirection of a POST, the outcome of a failure is unknown, whatever became of the GET
// that followed. What breaks that: a server that answers 4xx after it has acted, and one that does not heed the key.
//
// The transport of net/http sends a request with a key, or an idempotent one, once more by itself when a connection that it had
// kept dies under it. It has the same key then; budget, breaker and events do not see it.
//
// A reply whose header came is an answer: that its body is cut off is for the caller to see, and no reason to send again.
//
// # Storage
//
// None but the bytes of a body without GetBody, until the call returns.
//
// # Settings
//
// Options.Retry is the policy of all hosts; each host has a budget, and with Options.Breaker a breaker, of its own.
//
// # When not to use it
//
// Around a client that tries again by itself, and for streams whose requests have no end.
package retryhttp
