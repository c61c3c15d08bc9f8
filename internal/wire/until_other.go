//go:build !linux

package wire

import "time"

// until waits. It can be late by as much as the timers of the Go runtime are.
func until(due time.Time) {
	time.Sleep(time.Until(due))
}
