package retry

// An Operation says why a function may be run again. The zero value is [Once]. It is immutable.
type Operation struct {
	kind kind
	key  string
	why  error
}

type kind int

const (
	once kind = iota
	onProof
	always
	read
	keyless
)

// What operations are.
var (
	// Once is run once, whatever happens: nothing says that a second run does no harm.
	Once = Operation{}
	// Unsafe has an effect that must not happen twice. It is run again only if the last run is proved to have had none: the
	// connection was refused, the transaction rolled back.
	Unsafe = Operation{kind: onProof}
	// Read has no effect, so that its failure is always NotApplied.
	Read = Operation{kind: read}
	// Idempotent has the same effect however often it is run: it sets a value, or deletes a row.
	Idempotent = Operation{kind: always}
)

// Keyed is an operation whose other side knows a repetition by key. Every attempt gets this same key, in [Attempt].Key. It
// belongs to the operation, not to the attempt or the call: derive it from the order, or keep it with it. [Do] refuses an
// empty key with [ErrNoKey].
func Keyed(key string) Operation {
	if key == "" {
		return Operation{kind: keyless}
	}
	return Operation{kind: always, key: key}
}

// Because returns the operation with the error that [Error].Stop has when o is the reason why it was not run again, in place
// of [ErrOnce] and [ErrUnsafe].
func (o Operation) Because(why error) Operation {
	o.why = why
	return o
}

// refusal is why o must not be run once more after an attempt that proved, or not, to have had no effect. nil: it may.
func (o Operation) refusal(proved bool) error {
	why := o.why
	switch {
	case o.kind == always || o.kind == read || o.kind == onProof && proved:
		return nil
	case why == nil && o.kind == onProof:
		return ErrUnsafe
	case why == nil:
		return ErrOnce
	}
	return why
}

// An Attempt is what an attempt is told of itself.
type Attempt struct {
	// Number counts from 1.
	Number int
	// Key is that of [Keyed], the same in every attempt.
	Key string
}
