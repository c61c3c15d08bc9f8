package idem

import (
	"context"
	"time"
)

// A Store keeps the keys of work that leaves the database, where all processes see them. Time is judged by the store's clock
// alone. Each method is one request, bounded by its context, and safe for concurrent use; after an error nobody knows whether
// it took effect, and it is safe to make it again. Package idemtest says what a store must do, and checks it.
//
// A key is in one of the states of [State], or free. While it is open, which is Running, Unknown or Pending, the store never
// removes it by itself. Nonces are random and tell executions apart; epochs order them, each above those of all executions
// of the key before it, also of those that the store no longer knows.
type Store interface {
	// Claim makes a free key Running and returns the new record, or returns that of a key that is not free, and changes
	// nothing. A record without a state says that it could not be told at this moment, and to ask again. A second request with
	// the nonce of the record is answered with that record.
	Claim(ctx context.Context, c Claim) (Record, error)
	// Take makes a key Running under a new epoch and the nonce of t.Claim, and returns its new record, if it still is as t.Was
	// says and may be taken: see [Taking]. Otherwise ok is false and nothing is changed. It does not wait for a transaction
	// that guards the key: such a key is not taken. A second request with the same nonce is answered with the same record.
	Take(ctx context.Context, t Taking) (r Record, ok bool, err error)
	// TakeDue takes keys whose time is over, the oldest first, as Take does, each under a nonce of its own. It passes over those
	// that another request is taking.
	TakeDue(ctx context.Context, d Due) ([]Record, error)
	// Renew lets each of terms run for lease from now on, and returns what became of them, in their order. One that ran out
	// and that nobody has taken is renewed.
	Renew(ctx context.Context, terms []Term, lease time.Duration) ([]Renewal, error)
	// Mark stores what the owner knows of its steps. As all that follow, it changes nothing and returns false unless the key
	// is Running under t; the time does not matter.
	Mark(ctx context.Context, t Term, steps []byte) (held bool, err error)
	// Park gives the key up without an answer: see [Parking].
	Park(ctx context.Context, t Term, p Parking) (held bool, err error)
	// Complete stores the answer, for ttl, and forgets steps and input. It returns true also if the key has the answer of t.
	Complete(ctx context.Context, t Term, a Answer, ttl time.Duration) (held bool, err error)
	// Release makes the key free. A term without an epoch is that of a claim whose reply was lost: the nonce decides.
	Release(ctx context.Context, t Term) (held bool, err error)
	// Announce tells the store that somebody waits for a key, so that the end of its execution wakes them where the store is a
	// [Waker]. It returns false if the key is not open, or cannot be told so at this moment: then the caller looks again. It does not
	// wait for a transaction that guards the key.
	Announce(ctx context.Context, id ID) (open bool, err error)
	// List returns the records that f asks for, in the order of their age, the oldest first. Bodies and inputs are left out.
	List(ctx context.Context, f Filter) ([]Record, error)
	// Check reports, for the start of a service, whether the store can be used.
	Check(ctx context.Context) error
}

// A Claim asks for a key.
type Claim struct {
	ID          ID
	Scope, Name string
	// Fingerprint is that of the request, as it is stored; empty if there is none.
	Fingerprint []byte
	// Input is what a completer needs to do the work; nil if there is none.
	Input []byte
	// Nonce tells this execution from all others.
	Nonce int64
	// Lease is how long the execution is left alone if it is not renewed.
	Lease time.Duration
}

// A Record is what a store keeps of a key.
type Record struct {
	ID          ID
	Scope, Name string
	State       State
	Fingerprint []byte
	// Nonce and Epoch are those of the last execution.
	Nonce, Epoch int64
	// Attempts is how many executions there were, from 1.
	Attempts int
	// Left is, of an open key, how long it is to be left alone: until its lease has run out, or until it is due. At 0 or below
	// it can be taken.
	Left time.Duration
	// Over tells that the answer may no longer be given.
	Over bool
	// Answer is that of a key that is Completed or Failed.
	Answer Answer
	// Input and Steps are those of an open key.
	Input, Steps []byte
	// Note is why it was parked.
	Note string
	// Created is when it was claimed first, by the store's clock, in whole milliseconds at least.
	Created time.Time
}

// An Answer is the outcome of an operation, as it is stored.
type Answer struct {
	// State is Completed or Failed.
	State State
	// Codec, Status and Body are for package idem to know; Codec is from 0 to 32767.
	Codec, Status int
	Body          []byte
}

// A Taking asks for a key that another execution had.
type Taking struct {
	// Claim is as for a free key. The fingerprint and the input of an open key stay as they are.
	Claim Claim
	// Was is the record that the asker has seen: the key is taken only if it still has that nonce. An open key is taken if its
	// time is over.
	Was Record
	// Early takes a key that is Unknown or Pending also before its time: for people.
	Early bool
	// Reuse takes a key whose answer may no longer be given, as if it were free.
	Reuse bool
}

// Due asks for keys whose time is over.
type Due struct {
	// Names are the operations, and States the open states that are asked for. Only keys with an input are.
	Names  []string
	States []State
	// Lease is as in [Claim].
	Lease time.Duration
	// Limit is how many at most.
	Limit int
}

// A Term is one execution of a key.
type Term struct {
	ID           ID
	Nonce, Epoch int64
}

// A Renewal is what became of a [Term].
type Renewal int

const (
	// RenewalLost: the key is not Running under the term any more.
	RenewalLost Renewal = iota
	// RenewalDone: the lease runs from now on.
	RenewalDone
	// RenewalLater: it is held, and a transaction has the key locked, so that it was not renewed: ask again soon.
	RenewalLater
)

// A Parking says how a key is given up that has no answer.
type Parking struct {
	// State is Unknown or Pending.
	State State
	// After is in how long it is due.
	After time.Duration
	// Note is why.
	Note string
	// Fresh makes the next execution the first: attempts are counted anew.
	Fresh bool
}

// A Filter tells which keys to list. Its zero value means all.
type Filter struct {
	// ID, Scope and Name are those of the keys, if they are set.
	ID          ID
	Scope, Name string
	// States are those to list. Default: all. Open ones alone are found by an index, whatever the size of the table.
	States []State
	// OlderThan leaves out keys that were claimed more recently.
	OlderThan time.Duration
	// After is the last record of the page before. Default: the first page.
	After Record
	// Limit is how many a page has. Default: 100. At most 1000.
	Limit int
}
