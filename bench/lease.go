package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/lease"
)

// leases are taken and given back in PostgreSQL. Each worker has a name of its own.
var leases = group{
	name: "lease",
	variants: func(s *setup) []variant {
		l := newLeaseSetup(s)
		return []variant{
			{"pgx, UPSERT if it has run out, then UPDATE: no token, no renewal", l.raw},
			{"lease.SQL, acquire and release", l.bare},
			{"TryAcquire and Release", l.handle},
			{"Run", l.run},
		}
	},
	bars: []bar{{at: 2, reference: 0, direct: 0.85, remote: 0.95}},
}

// renewals are of a thousand leases of one process.
var renewals = group{
	name: "lease-renew",
	variants: func(s *setup) []variant {
		l := newLeaseSetup(s)
		return []variant{
			{"pgx, one UPDATE from a thousand names", l.rawMany},
			{"Renew of a thousand leases", l.renewMany},
		}
	},
	bars:    []bar{{at: 1, reference: 0, direct: 0.85, remote: 0.85}},
	callers: []int{1},
}

// many is how many leases a process holds.
const many = 1000

const leaseTTL = time.Minute

// leaseSetup is the table of the hand-written leases, and ours.
type leaseSetup struct {
	*setup

	once   sync.Once // guards all below
	err    error
	store  *lease.SQL[pgx.Tx]
	leases *lease.Leases[*lease.Held]
	terms  []lease.Term
}

func newLeaseSetup(s *setup) *leaseSetup { return &leaseSetup{setup: s} }

func (l *leaseSetup) open(ctx context.Context) error {
	l.once.Do(func() { l.err = l.fillLeases(ctx) })
	return l.err
}

const rawLeaseSchema = `
create table raw_lease (name text primary key, nonce text not null, expires_at timestamptz not null) with (fillfactor = 70);
create table raw_many (name text primary key, nonce text not null, expires_at timestamptz not null) with (fillfactor = 70);`

func (l *leaseSetup) fillLeases(ctx context.Context) error {
	if err := lease.Migrate(ctx, l.db, lease.Names{}); err != nil {
		return err
	}
	if _, err := l.pool.Exec(ctx, rawLeaseSchema); err != nil {
		return err
	}
	l.store = lease.NewSQL(l.db, lease.Names{})
	l.leases = lease.New(l.store, &lease.Options{TTL: leaseTTL})
	for i := range many {
		name := "many " + strconv.Itoa(i)
		g, err := l.store.TryAcquire(ctx, lease.Claim{Name: name, Nonce: name, TTL: leaseTTL})
		if err != nil {
			return err
		}
		l.terms = append(l.terms, lease.Term{Name: name, Token: g.Token, Nonce: name, TTL: leaseTTL})
		if _, err := l.pool.Exec(ctx, "insert into raw_many values ($1, $1, now())", name); err != nil {
			return err
		}
	}
	return nil
}

const (
	rawTake = `insert into raw_lease as l values ($1, $2, clock_timestamp() + interval '1 minute')
on conflict (name) do update set nonce = excluded.nonce, expires_at = excluded.expires_at where l.expires_at <= clock_timestamp()`
	rawFree  = `update raw_lease set expires_at = clock_timestamp() where name = $1 and nonce = $2`
	rawRenew = `update raw_many t set expires_at = clock_timestamp() + interval '1 minute'
from jsonb_to_recordset($1::jsonb) as r(name text, nonce text) where t.name = r.name and t.nonce = r.nonce returning t.nonce`
)

func (l *leaseSetup) raw(ctx context.Context, worker int, _ int64) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	name, nonce := strconv.Itoa(worker), rand.Text()
	if n, err := l.pool.Exec(ctx, rawTake, name, nonce); err != nil || n.RowsAffected() != 1 {
		return errNotTaken(err)
	}
	n, err := l.pool.Exec(ctx, rawFree, name, nonce)
	if err != nil || n.RowsAffected() != 1 {
		return errNotTaken(err)
	}
	return nil
}

func (l *leaseSetup) bare(ctx context.Context, worker int, _ int64) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	c := lease.Claim{Name: strconv.Itoa(worker), Nonce: rand.Text(), TTL: leaseTTL}
	g, err := l.store.TryAcquire(ctx, c)
	if err != nil || !g.Held {
		return errNotTaken(err)
	}
	if held, err := l.store.Release(ctx, lease.Term{Name: c.Name, Token: g.Token, Nonce: c.Nonce}); err != nil || !held {
		return errNotTaken(err)
	}
	return nil
}

func (l *leaseSetup) handle(ctx context.Context, worker int, _ int64) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	return takeAndRelease(ctx, l.leases, strconv.Itoa(worker))
}

// takeAndRelease is what a caller of TryAcquire does.
func takeAndRelease(ctx context.Context, leases *lease.Leases[*lease.Held], name string) error {
	h, err := leases.TryAcquire(ctx, name)
	if err != nil {
		return err
	}
	if outcome, err := h.Release(ctx); err != nil || outcome != lease.ReleaseDone {
		return errNotTaken(err)
	}
	return nil
}

func (l *leaseSetup) run(ctx context.Context, worker int, _ int64) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	return l.leases.Run(ctx, strconv.Itoa(worker), func(context.Context, *lease.Held) error { return nil })
}

func (l *leaseSetup) rawMany(ctx context.Context, _ int, _ int64) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	type request struct {
		Name  string `json:"name"`
		Nonce string `json:"nonce"`
	}
	requests := make([]request, len(l.terms))
	for i, t := range l.terms {
		requests[i] = request{t.Name, t.Nonce}
	}
	text, err := json.Marshal(requests)
	if err != nil {
		return err
	}
	rows, err := l.pool.Query(ctx, rawRenew, string(text))
	if err != nil {
		return err
	}
	nonces, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(nonces) != many {
		return errNotTaken(err)
	}
	return nil
}

func (l *leaseSetup) renewMany(ctx context.Context, _ int, _ int64) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	renewals, err := l.store.Renew(ctx, l.terms)
	if err != nil {
		return err
	}
	for _, r := range renewals {
		if !r.Held {
			return errNotTaken(r.Err)
		}
	}
	return nil
}
