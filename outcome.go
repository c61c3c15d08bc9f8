package holdfast

import "errors"

// An Outcome says what is known about the effect of an operation. A remote effect has three outcomes, not two: the
// reply can be lost after the effect happened, and nothing that the caller holds tells which it was.
type Outcome int

const (
	// Unknown means that the effect may or may not have happened. Only an idempotent operation may be tried again.
	Unknown Outcome = iota
	// Applied means that the effect is proved to have happened.
	Applied
	// NotApplied means that the effect is proved not to have happened. Trying again is safe.
	NotApplied
)

// String returns "unknown", "applied" or "not applied".
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case NotApplied:
		return "not applied"
	default:
		return "unknown"
	}
}

// OutcomeOf returns what err says of the operation that returned it. A nil error is [Applied]. The outermost error in
// the chain that has a method Outcome() Outcome decides. Any other error is [Unknown]: an error that proves nothing
// must not be read as "it did not happen".
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Applied
	}
	var stated interface{ Outcome() Outcome }
	if errors.As(err, &stated) {
		return stated.Outcome()
	}
	return Unknown
}
