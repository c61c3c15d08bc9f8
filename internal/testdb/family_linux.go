package testdb

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killFamily kills a process and its children with SIGKILL and waits until the children are gone. PostgreSQL's backends
// are children in sessions of their own: without this they would go on to serve their clients for a moment.
func killFamily(parent *os.Process) error {
	if err := parent.Signal(syscall.SIGSTOP); err != nil { // no new children from here on
		return err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent.Pid, parent.Pid))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := parent.Kill(); err != nil {
		return err
	}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		if err := killAndWait(pid); err != nil {
			return err
		}
	}
	return nil
}

// killAndWait kills an orphan, whom somebody else reaps, and polls until it is gone.
func killAndWait(pid int) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(startTimeout)
	for {
		err := syscall.Kill(pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) || zombie(pid) {
			return nil
		}
		if err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("testdb: process %d does not die", pid)
		}
		<-ticker.C
	}
}

// zombie reports whether a process has ended and waits to be reaped. Its sockets are closed.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "Z")
}
