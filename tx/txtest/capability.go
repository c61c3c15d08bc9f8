package txtest

import (
	"context"

	"github.com/holdfast-go/holdfast/tx"
)

// capabilityRules prove that what the dialect declares is there, and what it does not declare is not.
func capabilityRules[T any]() []rule[T] {
	var rules []rule[T]
	for _, c := range []struct {
		name  string
		has   func(tx.Capabilities) bool
		probe string
	}{
		{"advisory locks", func(c tx.Capabilities) bool { return c.AdvisoryLocks }, "select pg_try_advisory_xact_lock(1)"},
		{"row locks", rowLocks, "select id from account for update skip locked"},
		{
			"exclusion constraints", func(c tx.Capabilities) bool { return c.ExclusionConstraints },
			"create table e (r int4range, exclude using gist (r with &&))",
		},
		{"isolation levels", isolationLevels, "set transaction isolation level repeatable read"},
		{"schemas", func(c tx.Capabilities) bool { return c.Schemas }, "create schema holdfast_txtest_probe"},
		{"notifications", notifications, "notify holdfast_txtest_probe"},
	} {
		rules = append(rules, rule[T]{
			name: "capability " + c.name, rule: "The engine can do what its dialect declares, and no more.",
			check: func(f *fixture[T]) { probe(f, c.has(f.DB.Dialect().Capabilities), c.probe) },
		})
	}
	return append(rules,
		rule[T]{
			name: "capability aborts on error", rule: "An error ends the transaction if the dialect says so, else it stays usable.",
			check: probeAborts[T],
		},
		rule[T]{
			name: "capability concurrent writers", rule: "Two transactions write side by side if the dialect says so.",
			check: probeWriters[T],
		})
}

func probe[T any](f *fixture[T], declared bool, query string) {
	err := f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		if _, err := f.DB.Tx(t).Exec(ctx, query); err != nil {
			return err
		}
		return errRefused // nothing is to stay
	})
	if can := f.wantAborted(err, nil).Err == errRefused; can != declared { //nolint:errorlint // the closure's own value
		f.Errorf("declared %v, but %q gives %v", declared, query, err)
	}
}

func probeAborts[T any](f *fixture[T]) {
	declared := f.DB.Dialect().Capabilities.AbortsOnError
	f.wantAborted(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		if _, err := f.DB.Tx(t).Exec(ctx, "insert into account (id, balance) values (1, 0)"); err == nil {
			f.Error("a duplicate key was accepted")
		}
		if err := f.add(ctx, t, 1, 1); (err != nil) != declared {
			f.Errorf("declared %v, but the next statement gives %v", declared, err)
		}
		return errRefused
	}), nil)
}

func probeWriters[T any](f *fixture[T]) {
	f.foreign(func(first T) {
		f.must(f.add(f.ctx, first, 1, 1))
		err := f.DB.With(tx.Options{Attempts: 1}).Do(f.ctx, func(ctx context.Context, t T) error { return f.add(ctx, t, 2, 1) })
		if can := err == nil; can != f.DB.Dialect().Capabilities.ConcurrentWriters {
			f.Errorf("declared %v, but the second writer gives %v", !can, err)
		}
	}, f.Commit)
}
