//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTheCodeOfTheCommandIsReturned(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 1} {
		if code, err := command(t.Context(), os.Environ(), []string{"sh", "-c", script}); code != want || err != nil {
			t.Errorf("%s: got %d, %v, want %d", script, code, err, want)
		}
	}
	if code, err := command(t.Context(), os.Environ(), []string{"/there/is/no/such"}); code == 0 || err == nil {
		t.Errorf("a missing command gave %d, %v", code, err)
	}
}

func TestTheCommandSeesTheEnvironment(t *testing.T) {
	t.Parallel()
	script := `test "$HOLDFAST_TEST_POSTGRES" = postgres://here`
	if code, err := command(t.Context(), append(os.Environ(), "HOLDFAST_TEST_POSTGRES=postgres://here"), []string{"sh", "-c", script}); code != 0 || err != nil {
		t.Errorf("got %d, %v", code, err)
	}
}

// The shell does not pass the signal on: without a process group its child would live.
func TestASignalEndsTheGrandchildrenToo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type result struct {
		code int
		err  error
	}
	done := make(chan result, 1)
	go func() {
		script := `sleep 300 & echo $! > "$0.new" && mv "$0.new" "$0"; wait`
		code, err := command(ctx, os.Environ(), []string{"sh", "-c", script, file})
		done <- result{code, err}
	}()
	var pid int
	until(t, "the grandchild runs", func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	cancel()
	if r := <-done; r.code == 0 || !errors.Is(r.err, context.Canceled) {
		t.Errorf("got %d, %v", r.code, r.err)
	}
	until(t, "the grandchild has ended", func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // an orphan may wait to be reaped
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && strings.Contains(string(text), ") Z ")
	})
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-ticker.C
	}
}
