package wire

import (
	"syscall"
	"time"
)

// slack is how late the kernel wakes a thread.
const slack = 60 * time.Microsecond

// until waits in the kernel. The timers of the Go runtime are late by up to a millisecond when the process is idle, which
// is as long as the delays that are asked for here.
func until(due time.Time) {
	for {
		left := time.Until(due) - slack
		if left <= 0 {
			return
		}
		ts := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&ts, nil) // a signal ends it early
	}
}
