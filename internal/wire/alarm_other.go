//go:build !linux

package wire

import "time"

// An alarm wakes a goroutine at a time, as late as the timers of the Go runtime are.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

func (*alarm) until(due time.Time) error {
	time.Sleep(time.Until(due))
	return nil
}

func (*alarm) close() {}
