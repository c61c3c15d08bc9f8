package rediscounter

import (
	"context"
	"time"
)

// KeyOf returns where a counter is.
func (c *Counters) KeyOf(name string) string { return c.key(name) }

// EntryOf returns where an operation is remembered.
func (c *Counters) EntryOf(name, operation string) (string, time.Duration) {
	return c.entry(c.key(name), operation)
}

// Read makes the result of what a script replied.
func (c *Counters) Read(ctx context.Context, reply []any) (int64, error) {
	return c.read(ctx, "take", "name", reply)
}
