package redisflight_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// A load that asks for its own key is told so, also when its flight is not the key's any more and only the lease knows.
func TestALoadThatAsksForItsOwnKey(t *testing.T) {
	t.Parallel()
	for name, forgotten := range map[string]bool{"its own flight": false, "a flight that was refused before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			loads, told := 0, error(nil)
			var c *redisflight.Cache[string]
			c = f.cache(f.client, func(ctx context.Context, key string) (string, error) {
				loads++
				if forgotten && loads == 1 { // the fill is refused, and the next load is of a flight that nobody joins
					return "", f.client.Del(ctx, f.keys()...).Err()
				}
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				_, told = c.Get(ctx, key)
				return "value", nil
			}, nil)
			want(t, "value")(c.Get(t.Context(), "key"))
			if !errors.Is(told, singleflight.ErrNested) {
				t.Errorf("the load was told %v", told)
			}
			if n := f.count(redisflight.EventRefused); forgotten != (n == 1) {
				t.Errorf("%d refused", n)
			}
		})
	}
}
