package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	holdfast "github.com/holdfast-go/holdfast"
)

type stated holdfast.Outcome

func (s stated) Error() string             { return "stated" }
func (s stated) Outcome() holdfast.Outcome { return holdfast.Outcome(s) }

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want holdfast.Outcome
	}{
		{nil, holdfast.Applied},
		{errors.New("plain"), holdfast.Unknown},
		{context.DeadlineExceeded, holdfast.Unknown},
		{stated(holdfast.NotApplied), holdfast.NotApplied},
		{fmt.Errorf("wrapped: %w", stated(holdfast.NotApplied)), holdfast.NotApplied},
		{errors.Join(errors.New("plain"), stated(holdfast.Applied)), holdfast.Applied},
		{fmt.Errorf("hidden: %s", stated(holdfast.NotApplied).Error()), holdfast.Unknown},
	} {
		if got := holdfast.OutcomeOf(c.err); got != c.want {
			t.Errorf("OutcomeOf(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	if got := fmt.Sprint(holdfast.Applied, holdfast.NotApplied, holdfast.Unknown, holdfast.Outcome(9)); got != "applied not applied unknown unknown" {
		t.Errorf("got %q", got)
	}
}

func TestObserveAddsTheCorrelationID(t *testing.T) {
	t.Parallel()
	holdfast.Observe(t.Context(), nil, holdfast.Event{Kind: "x"}) // silent
	var got holdfast.Event
	o := holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) { got = e })
	holdfast.Observe(holdfast.WithCorrelationID(t.Context(), "req-7"), o, holdfast.Event{Kind: "idem.replayed"})
	if got.CorrelationID != "req-7" || got.Kind != "idem.replayed" {
		t.Errorf("got %+v", got)
	}
	if id := holdfast.CorrelationID(t.Context()); id != "" {
		t.Errorf("an ID from nowhere: %q", id)
	}
}

func TestSlogObserver(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	o := holdfast.SlogObserver(slog.New(slog.NewTextHandler(&text, nil)))
	o.Observe(t.Context(), holdfast.Event{Kind: "idem.replayed", Name: "charge", Key: "ab12", CorrelationID: "req", Attempt: 2, Count: 3, Elapsed: 5, Delay: 7})
	o.Observe(t.Context(), holdfast.Event{Kind: "idem.unknown", Err: errors.New("cut")})
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %q", text.String())
	}
	for _, part := range []string{"level=INFO", "msg=idem.replayed", "name=charge", "key=ab12", "correlation_id=req", "attempt=2", "count=3", "elapsed=5ns", "delay=7ns"} {
		if !strings.Contains(lines[0], part) {
			t.Errorf("%q is not in %q", part, lines[0])
		}
	}
	if !strings.Contains(lines[1], "level=WARN") || !strings.Contains(lines[1], "error=cut") || strings.Contains(lines[1], "name=") {
		t.Errorf("got %q", lines[1])
	}
}
