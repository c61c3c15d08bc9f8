//go:build unix

package main

import (
	"bufio"
	"bytes"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testdb"
)

const launchEnv = "HOLDFAST_SERVICES_LAUNCH"

// TestMain makes this binary the launcher itself, for the tests that start it as a process.
func TestMain(m *testing.M) {
	if os.Getenv(launchEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

// launcher is the launcher as a process, on a machine where no variable names a server.
func launcher(t *testing.T, script string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], "--", "sh", "-c", script)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, testdb.PostgresEnv+"=") && !strings.HasPrefix(v, testdb.RedisEnv+"=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	// A folder of its own shows what is left behind. Another user runs PostgreSQL in it.
	temp := t.TempDir()
	for dir := temp; strings.HasPrefix(dir, os.TempDir()+"/"); dir = dir[:strings.LastIndex(dir, "/")] {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
			t.Fatal(err)
		}
	}
	cmd.Env = append(cmd.Env, launchEnv+"=1", "TMPDIR="+temp)
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	t.Cleanup(func() {
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return cmd, stderr
}

func answers(t *testing.T, address string) bool {
	t.Helper()
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Host == "" {
		t.Fatalf("%q is no address: %v", address, err)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", u.Host)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

const names = `echo "$HOLDFAST_TEST_POSTGRES"; echo "$HOLDFAST_TEST_REDIS"; `

func TestTheLauncherServesTheCommandAndPassesItsCode(t *testing.T) {
	t.Parallel()
	cmd, stderr := launcher(t, names+"exit 7")
	out, _ := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("code %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "services: postgres: ") || !strings.HasPrefix(lines[1], "services: redis: ") {
		t.Errorf("not one line for each server: %q", lines)
	}
	addresses := strings.Fields(string(out))
	if len(addresses) != 2 {
		t.Fatalf("got %q", out)
	}
	for i, address := range addresses {
		if !strings.Contains(lines[i], address) {
			t.Errorf("%s is not in %q", address, lines[i])
		}
		if answers(t, address) {
			t.Errorf("%s is left running", address)
		}
	}
}

func TestSignalsStopTheServers(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd, stderr := launcher(t, names+"sleep 300")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var addresses []string
		for lines := bufio.NewScanner(out); len(addresses) < 2 && lines.Scan(); {
			addresses = append(addresses, lines.Text())
		}
		for _, address := range addresses {
			if !answers(t, address) {
				t.Errorf("%s does not answer while the command runs", address)
			}
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 1 || len(addresses) != 2 {
			t.Fatalf("%v: code %d, served %q: %s", signal, code, addresses, stderr)
		}
		for _, address := range addresses {
			if answers(t, address) {
				t.Errorf("%v: %s is left running", signal, address)
			}
		}
	}
}

func TestWithoutACommandTheUsageIsTold(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "--")
	cmd.Env = append(os.Environ(), launchEnv+"=1")
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.HasPrefix(string(out), "usage: ") {
		t.Errorf("code %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}
