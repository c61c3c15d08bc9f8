package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/claim"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/wake"
)

// LeaseOptions set up [Leased]. The zero value is ready to use.
type LeaseOptions struct {
	// Lease is how long an execution that is not renewed is left alone, and so how long a crash keeps a key. Default: 15 s.
	Lease time.Duration
	// RenewEvery is how often leases are renewed, all of a Leased in one request, give or take a tenth; a third of Lease at
	// most. Default: a third of Lease.
	RenewEvery time.Duration
	// Margin is how long before its end a lease is no longer relied on; less than half of it. Default: a tenth of Lease, at least
	// 50 ms and at most 2 s.
	Margin time.Duration
	// OnExpiry says what becomes of a key whose execution ended without a word. Default: [Reconcile].
	OnExpiry Policy
	// RetryAfter is how long a key that was given up without an answer is left alone, twice as long from one time to the next.
	// Default: 1 s.
	RetryAfter time.Duration
	// LongestRetry bounds that. Default: 5 minutes.
	LongestRetry time.Duration
	// MaxAttempts is after how many executions in vain a key is Unknown for good, and waits for a person. Default: 20.
	MaxAttempts int
	// Workers is how many keys [Leased.Complete] works on at a time. Default: 4.
	Workers int
	// AllowReuse, Codecs, MaxBody, Observer, TTL and Wait are as in [Options]. Default: those of the Keys, or where there are
	// none, as there.
	AllowReuse bool
	Codecs     []Codec
	MaxBody    int
	Observer   holdfast.Observer
	TTL        time.Duration
	Wait       time.Duration
}

// A Policy says what becomes of a key whose execution ended without a word: its process died, or lost the lease.
type Policy int

const (
	// Reconcile runs the closure again. Steps that are recorded are not made again, and one that had begun is looked for by its
	// Reconcile; without that, the key is Unknown.
	Reconcile Policy = iota
	// Rerun runs the closure again, and makes a step that had begun once more, with the same child key, if it has no Reconcile:
	// for services that honour the key.
	Rerun
	// Block runs nothing: the key is Unknown, and waits for a person.
	Block
)

// Leased are idempotency keys for work that leaves the database. The closure gets a run of type H: [NewLeased] and [NewLeasedOn]
// say which. They are safe for concurrent use.
type Leased[H Runner] struct {
	*leased

	wrap func(*Run) H
}

// leased is what Leased of all kinds share.
type leased struct {
	core

	store    Store
	lo       LeaseOptions
	clock    clock.Clock
	renewer  *claim.Renewer[*Run]
	line     *wake.Line
	handlers handlers
}

// NewLeased returns the keys in the table of keys for work that leaves the database: each run is a [RunTx], whose business
// transaction stores the answer. One key may be used with [Do] and with [DoLeased]: whichever comes first has it. Nil options
// work. Options that cannot be used are reported by every method.
func NewLeased[T any](keys *Keys[T], o *LeaseOptions) *Leased[*RunTx[T]] {
	store := newSQLStore(keys)
	l := newLeased(store, keys.o, o)
	l.err = cmp.Or(keys.err, l.err)
	return &Leased[*RunTx[T]]{leased: l, wrap: func(r *Run) *RunTx[T] { return &RunTx[T]{Run: r, store: store} }}
}

// NewLeasedOn returns keys in any store, such as that of package redisidem: each run is a [Run], which joins no transaction. Nil
// options work. Options that cannot be used are reported by every method.
func NewLeasedOn(store Store, o *LeaseOptions) *Leased[*Run] {
	if store == nil {
		panic("idem: the store is nil: make one with redisidem.New")
	}
	return &Leased[*Run]{leased: newLeased(store, Options{}, o), wrap: func(r *Run) *Run { return r }}
}

func newLeased(store Store, base Options, o *LeaseOptions) *leased {
	l := &leased{store: store, clock: clock.System}
	if o != nil {
		l.lo = *o
	}
	l.lo.Lease = cmp.Or(l.lo.Lease, 15*time.Second)
	l.lo.RenewEvery = cmp.Or(l.lo.RenewEvery, l.lo.Lease/3)
	l.lo.Margin = cmp.Or(l.lo.Margin, min(max(l.lo.Lease/10, 50*time.Millisecond), 2*time.Second))
	l.lo.RetryAfter = cmp.Or(l.lo.RetryAfter, time.Second)
	l.lo.LongestRetry = cmp.Or(l.lo.LongestRetry, 5*time.Minute)
	l.lo.MaxAttempts = cmp.Or(l.lo.MaxAttempts, 20)
	l.lo.Workers = cmp.Or(l.lo.Workers, 4)
	if l.lo.Codecs == nil {
		l.lo.Codecs = base.Codecs
	}
	if l.lo.Observer == nil {
		l.lo.Observer = base.Observer
	}
	l.o = Options{
		AllowReuse: l.lo.AllowReuse || base.AllowReuse,
		MaxBody:    cmp.Or(l.lo.MaxBody, base.MaxBody, 1<<20),
		Observer:   l.lo.Observer,
		TTL:        cmp.Or(l.lo.TTL, base.TTL, 24*time.Hour),
		Wait:       cmp.Or(l.lo.Wait, base.Wait),
	}
	l.line = l.newLine()
	l.renewer = claim.New(l.lo.RenewEvery, maxRenewals, l.renew)
	var err error
	l.codecs, err = newCodecs(l.lo.Codecs)
	if l.err = errors.Join(err, l.lo.check(l.o)); l.err != nil {
		l.err = toldError{l.err, holdfast.NotApplied}
	}
	return l
}

func (o *LeaseOptions) check(all Options) error {
	for _, c := range []struct {
		wrong  bool
		reason string
	}{
		{min(o.Lease, o.RenewEvery, o.Margin, o.RetryAfter, o.LongestRetry, all.TTL, all.Wait) < 0, "no duration may be negative"},
		{min(o.MaxAttempts, o.Workers) < 0, "MaxAttempts and Workers must not be negative"},
		{o.Lease < 150*time.Millisecond, "Lease is below 150 ms, which leaves no time to renew"},
		{o.RenewEvery > o.Lease/3, "RenewEvery is more than a third of Lease: one failed renewal must not cost the lease"},
		{o.Margin >= o.Lease/2, "Margin is half of Lease or more: give a longer Lease"},
		{o.OnExpiry < Reconcile || o.OnExpiry > Block, "OnExpiry is none of Reconcile, Rerun and Block"},
	} {
		if c.wrong {
			return fmt.Errorf("idem: LeaseOptions: %s", c.reason)
		}
	}
	return nil
}

// Check reports, for the start of a service, whether the options are sound and the store can be used. See [Keys.Check].
func (l *leased) Check(ctx context.Context) error {
	if l.err != nil {
		return l.err
	}
	return l.store.Check(ctx)
}
