// Package deptest states which packages may not be imported where, and why. Independence is a claim; here it is a test.
package deptest

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the path of the root module.
const Module = "github.com/holdfast-go/holdfast"

// A Package is what `go list -json` says of one.
type Package struct {
	ImportPath string
	Imports    []string
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
	// Import tells which imports it forbids, by their full path.
	Import func(path string) bool
}

// patterns are the packages that stand for one pattern each.
var patterns = []string{
	"idem", "optimistic", "pessimistic", "lease", "counter", "outbox", "saga", "retry", "singleflight",
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
			return name != "tx/pgxtx" && !strings.HasPrefix(name, "internal/") && !strings.HasSuffix(name, "test")
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
		Reason: "retry and singleflight do without a database",
		In:     func(name string) bool { return under(name, "retry") || under(name, "singleflight") },
		Import: func(path string) bool { return own(path, "tx") },
	},
	{
		Reason: "production code must not drag test servers along",
		In:     func(name string) bool { return !strings.HasPrefix(name, "internal/") },
		Import: func(path string) bool { return own(path, "internal/testdb", "internal/wire", "internal/deptest") },
	},
}, independent()...)

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

// Check returns a line for each import that breaks a ban.
func Check(packages []Package, bans []Ban) []string {
	var broken []string
	for _, p := range packages {
		for _, ban := range bans {
			if !ban.In(p.name()) {
				continue
			}
			for _, path := range p.Imports {
				if ban.Import(path) {
					broken = append(broken, fmt.Sprintf("%s imports %s: %s", p.ImportPath, path, ban.Reason))
				}
			}
		}
	}
	return broken
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

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
