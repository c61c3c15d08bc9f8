package testdb

import (
	"errors"
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
	if _, err := find("no-such-server", "HOLDFAST_NO_SUCH_VARIABLE"); !errors.Is(err, ErrNoBinaries) {
		t.Errorf("got %v", err)
	}
	t.Setenv("HOLDFAST_SOME_BIN", filepath.Join(root, "9.6", "bin"))
	path, err = find("some-server", "HOLDFAST_SOME_BIN", filepath.Join(root, "*", "bin"))
	if err != nil || !strings.Contains(path, "9.6") {
		t.Errorf("the variable does not win: %s, %v", path, err)
	}
	if _, err := find("no-such-server", "HOLDFAST_SOME_BIN"); err == nil || errors.Is(err, ErrNoBinaries) {
		t.Errorf("a wrong variable is not mended by installing: %v", err)
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

// told runs get, which is to fail, and returns what it says.
func told(t *testing.T, get func(testing.TB)) string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		get(f)
	}()
	<-done
	return f.said
}

func TestAMissingServerFailsAndNamesTheFix(t *testing.T) {
	t.Setenv(PostgresBinEnv, t.TempDir())
	t.Setenv(RedisBinEnv, t.TempDir())
	var none *Server
	for _, c := range []struct {
		get   func(testing.TB)
		fixes []string
	}{
		{func(t testing.TB) { postgresKind.share(t, &none) }, []string{"make test", "set " + PostgresEnv, "apt-get install postgresql"}},
		{func(t testing.TB) { redisKind.share(t, &none) }, []string{"make test", "set " + RedisEnv, "apt-get install redis-server"}},
		{func(t testing.TB) { PostgresServer(t) }, []string{"set " + PostgresBinEnv, "apt-get install postgresql"}},
		{func(t testing.TB) { RedisServer(t) }, []string{"set " + RedisBinEnv, "apt-get install redis-server"}},
	} {
		said := told(t, c.get)
		for _, fix := range c.fixes {
			if !strings.Contains(said, fix) {
				t.Errorf("%q is not in %q", fix, said)
			}
		}
	}
	if none != nil {
		t.Error("a server was found all the same")
	}
}

// The other form of address, "host=… dbname=…", could not take the schema as a parameter.
func TestAnAddressThatIsNoURLIsRefused(t *testing.T) {
	t.Setenv(PostgresEnv, "host=127.0.0.1 dbname=holdfast")
	if said := told(t, func(t testing.TB) { Postgres(t) }); !strings.Contains(said, PostgresEnv+" must be of the form postgres://") {
		t.Errorf("got %q", said)
	}
}
