package pessimistictest

import (
	"time"

	"github.com/holdfast-go/holdfast/pessimistic"
)

func advisoryRules[T any]() []rule[T] {
	return []rule[T]{
		{"advisory", "Names are locked until the end of the transaction, each once, and namespaces are apart.", rowLocks, advisory[T]},
		{"advisory order", "Names are locked in one order, whatever the request's.", rowLocks, advisoryOrder[T]},
		{"advisory policies", "Advisory fails as the policy says, holds nothing then, and leaves the transaction usable.", rowLocks, advisoryPolicies[T]},
	}
}

// name makes a namespace of the test's own: advisory locks are shared by all schemas of a database.
func (s *suite[T]) namespace() string {
	var schema string
	s.must(s.DB.Conn().QueryRow(s.ctx, "select current_schema()").Scan(&schema))
	return schema
}

func (s *suite[T]) try(namespace string, names ...string) bool {
	s.Helper()
	f := s.begin()
	ok, err := s.locks(pessimistic.Options{}).TryAdvisory(s.ctx, f.Tx, namespace, names...)
	s.must(err)
	s.must(f.Rollback(s.ctx))
	return ok
}

func (s *suite[T]) wantTry(want bool, namespace string, names ...string) {
	s.Helper()
	if s.try(namespace, names...) != want {
		s.Fatalf("%v is free: %v, want %v", names, !want, want)
	}
}

func advisory[T any](s *suite[T]) {
	ns, f := s.namespace(), s.begin()
	s.must(s.locks(pessimistic.Options{}).Advisory(s.ctx, f.Tx, ns, "a", "b", "a", "c"))
	s.wantTry(false, ns, "a")
	s.wantTry(false, ns, "b")
	s.wantTry(true, ns, "d")
	s.wantTry(true, ns+"a", "")
	s.must(f.Commit(s.ctx))
	s.wantTry(true, ns, "a", "b", "c")
}

func advisoryOrder[T any](s *suite[T]) {
	ns, l := s.namespace(), s.locks(pessimistic.Options{})
	low, high := "a", "b"
	if pessimistic.AdvisoryID(ns, low) > pessimistic.AdvisoryID(ns, high) {
		low, high = high, low
	}
	holder := s.begin()
	s.must(l.Advisory(s.ctx, holder.Tx, ns, low))
	f := s.begin()
	pid, done := s.pid(f.Tx), make(chan error, 1)
	go func() { done <- l.Advisory(s.ctx, f.Tx, ns, high, low) }()
	s.waits(pid)
	s.wantTry(true, ns, high)
	s.must(holder.Commit(s.ctx))
	s.must(<-done)
	s.wantTry(false, ns, high)
}

func advisoryPolicies[T any](s *suite[T]) {
	ns := s.namespace()
	holder := s.begin()
	s.must(s.locks(pessimistic.Options{}).Advisory(s.ctx, holder.Tx, ns, "b"))
	f := s.begin()
	ok, err := s.locks(pessimistic.Options{}).TryAdvisory(s.ctx, f.Tx, ns, "a", "b", "c")
	if s.must(err); ok {
		s.Fatal("got what somebody else holds")
	}
	s.wantTry(true, ns, "a", "c")
	for _, w := range []pessimistic.Wait{pessimistic.NoWait, pessimistic.For(time.Millisecond)} {
		s.want(s.locks(pessimistic.Options{Wait: w}).Advisory(s.ctx, f.Tx, ns, "a", "b"), pessimistic.ErrNotAvailable)
		s.usable(f.Tx)
		s.wantTry(true, ns, "a")
		s.must(s.locks(pessimistic.Options{Wait: w}).Advisory(s.ctx, f.Tx, ns, "c", "d"))
	}
	s.wantTry(false, ns, "c")
}
