package pessimistic

import (
	"strconv"
	"time"
)

// A Wait is what a lock does when somebody else holds it. The zero value is [Forever].
type Wait struct {
	kind  waitKind
	limit time.Duration
}

type waitKind int

const (
	forever waitKind = iota
	noWait
	limited
	skipLocked
)

// The policies without a parameter.
var (
	// Forever waits until the lock is free, the context ends, or the database finds a deadlock. On PostgreSQL a
	// lock_timeout that is set already still counts.
	Forever = Wait{}
	// NoWait fails at once with [ErrNotAvailable].
	NoWait = Wait{kind: noWait}
	// SkipLocked leaves out the rows that somebody else holds, and does not look for missing ones: [Rows.Read] tells which
	// were locked.
	SkipLocked = Wait{kind: skipLocked}
)

// For waits for each lock as long as d, rounded up to a millisecond, and then fails with [ErrNotAvailable]. A call for many
// rows waits for each of them in turn. Without a positive d it is [NoWait].
func For(d time.Duration) Wait {
	if d <= 0 {
		return NoWait
	}
	return Wait{kind: limited, limit: d}
}

// clause is how SQL says it behind FOR UPDATE.
func (w Wait) clause() string {
	switch w.kind {
	case noWait:
		return " nowait"
	case skipLocked:
		return " skip locked"
	default:
		return ""
	}
}

// givesUp reports whether the wait can end in an error of the database that ends the transaction too.
func (w Wait) givesUp() bool { return w.kind == noWait || w.kind == limited }

// milliseconds is a time as a setting of PostgreSQL, at least 1: 0 would mean for ever.
func milliseconds(d time.Duration) string {
	ms := (d + time.Millisecond - 1) / time.Millisecond
	return strconv.FormatInt(max(1, min(int64(ms), maxSetting)), 10) + "ms"
}

const maxSetting = 1<<31 - 1

// A Strength is how much of a row is locked. On SQLite each is the one lock on the whole database.
type Strength int

const (
	// NoKeyUpdate keeps others from changing and locking the row, but for KeyShare: inserts of rows that refer to it go on.
	// It is what an UPDATE takes.
	NoKeyUpdate Strength = iota
	// Update keeps everybody else away. It is for a row that is to be deleted, or whose key is to be changed.
	Update
	// Share keeps others from changing the row, and lets them share it. Two that share a row and then both change it are a
	// deadlock.
	Share
	// KeyShare keeps others from deleting the row and changing its key. It is what a foreign key takes.
	KeyShare
)

// String returns the strength as SQL writes it.
func (s Strength) String() string {
	switch s {
	case Update:
		return "update"
	case Share:
		return "share"
	case KeyShare:
		return "key share"
	default:
		return "no key update"
	}
}
