//go:build unix

package story

import (
	"os"
	"syscall"
)

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func wake(p *os.Process) error    { return p.Signal(syscall.SIGCONT) }
