//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// group puts the command into a process group of its own, so that a signal reaches all that it started: make and go do
// not pass a SIGTERM on to the test binaries, which would go on against servers that are gone. Such a group cannot read
// the terminal, so the command has no standard input.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}
