package deptest_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/deptest"
)

func list(t *testing.T) []deptest.Package {
	t.Helper()
	visit(t)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps,Doc", deptest.Module+"/...")
	cmd.Env = append(os.Environ(), "GOWORK=off") // the nested modules may import what they like
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var packages []deptest.Package
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var p deptest.Package
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if len(packages) < 8 {
		t.Fatalf("only %d packages were listed", len(packages))
	}
	return packages
}

// visit looks at every file of the module. The go command remembers a test that passed until something changes that the
// test itself looked at, and what a `go list` looks at does not count: a broken ban would pass as "cached".
func visit(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin") {
			return fs.SkipDir
		}
		if err == nil {
			_, err = os.Stat(path)
		}
		if errors.Is(err, fs.ErrNotExist) { // another program's, and gone again
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNoBanIsBroken(t *testing.T) {
	t.Parallel()
	for _, line := range deptest.Check(list(t), deptest.Bans) {
		t.Error(line)
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// Each of these is what a ban is there for; a ban that lets its own pass is no ban.
func TestPlantedImportsAreReported(t *testing.T) {
	t.Parallel()
	const m = deptest.Module
	for _, c := range []struct{ in, path, reason string }{
		{m, "github.com/google/uuid", "vocabulary"},
		{m, m + "/tx", "vocabulary"},
		{m + "/idem", "github.com/jackc/pgx/v5", "only tx/pgxtx"},
		{m + "/tx/sqltx", "github.com/jackc/pgx/v5/stdlib", "only tx/pgxtx"},
		{m + "/internal/jitter", "github.com/jackc/pgx/v5", "only tx/pgxtx"},
		{m + "/internal/jitter", "golang.org/x/sync/errgroup", "patterns share"},
		{m + "/internal/jitter", m + "/tx", "patterns share"},
		{m + "/tx/pgxtx", "github.com/google/uuid", "nothing but pgx"},
		{m + "/tx", m + "/idem", "no pattern"},
		{m + "/tx", "modernc.org/sqlite", "no client library"},
		{m + "/idem", "github.com/redis/go-redis/v9", "only the redis packages"},
		{m + "/idem", m + "/outbox", "independent"},
		{m + "/idem/idemhttp", m + "/retry", "independent"},
		{m + "/idem/idemhttp", "github.com/go-chi/chi/v5", "the standard library has to do"},
		{m + "/saga", m + "/lease/redislease", "independent"},
		{m + "/retry/retryhttp", m + "/tx", "without a database"},
		{m + "/singleflight", m + "/tx", "without a database"},
		{m + "/singleflight", "github.com/redis/go-redis/v9", "only the redis packages"},
		{m + "/singleflight/redisflight", m + "/lease", "independent"},
		{m + "/singleflight/redisflight", m + "/internal/redisproxy", "test servers"},
		{m + "/idem", m + "/internal/testdb", "test servers"},
		{m + "/tx", m + "/internal/fault", "test servers"},
		{m + "/idem", m + "/prove", "test servers"},
		{m + "/prove", m + "/idem", "the kit"},
		{m + "/prove", m + "/tx/sqltx", "the kit"},
		{m + "/prove", m + "/internal/testdb", "the kit"},
		{m + "/internal/wire", "github.com/jackc/pgx/v5", "the kit"},
		{m + "/idem", m + "/tx/pgxtx", "knows none"},
		{m + "/tx/pgxtx", m + "/idem", "no pattern"},
		{m + "/idem", "github.com/google/uuid", "the standard library has to do"},
		{m + "/idem", "golang.org/x/sync/singleflight", "only the singleflight packages"},
		{m + "/lease", "github.com/cenkalti/backoff/v4", "only the retry packages"},
		{m + "/retry", "golang.org/x/sync/errgroup", "only the singleflight packages"},
		{m + "/idem/redisidem", "github.com/google/uuid", "the standard library has to do"},
	} {
		for _, p := range []deptest.Package{
			{ImportPath: c.in, Imports: []string{"context", c.path}},
			{ImportPath: c.in, Imports: []string{m + "/internal/jitter"}, Deps: []string{m + "/internal/jitter", c.path}},
		} {
			broken := deptest.Check([]deptest.Package{p}, deptest.Bans)
			if !slices.ContainsFunc(broken, func(line string) bool {
				return strings.Contains(line, c.reason)
			}) {
				t.Errorf("%s may need %s: %v", c.in, c.path, broken)
			}
		}
	}
	fine := []deptest.Package{
		{ImportPath: m + "/idem", Imports: []string{m, m + "/tx", m + "/internal/jitter", "context"}},
		{ImportPath: m + "/idem/idemhttp", Imports: []string{m + "/idem", m + "/tx", "net/http"}},
		{ImportPath: m + "/tx/pgxtx", Imports: []string{m + "/tx", "github.com/jackc/pgx/v5"}},
		{ImportPath: m + "/idem/redisidem", Imports: []string{m + "/idem", "github.com/redis/go-redis/v9"}},
		{ImportPath: m + "/retry/retryhttp", Imports: []string{m + "/retry"}, Deps: []string{"github.com/cenkalti/backoff/v4"}},
		{ImportPath: m + "/singleflight/redisflight", Imports: []string{"github.com/redis/go-redis/v9", "golang.org/x/sync/singleflight"}},
		{ImportPath: m + "/prove", Imports: []string{m + "/tx", m + "/internal/fault", "net/http/httptest"}, Deps: []string{m + "/internal/wire"}},
		{ImportPath: m + "/idem/idemtest", Imports: []string{m + "/tx/sqltx", "github.com/jackc/pgx/v5"}},
	}
	for _, line := range deptest.Check(fine, deptest.Bans) {
		t.Error(line)
	}
}

// Each direct requirement of the root module is one that every user gets to see.
func TestTheRootModuleRequiresLittle(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"github.com/jackc/pgx/v5", "github.com/redis/go-redis/v9", "github.com/cenkalti/backoff/v4", "golang.org/x/sync",
		"go.uber.org/goleak",
	}
	visit(t)
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", "../../go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if !r.Indirect && !slices.Contains(allowed, r.Path) {
			t.Errorf("the root module requires %s", r.Path)
		}
	}
}
