package retryhttp

import "github.com/holdfast-go/holdfast/retry"

// Options are the settings of a [Transport]. The zero value is ready to use.
type Options struct {
	// Breaker gives each host a circuit breaker of its own. Default: nil, none.
	Breaker *retry.BreakerOptions
	// CorrelationHeader is the header that carries the correlation ID of the context, unless the request has that header or
	// the ID is not fit for one. "-" sends none. Default: X-Correlation-ID.
	CorrelationHeader string
	// KeyHeader is the header by which the server knows a repetition. Default: Idempotency-Key.
	KeyHeader string
	// MaxBody is how many bytes are kept, of a request body without GetBody, as they are sent. A longer body is sent once.
	// Below 0 keeps none. Default: 64 KiB.
	MaxBody int
	// MaxDrain is how many bytes of a failed response are read, so that its connection can be used again. That of a longer one
	// is closed. Default: 64 KiB.
	MaxDrain int64
	// Retry says how often and when, for all hosts. AttemptTimeout bounds the wait for the header of a response, not the
	// reading of its body. Classify is given a [*StatusError], or an error of the transport below. Name is by default the host,
	// and Budget by default one for each host: 10 retries, and one for each 10 requests that succeed.
	Retry retry.Options
}

const (
	correlationHeader = "X-Correlation-Id"
	keyHeader         = "Idempotency-Key"
	kept              = 64 << 10

	budgetRatio = 0.1
	budgetBurst = 10
)

func (o *Options) fill() {
	if o.CorrelationHeader == "" {
		o.CorrelationHeader = correlationHeader
	}
	if o.KeyHeader == "" {
		o.KeyHeader = keyHeader
	}
	if o.MaxBody == 0 {
		o.MaxBody = kept
	}
	if o.MaxDrain <= 0 {
		o.MaxDrain = kept
	}
	if o.Retry.Classify == nil {
		o.Retry.Classify = retry.Classify
	}
}
