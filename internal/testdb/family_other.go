//go:build !linux

package testdb

import "os"

// killFamily kills a process with SIGKILL. Here PostgreSQL's backends notice by themselves, a moment later.
func killFamily(parent *os.Process) error { return parent.Kill() }
