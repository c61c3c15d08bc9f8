package lease

import (
	"context"
	"errors"
	"time"
)

// A Holding is a lease that is taken, as its store tells it.
type Holding struct {
	// Name is the lease, Holder and Meta are what its holder said of itself.
	Name, Holder, Meta string
	// Token is that of the acquisition.
	Token int64
	// Since is when it was acquired, and Until when it runs out if it is not renewed, by the store's clock.
	Since, Until time.Time
	// Resigning tells that its holder is asked to let go.
	Resigning bool
	// Released tells that it was given back, and stays taken for the rest of its Options.AtLeast.
	Released bool
}

// A Page says which leases [Leases.List] tells.
type Page struct {
	// Prefix is how their names begin. Default: any.
	Prefix string
	// After is the name after which the page begins: that of the last of the page before. Default: the first.
	After string
	// Limit is how many are told at most, up to 1000. Default: 100.
	Limit int
}

const (
	pageSize    = 100
	longestPage = 1000
)

// A Lister is a [Store] that tells who holds what. Its Capabilities say so.
type Lister interface {
	Store
	// List returns the leases of p that are taken, in the order of the bytes of their names. It locks nothing. One that has
	// run out is not told. It may take several requests.
	List(ctx context.Context, p Page) ([]Holding, error)
	// Look returns the lease of name if it is taken, as List tells it, or ErrFree.
	Look(ctx context.Context, name string) (Holding, error)
}

// A Resigner is a [Store] that passes the wish that a holder let go. Its Capabilities say so.
type Resigner interface {
	Store
	// RequestResign has renewals of the lease of name answered with Renewal.Resign until it is released or taken by somebody
	// else. It returns whom it asked, or ErrFree.
	RequestResign(ctx context.Context, name string) (Holding, error)
}

// An Evicter is a [Store] that takes a lease from its holder. Its Capabilities say so.
type Evicter interface {
	Store
	// Evict ends the lease of name: renewals, releases and guards of its holder are refused from then on, and nobody else has
	// its token. It returns whom it evicted, ErrFree, or a [*BlockedError] if ctx ends before others can take the lease.
	Evict(ctx context.Context, name string) (Holding, error)
}

// List returns a page of the leases that are taken, in the order of the bytes of their names, and locks nothing. One that has run
// out is not told, also while a transaction that it guards keeps others out. It is one request to a database, and to Redis many.
//
// It returns [*InputError], [*UnsupportedError], and errors of the store.
func (l *Leases[H]) List(ctx context.Context, p Page) ([]Holding, error) {
	switch {
	case l.core.err != nil:
		return nil, l.core.err
	case checkText(p.Prefix, longestName) != "":
		return nil, &InputError{Name: "Page.Prefix", Reason: checkText(p.Prefix, longestName)}
	case checkText(p.After, longestName) != "":
		return nil, &InputError{Name: "Page.After", Reason: checkText(p.After, longestName)}
	case p.Limit < 0 || p.Limit > longestPage:
		return nil, &InputError{Name: "Page.Limit", Reason: "is not from 1 to 1000: ask for the next page with Page.After"}
	case p.Limit == 0:
		p.Limit = pageSize
	}
	s, ok := l.core.store.(Lister)
	if !ok {
		return nil, &UnsupportedError{Verb: "List"}
	}
	return s.List(ctx, p)
}

// RequestResign asks the holder of the lease of name to let go, in one request, and returns whom it asked. The holder learns it
// from its next renewal, within its Options.RenewEvery: its context ends with [ErrResign], and it keeps the lease until it releases it.
// [Leases.Run] and [Leases.Elect] do that when their closure returns. A holder that does not, keeps the lease: see [Leases.Evict].
//
// It returns [ErrFree] if nobody holds the lease, [*InputError], [*UnsupportedError], and errors of the store.
func (l *Leases[H]) RequestResign(ctx context.Context, name string) (Holding, error) {
	if err := errors.Join(l.core.err, checkName(name)); err != nil {
		return Holding{}, err
	}
	s, ok := l.core.store.(Resigner)
	if !ok {
		return Holding{}, &UnsupportedError{Verb: "RequestResign"}
	}
	return s.RequestResign(ctx, name)
}

// Evict takes the lease of name from its holder, for operators who know that it must not have it any longer. From then on its
// renewals and guards are refused, whatever it believes; its context ends with its next renewal, as [Stolen]. Then Evict waits
// for the transactions that the guard had let pass, for they keep the lease from others, and gives the lease a new token. It
// returns whom it evicted. An AtLeast that was left is over.
//
// If ctx ends before those transactions do, it returns a [*BlockedError], which names their sessions where the store knows them.
// The holder is cut off all the same: end the sessions, or call again. Give ctx a deadline.
//
// It also returns [ErrFree] if nobody holds the lease, [*InputError], [*UnsupportedError], and errors of the store.
func (l *Leases[H]) Evict(ctx context.Context, name string) (Holding, error) {
	c := l.core
	if err := errors.Join(c.err, checkName(name)); err != nil {
		return Holding{}, err
	}
	s, ok := c.store.(Evicter)
	if !ok {
		return Holding{}, &UnsupportedError{Verb: "Evict"}
	}
	started := time.Now()
	h, err := s.Evict(ctx, name)
	if err == nil || errors.Is(err, ErrBlocked) {
		c.observe(ctx, EventEvicted, Term{Name: name, Token: h.Token}, time.Since(started), 0, err)
		c.freed(name)
	}
	return h, err
}
