package wire

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// An alarm wakes a goroutine at a time. It is a timer of the kernel that the poller of the Go runtime waits for, since the
// runtime's own timers are late by up to a millisecond in an idle process, which is as long as the delays asked for here.
type alarm struct {
	file *os.File
	fd   uintptr
}

const (
	clockMonotonic = 1
	timerFlags     = syscall.O_NONBLOCK | syscall.O_CLOEXEC
)

func newAlarm() (*alarm, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, timerFlags, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	return &alarm{file: os.NewFile(fd, "timer"), fd: fd}, nil
}

// until waits until a time.
func (a *alarm) until(due time.Time) error {
	left := time.Until(due)
	if left <= 0 {
		return nil
	}
	spec := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(left))} // once
	_, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, a.fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("timerfd_settime", errno)
	}
	var expirations [8]byte
	_, err := a.file.Read(expirations[:])
	return err
}

func (a *alarm) close() { _ = a.file.Close() }
