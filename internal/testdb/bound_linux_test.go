package testdb

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

const parentEnv = "HOLDFAST_TESTDB_PARENT"

// TestStartAndWait is the process that starts servers and is killed, for the test below.
func TestStartAndWait(t *testing.T) {
	if os.Getenv(parentEnv) == "" {
		return
	}
	for _, s := range []*Server{PostgresServer(t), RedisServer(t)} {
		fmt.Printf("%s %d %s\n", parentEnv, s.process.Pid, s.dir)
	}
	select {}
}

func TestServersDieWithTheProcessThatStartedThem(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStartAndWait$")
	cmd.Env = append(os.Environ(), parentEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := map[int]string{}
	for lines := bufio.NewScanner(out); len(pids) < 2 && lines.Scan(); {
		var pid int
		var dir string
		if _, err := fmt.Sscanf(lines.Text(), parentEnv+" %d %s", &pid, &dir); err == nil {
			pids[pid] = dir
		}
	}
	for pid := range pids {
		if ended(pid) {
			t.Errorf("process %d ended early", pid)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if len(pids) != 2 {
		t.Fatalf("started: %v", pids)
	}
	for pid, dir := range pids {
		eventually(t, fmt.Sprintf("server %d has ended", pid), func() bool { return ended(pid) })
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

// The kernel ties a server to the thread that forked it, and a goroutine that ends while locked takes its thread along.
func TestServersOutliveTheThreadThatAskedForThem(t *testing.T) {
	t.Parallel()
	var s *Server
	var thread int
	lock := func() {
		runtime.LockOSThread()
		thread = syscall.Gettid()
	}
	inGoroutine(func() {
		if lock(); thread != os.Getpid() {
			s = RedisServer(t)
		}
	})
	if thread == os.Getpid() { // the first thread never ends, but from here on it runs nothing
		inGoroutine(func() { lock(); s = RedisServer(t) })
	}
	if s == nil {
		return // it has said why
	}
	eventually(t, "the thread has ended", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
		return errors.Is(err, os.ErrNotExist)
	})
	if err := s.ping(t.Context()); err != nil || !s.running() {
		t.Errorf("the server went with it: %v", err)
	}
}

func inGoroutine(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// ended reports whether a process is gone, or only waits to be reaped.
func ended(pid int) bool {
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(startTimeout); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
