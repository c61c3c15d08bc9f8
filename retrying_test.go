package holdfast_test

import (
	"context"
	"testing"

	holdfast "github.com/holdfast-go/holdfast"
)

func TestARetryMarkIsSeenBelowIt(t *testing.T) {
	t.Parallel()
	ctx := holdfast.WithCorrelationID(t.Context(), "c")
	if holdfast.Retrying(ctx) {
		t.Error("nobody retries")
	}
	marked, cancel := context.WithCancel(&holdfast.RetryMark{Context: ctx})
	defer cancel()
	if !holdfast.Retrying(marked) || !holdfast.Retrying(context.WithoutCancel(marked)) {
		t.Error("the mark is not seen")
	}
	if holdfast.CorrelationID(marked) != "c" {
		t.Error("the mark hides what is around it")
	}
}
