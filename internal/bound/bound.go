// Package bound tells which context values belong to one transaction. Work that several callers share, or that outlives the
// call which began it, must not find them: it would read what is not committed, and run beside whoever owns the transaction.
package bound

// ToTransaction is embedded in the keys of such values.
type ToTransaction struct{}

func (ToTransaction) toTransaction() {}

// Key reports whether key is that of a value which belongs to a transaction.
func Key(key any) bool {
	_, ok := key.(interface{ toTransaction() })
	return ok
}
