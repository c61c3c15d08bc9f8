//go:build !linux

package testdb

import "os/exec"

// startBound starts cmd and closes exited when it has ended. Here a server outlives a test process that is killed.
func startBound(cmd *exec.Cmd, exited chan<- struct{}) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	return nil
}
