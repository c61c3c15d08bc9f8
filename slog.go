package holdfast

import (
	"context"
	"log/slog"
)

// SlogObserver returns an [Observer] that logs each event to l: at level Info, or Warn where the event carries an
// error. Attributes that are zero are left out. The key is the digest that [Event.Key] describes.
func SlogObserver(l *slog.Logger) Observer {
	return ObserverFunc(func(ctx context.Context, e Event) {
		level := slog.LevelInfo
		if e.Err != nil {
			level = slog.LevelWarn
		}
		if !l.Enabled(ctx, level) {
			return
		}
		l.LogAttrs(ctx, level, string(e.Kind), e.attrs()...)
	})
}

func (e Event) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 8)
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	text("name", e.Name)
	text("key", e.Key)
	text("correlation_id", e.CorrelationID)
	if e.Attempt != 0 {
		attrs = append(attrs, slog.Int("attempt", e.Attempt))
	}
	if e.Count != 0 {
		attrs = append(attrs, slog.Int64("count", e.Count))
	}
	if e.Elapsed != 0 {
		attrs = append(attrs, slog.Duration("elapsed", e.Elapsed))
	}
	if e.Delay != 0 {
		attrs = append(attrs, slog.Duration("delay", e.Delay))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	return attrs
}
