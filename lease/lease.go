package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/claim"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/wake"
)

// Options set up [Leases]. The zero value is ready to use.
type Options struct {
	// Holder says who this process is, for people who look: such as host and pid. Default: empty.
	Holder string
	// Meta is what else the holder has to say, such as its address. Default: empty.
	Meta string
	// TTL is how long a lease lasts if it is not renewed, and so how long a crash keeps others out. Default: 15 s.
	TTL time.Duration
	// RenewEvery is how often it is renewed, give or take a tenth; at most a third of TTL. Default: a third of TTL.
	RenewEvery time.Duration
	// Margin is how long before its end a lease is no longer relied on; less than half of TTL. Default: a tenth of TTL, at
	// least 50 ms and at most 2 s.
	Margin time.Duration
	// AtLeast is how long a lease stays taken at least, also if it is released before or its holder dies: for jobs that are over
	// sooner than the clocks of two machines differ. It may be longer than TTL. [Leases.Evict] ends it. Default: 0.
	AtLeast time.Duration
	// HoldLimit is how long a lease is held at most. After it the handle's context ends, and the lease runs out. Default: no
	// limit.
	HoldLimit time.Duration
	// PollEvery is the longest pause between two tries of a process that waits. One behind others of its process asks by itself only
	// if they have not come to an end in ten of these. Default: 1 s.
	PollEvery time.Duration
	// Fair serves those who wait in the order in which they came. All who want a lease must have it, since who has not comes
	// first. A try that waits writes its place now and then, and the next in turn asks five times in PollEvery; one that dies
	// while it waits delays those behind it by four PollEvery and 2 s at most. The store must be a [Queuer]. Default: false,
	// whoever asks at the right moment.
	Fair bool
	// Observer is told what happens to leases; see the Event constants. Default: silent.
	Observer holdfast.Observer
}

// Leases hands out leases of one store, as handles of type H: [New] and [NewAdvisory] say which. They are safe for concurrent use.
type Leases[H any] struct {
	core *core
	wrap func(*Advisory, Grant) H
}

// core is what leases of all kinds share.
type core struct {
	store   Store
	o       Options
	clock   clock.Clock
	renewer *claim.Renewer[*Advisory]
	line    *wake.Line
	frees   atomic.Int64 // how many leases were given back
	bound   bound
	err     error
}

// New returns leases for correctness: each handle is a [Held], with a fence. Nil options work. Options that cannot be used
// are reported by every method.
func New(store FencingStore, o *Options) *Leases[*Held] {
	return &Leases[*Held]{
		core: newCore(store, o),
		wrap: func(h *Advisory, g Grant) *Held { return &Held{Advisory: h, fence: store.Fence(g)} },
	}
}

// NewAdvisory returns leases for efficiency, on any store. Nil options work. Options that cannot be used are reported by every
// method.
func NewAdvisory(store Store, o *Options) *Leases[*Advisory] {
	return &Leases[*Advisory]{
		core: newCore(store, o),
		wrap: func(h *Advisory, _ Grant) *Advisory { return h },
	}
}

func newCore(store Store, o *Options) *core {
	if store == nil {
		panic("lease: the store is nil: make one with lease.NewSQL")
	}
	c := &core{store: store, clock: clock.System}
	if o != nil {
		c.o = *o
	}
	c.o.TTL = cmp.Or(c.o.TTL, 15*time.Second)
	c.o.RenewEvery = cmp.Or(c.o.RenewEvery, c.o.TTL/3)
	c.o.Margin = cmp.Or(c.o.Margin, min(max(c.o.TTL/10, 50*time.Millisecond), 2*time.Second))
	c.o.PollEvery = cmp.Or(c.o.PollEvery, time.Second)
	c.renewer = claim.New(c.o.RenewEvery, maxRenewals, c.renew)
	c.line = c.newLine()
	c.err = c.o.check()
	if _, queues := store.(Queuer); c.o.Fair && !queues {
		c.err = errors.Join(c.err, &UnsupportedError{Verb: "queue, which Options.Fair needs"})
	}
	return c
}

func (o *Options) check() error {
	for _, c := range []struct {
		wrong        bool
		name, reason string
	}{
		{min(o.TTL, o.RenewEvery, o.Margin, o.AtLeast, o.HoldLimit, o.PollEvery) < 0, "Options", "has a negative duration"},
		{o.TTL < 150*time.Millisecond, "Options.TTL", "is below 150 ms, which leaves no time to renew"},
		{o.RenewEvery > o.TTL/3, "Options.RenewEvery", "is more than a third of TTL: one failed renewal must not cost the lease"},
		{o.Margin >= o.TTL/2, "Options.Margin", "is half of TTL or more: give a longer TTL"},
		{checkText(o.Holder, 1024) != "", "Options.Holder", checkText(o.Holder, 1024)},
		{checkText(o.Meta, 64<<10) != "", "Options.Meta", checkText(o.Meta, 64<<10)},
	} {
		if c.wrong {
			return &InputError{Name: c.name, Reason: c.reason}
		}
	}
	return nil
}

// longestName is how many bytes of a name fit into an index of PostgreSQL.
const longestName = 1024

func checkName(name string) error {
	reason := checkText(name, longestName)
	if name == "" {
		reason = "is empty"
	}
	if reason != "" {
		return &InputError{Name: "the name of a lease", Reason: reason}
	}
	return nil
}

// checkText returns what is wrong with text.
func checkText(text string, longest int) string {
	switch {
	case len(text) > longest:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), longest)
	case strings.ContainsRune(text, 0):
		return "contains a NUL byte"
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	}
	return ""
}

// TryAcquire takes the lease of name, or returns a [*HeldError] at once. The end of ctx does not end the lease: it bounds the
// request alone. The caller must release the handle.
//
// It also returns [*InputError], [ErrNested], and errors of the store, after which the lease may have been taken: then it is
// released in the background.
func (l *Leases[H]) TryAcquire(ctx context.Context, name string) (H, error) {
	h, g, err := l.core.try(ctx, wish{name: name}, time.Now(), 1)
	if err != nil {
		var none H
		return none, err
	}
	return l.wrap(h, g), nil
}

// Acquire takes the lease of name, and waits until it is free or ctx ends. Those who wait for it with the same Leases are served in
// the order in which they came. A release in this process wakes the first of them, and one in another where the database notifies, as
// over pgx; the rest is noticed by asking again, at the latest after Options.PollEvery. See [Leases.TryAcquire] for the errors; when
// ctx ends the error has its cause and the [*HeldError] of the last try.
func (l *Leases[H]) Acquire(ctx context.Context, name string) (H, error) {
	h, g, err := l.core.acquire(ctx, name)
	if err != nil {
		var none H
		return none, err
	}
	return l.wrap(h, g), nil
}

// A wish is what a try asks for.
type wish struct {
	name   string   // of the lease, or of the semaphore
	waiter string   // who waits in turn, if somebody does
	slots  []string // of the semaphore, one of which will do
}

// ask makes the request of a try.
func (c *core) ask(ctx context.Context, claim Claim, w wish) (Grant, error) {
	switch {
	case w.slots != nil:
		return c.store.(Chooser).TryAny(ctx, claim, w.slots)
	case c.o.Fair:
		return c.store.(Queuer).TryInTurn(ctx, claim, Waiter{ID: w.waiter, TTL: c.place()})
	}
	return c.store.TryAcquire(ctx, claim)
}

// refuse returns why the store is not asked.
func (c *core) refuse(ctx context.Context, w wish) error {
	if err := errors.Join(c.err, checkName(w.name)); err != nil {
		return err
	}
	if c.nested(ctx, w) {
		return ErrNested
	}
	return context.Cause(ctx)
}

// try makes one request. The caller has waited since then, and this is its attempt of that number.
func (c *core) try(ctx context.Context, w wish, since time.Time, attempt int) (*Advisory, Grant, error) {
	if err := c.refuse(ctx, w); err != nil {
		return nil, Grant{}, err
	}
	claim := Claim{Name: w.name, Holder: c.o.Holder, Meta: c.o.Meta, Nonce: newNonce(), TTL: c.o.TTL, AtLeast: c.o.AtLeast}
	anchor := c.clock.Read()
	g, err := c.ask(ctx, claim, w)
	switch {
	case err != nil:
		if holdfast.OutcomeOf(err) != holdfast.NotApplied {
			names := w.slots
			if names == nil {
				names = []string{w.name}
			}
			go c.abandon(context.WithoutCancel(ctx), claim, names...)
		}
		return nil, g, err
	case !g.Held:
		err := &HeldError{Name: g.Name, Holder: g.Holder, Meta: g.Meta, Token: g.Token, Remaining: g.Remaining, Ahead: g.Ahead}
		c.observe(ctx, EventRefused, Term{Name: g.Name, Token: g.Token}, time.Since(since), attempt, err)
		return nil, g, err
	}
	h := newAdvisory(ctx, c, g, anchor)
	if err := h.Check(); err != nil { // the reply took as long as the lease lasts
		go c.abandon(context.WithoutCancel(ctx), claim, g.Name)
		return nil, g, err
	}
	c.renewer.Add(h, c.renewer.Interval())
	c.observe(ctx, EventAcquired, h.term, time.Since(since), attempt, nil)
	return h, g, nil
}

// abandon releases which of names may have been acquired by a request whose reply is missing, until it has found it or it has run
// out. The request may reach the store after the first releases.
func (c *core) abandon(ctx context.Context, claim Claim, names ...string) {
	ctx, cancel := context.WithTimeout(ctx, claim.TTL)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		for _, name := range names {
			if outcome, err := c.release(ctx, Term{Name: name, Nonce: claim.Nonce}); err == nil && outcome == ReleaseDone {
				return
			}
		}
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

// release gives t back on a context that outlives that of the caller.
func (c *core) release(ctx context.Context, t Term) (Released, error) {
	ctx, cancel := c.bound.detach(ctx)
	defer cancel()
	held, err := c.store.Release(ctx, t)
	c.freed(t.Name)
	switch {
	case err != nil:
		return ReleaseUnknown, err
	case !held:
		return AlreadyLost, nil
	}
	return ReleaseDone, nil
}
