package testdb

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const claimEnv = "HOLDFAST_TESTDB_CLAIM"

// TestClaimAndDie is the process that dies, for the test below.
func TestClaimAndDie(t *testing.T) {
	dir := os.Getenv(claimEnv)
	if dir == "" {
		return
	}
	if err := claim(dir); err != nil {
		t.Fatal(err)
	}
	if self, err := os.FindProcess(os.Getpid()); err != nil || self.Kill() != nil {
		t.Fatal("it lives")
	}
	select {}
}

func TestFoldersOfKilledProcessesAreRemoved(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	folder := func(name string) string {
		dir := filepath.Join(parent, name)
		if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	ours, theirs, other := folder(folderPrefix+"ours"), folder(folderPrefix+"theirs"), folder(folderPrefix+"unclaimed")
	if err := claim(ours); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClaimAndDie$")
	cmd.Env = append(os.Environ(), claimEnv+"="+theirs)
	if out, err := cmd.CombinedOutput(); err == nil || len(out) > 0 {
		t.Fatalf("it was to be killed: %v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(theirs, ownerFile)); err != nil {
		t.Fatal(err)
	}
	sweep(parent)
	for dir, want := range map[string]bool{ours: true, theirs: false, other: true} {
		if _, err := os.Stat(filepath.Join(dir, "data")); (err == nil) != want {
			t.Errorf("%s: %v", filepath.Base(dir), err)
		}
	}
}
