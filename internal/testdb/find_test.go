package testdb

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestTheNewestBinaryIsTaken(t *testing.T) {
	root := t.TempDir()
	for _, v := range []string{"9.6", "13", "17", "17.2"} {
		dir := filepath.Join(root, v, "bin")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "some-server"), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path, err := find("some-server", "HOLDFAST_NO_SUCH_VARIABLE", filepath.Join(root, "*", "bin"))
	if want := filepath.Join(root, "17.2", "bin", "some-server"); err != nil || path != want {
		t.Errorf("got %s, %v", path, err)
	}
	t.Setenv("HOLDFAST_SOME_BIN", filepath.Join(root, "9.6", "bin"))
	path, err = find("some-server", "HOLDFAST_SOME_BIN", filepath.Join(root, "*", "bin"))
	if err != nil || !strings.Contains(path, "9.6") {
		t.Errorf("the variable does not win: %s, %v", path, err)
	}
}

// failing records what a test that lacks a server is told.
type failing struct {
	testing.TB
	said string
}

func (*failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAMissingServerFailsAndNamesTheFix(t *testing.T) {
	t.Setenv(PostgresBinEnv, t.TempDir())
	t.Setenv(RedisBinEnv, t.TempDir())
	for env, get := range map[string]func(testing.TB) *Server{PostgresEnv: PostgresServer, RedisEnv: RedisServer} {
		f := &failing{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			get(f)
		}()
		<-done
		for _, fix := range []string{"make test", "set " + env, "apt-get install"} {
			if !strings.Contains(f.said, fix) {
				t.Errorf("%q is not in %q", fix, f.said)
			}
		}
	}
}
