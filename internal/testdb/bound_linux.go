package testdb

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startBound starts cmd so that it dies with this process, and closes exited when it has ended. The kernel ties the two
// by the thread that forked, so that thread lives as long as the server.
func startBound(cmd *exec.Cmd, exited chan<- struct{}) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true // an interrupt from the terminal is for the tests, which then stop the server
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(exited)
		}
	}()
	return <-started
}
