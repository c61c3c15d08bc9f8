package main

import (
	"context"
	"testing"
)

func TestWhatHoldsAndWhatDoesNot(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context) (naive, ours int, err error){
		"unlink": unlink, "fill": fill, "capture": capture,
	} {
		if naive, ours, err := run(t.Context()); naive != 1 || ours != 0 || err != nil {
			t.Errorf("%s: naive %d, ours %d, %v", name, naive, ours, err)
		}
	}
}
