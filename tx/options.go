package tx

import "time"

// An Isolation is a transaction isolation level.
type Isolation int

const (
	// DefaultIsolation is what the database is set to: READ COMMITTED unless somebody changed it. Holdfast's patterns
	// hold at every level.
	DefaultIsolation Isolation = iota
	// ReadCommitted takes a new snapshot for each statement.
	ReadCommitted
	// RepeatableRead takes one snapshot for the transaction. A write that lost a race is a serialization failure.
	RepeatableRead
	// Serializable makes the result that of some order of whole transactions. Any of them can fail to serialize, and is
	// then run again by [DB.Do].
	Serializable
)

// String returns the level as SQL writes it, or "" for [DefaultIsolation].
func (i Isolation) String() string {
	switch i {
	case ReadCommitted:
		return "read committed"
	case RepeatableRead:
		return "repeatable read"
	case Serializable:
		return "serializable"
	default:
		return ""
	}
}

// Options set how a [DB] runs its transactions. The zero value is ready to use.
type Options struct {
	// Attempts is how often [DB.Do] runs the closure at most, the first time included, when the database could not
	// serialize it or broke a deadlock. Default: 10. 1 never runs it again.
	Attempts int
	// CommitTimeout bounds the commit, and the rollback, which run on a context of their own: the caller's
	// cancellation does not turn a commit that is under way into one with an unknown outcome. Default: 5 s.
	CommitTimeout time.Duration
	// Isolation is the isolation level. On SQLite every transaction is serializable. Default: that of the database.
	Isolation Isolation
	// ReadOnly begins transactions that cannot write. On SQLite they do not wait for the writer. Default: false.
	ReadOnly bool
	// RetryBudget bounds the runs beyond the first over all callers that share it, where Attempts bounds those of one.
	// Do stops with [ErrBudget] when it is used up. Default: nil, no such bound.
	RetryBudget *Budget
	// ResolveCommit makes [DB.Do] ask PostgreSQL (13 or later) what became of a commit whose reply was lost, on another
	// connection and until the commit timeout. It rides with BEGIN and costs a round trip where nothing can ride; each
	// transaction takes a transaction ID, also one that then only reads, and has its snapshot from BEGIN on, so that SET
	// TRANSACTION comes too late in the closure. Read-only transactions do not ask, and SQLite, where a commit is a call,
	// has no need to. Default: false.
	ResolveCommit bool
}

func (o Options) attempts() int {
	if o.Attempts <= 0 {
		return 10
	}
	return o.Attempts
}

func (o Options) commitTimeout() time.Duration {
	if o.CommitTimeout <= 0 {
		return 5 * time.Second
	}
	return o.CommitTimeout
}
