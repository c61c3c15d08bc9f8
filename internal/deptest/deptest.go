// Package deptest states which packages may not be imported where, and why. Independence is a claim; here it is a test.
// A ban holds for what a package imports and for all that this brings along: a user gets both.
package deptest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Module is the path of the root module.
const Module = "github.com/holdfast-go/holdfast"

// A Package is what `go list -json` says of one, its tests left out.
type Package struct {
	ImportPath string
	Imports    []string
	Deps       []string // Imports, and theirs, and so on
	Doc        string
}

// name is the path below the module, "." for the root package.
func (p Package) name() string {
	if p.ImportPath == Module {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, Module+"/")
}

// A Ban forbids packages to import others.
type Ban struct {
	// Reason is why.
	Reason string
	// In tells which packages the ban is for, by their path below the module.
	In func(name string) bool
	// Import tells which imports it forbids, direct or not, by their full path.
	Import func(path string) bool
}

// patterns are the packages that stand for one pattern each.
var patterns = []string{
	"idem", "optimistic", "pessimistic", "lease", "counter", "outbox", "saga", "retry", "singleflight",
}

// clients are the modules of others that patterns may need, by a part that the packages' paths must have. The others of a
// line are what its first brings along.
var clients = map[string][]string{
	"retry":        {"github.com/cenkalti/backoff/v4"},
	"singleflight": {"golang.org/x/sync"},
	"redis": {
		"github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "github.com/dgryski/go-rendezvous", "go.uber.org/atomic",
		"golang.org/x/sys/cpu", // what the client asks of the processor
	},
}

// Bans are the rules of the house.
var Bans = append([]Ban{
	{
		Reason: "the root package is vocabulary: everybody imports it, so it imports the standard library alone",
		In:     func(name string) bool { return name == "." },
		Import: func(path string) bool { return !standard(path) },
	},
	{
		Reason: "only tx/pgxtx is for pgx: who uses database/sql must not get it",
		In: func(name string) bool {
			return name != "tx/pgxtx" && !under(name, "internal/testdb") && !under(name, "internal/wire") && name != "internal/rediscluster" && !suite(name)
		},
		Import: func(path string) bool { return strings.HasPrefix(path, "github.com/jackc/") },
	},
	{
		Reason: "only the redis packages are for Redis",
		In:     func(name string) bool { return !strings.Contains(name, "redis") },
		Import: func(path string) bool { return strings.HasPrefix(path, "github.com/redis/") },
	},
	{
		Reason: "the contract knows no client library and no pattern",
		In:     func(name string) bool { return name == "tx" || name == "tx/sqltx" || name == "tx/txtest" },
		Import: func(path string) bool { return !standard(path) && !own(path, ".", "tx", "internal") },
	},
	{
		Reason: "a pattern works over every adapter, so it knows none",
		In:     func(name string) bool { return pattern(name) && !suite(name) },
		Import: func(path string) bool { return own(path, "tx/pgxtx", "tx/sqltx", "tx/txtest") },
	},
	{
		Reason: "what patterns share comes with each of them: the standard library has to do",
		In:     func(name string) bool { return under(name, "internal") && !proof(name) && !redisKit(name) },
		Import: func(path string) bool { return !standard(path) && !own(path, "internal") },
	},
	{
		Reason: "what the redis packages share knows their client, and nothing else",
		In:     redisKit,
		Import: func(path string) bool {
			return !standard(path) && !own(path, "internal") && !inside(path, clients["redis"])
		},
	},
	{
		Reason: "who takes this adapter gets nothing but pgx and what pgx needs",
		In:     func(name string) bool { return name == "tx/pgxtx" },
		Import: func(path string) bool {
			return !standard(path) && !under(path, Module) && !strings.HasPrefix(path, "github.com/jackc/") &&
				!inside(path, []string{"golang.org/x/sync", "golang.org/x/text"})
		},
	},
	{
		Reason: "adapters know no pattern",
		In:     func(name string) bool { return name == "tx/pgxtx" },
		Import: func(path string) bool { return own(path, patterns...) },
	},
	{
		Reason: "retry and singleflight do without a database",
		In:     func(name string) bool { return under(name, "retry") || under(name, "singleflight") },
		Import: func(path string) bool { return own(path, "tx") },
	},
	{
		Reason: "production code must not drag test servers along",
		In:     func(name string) bool { return !under(name, "internal") && name != "prove" },
		Import: func(path string) bool {
			return own(path, "internal/testdb", "internal/wire", "internal/deptest", "internal/fault", "internal/rediscluster", "internal/redisproxy", "prove")
		},
	},
	{
		Reason: "the kit is for every handler, so it comes with no client library, no pattern and no server",
		In:     func(name string) bool { return name == "prove" || name == "internal/fault" || name == "internal/wire" },
		Import: func(path string) bool {
			return !standard(path) && !own(path, ".", "tx", "prove", "internal") || own(path, "tx/pgxtx", "tx/sqltx", "internal/testdb")
		},
	},
}, append(independent(), frugal()...)...)

// independent keeps the patterns apart.
func independent() []Ban {
	var bans []Ban
	for _, pattern := range patterns {
		others := slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return p == pattern })
		bans = append(bans, Ban{
			Reason: "patterns are independent: who imports " + pattern + " gets no other",
			In:     func(name string) bool { return under(name, pattern) },
			Import: func(path string) bool { return own(path, others...) },
		})
	}
	return bans
}

// frugal keeps modules of others out of the patterns, but for the clients, each where it belongs.
func frugal() []Ban {
	var known []string
	var bans []Ban
	for _, part := range slices.Sorted(maps.Keys(clients)) {
		modules := clients[part]
		known = append(known, modules...)
		bans = append(bans, Ban{
			Reason: "only the " + part + " packages may need it",
			In:     func(name string) bool { return pattern(name) && !suite(name) && !strings.Contains(name, part) },
			Import: func(path string) bool { return inside(path, modules) },
		})
	}
	return append(bans, Ban{
		Reason: "what a pattern needs, its users get: the standard library has to do",
		In:     func(name string) bool { return pattern(name) && !suite(name) },
		Import: func(path string) bool { return !standard(path) && !under(path, Module) && !inside(path, known) },
	})
}

// Check returns a line for each package and ban that it breaks, with the first import that does.
func Check(packages []Package, bans []Ban) []string {
	var broken []string
	for _, p := range packages {
		for _, ban := range bans {
			if !ban.In(p.name()) {
				continue
			}
			if i := slices.IndexFunc(p.Imports, ban.Import); i >= 0 {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", p.ImportPath, p.Imports[i], ban.Reason))
			} else if i := slices.IndexFunc(p.Deps, ban.Import); i >= 0 {
				broken = append(broken, fmt.Sprintf("%s brings %s along: %s", p.ImportPath, p.Deps[i], ban.Reason))
			}
		}
	}
	return broken
}

// pattern tells the packages of patterns.
func pattern(name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return under(name, p) })
}

// suite tells the conformance suites and what else only tests import.
func suite(name string) bool { return strings.HasSuffix(name, "test") }

// proof tells the internal packages that only tests use.
func proof(name string) bool {
	return slices.ContainsFunc([]string{"deptest", "fault", "rediscluster", "redisproxy", "testdb", "wire"}, func(p string) bool { return under(name, "internal/"+p) })
}

// redisKit tells the internal packages that the redis packages share.
func redisKit(name string) bool {
	return name == "internal/redisnodes" || name == "internal/redisscript"
}

// standard tells the standard library by the first part of the path, which has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// own reports whether path is one of the module's packages, or below one.
func own(path string, names ...string) bool {
	for _, name := range names {
		if name == "." && path == Module || under(path, Module+"/"+name) {
			return true
		}
	}
	return false
}

// inside reports whether path is a package of one of the modules.
func inside(path string, modules []string) bool {
	return slices.ContainsFunc(modules, func(module string) bool { return under(path, module) })
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
