package counter

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// A Result is what a call that succeeded found.
type Result struct {
	// Value is the value right after the change, if Exact.
	Value int64
	// Exact tells that Value is known: not of a counter in slots, whose total the change does not read, and not of an
	// operation that was applied before.
	Exact bool
	// Replayed tells that the operation had been applied before, by a call with the same ID, and was not applied again. It
	// is false where a lost reply was looked up: nobody knows then which call it was.
	Replayed bool
}

// An Option changes one call.
type Option func(*change)

// Once gives the change an operation ID, such as the ID of the request or the message that asks for it: of all calls for a
// counter with one ID, at any time within Options.TTL and in any process, one is applied. With it a call may be repeated
// whatever its error was, and a reply that was lost is looked up. A refused call does not use up its ID.
func Once(id string) Option { return func(c *change) { c.once, c.op = true, id } }

// change is one call for one counter.
type change struct {
	key   string
	delta int64
	floor bool // not below 0
	once  bool
	op    string
}

// longest is how many bytes of a key or an operation ID fit into an index of PostgreSQL, with room for both.
const longest = 1024

func newChange(key string, delta int64, options []Option) (change, error) {
	ch := change{key: key, delta: delta}
	for _, o := range options {
		if o == nil {
			return ch, &InputError{Name: "option", Reason: "is nil"}
		}
		o(&ch)
	}
	if err := checkText("key", key); err != nil {
		return ch, err
	}
	if ch.once {
		return ch, checkText("operation ID", ch.op)
	}
	return ch, nil
}

// newTake makes a change that takes n.
func newTake(key string, n int64, options []Option) (change, error) {
	if n <= 0 {
		return change{}, &InputError{Name: "amount", Reason: fmt.Sprintf("is %d: take 1 or more", n)}
	}
	ch, err := newChange(key, -n, options)
	ch.floor = true
	return ch, err
}

func checkText(name, text string) error {
	reason := ""
	switch {
	case text == "":
		reason = "is empty"
	case len(text) > longest:
		reason = fmt.Sprintf("has %d bytes, at most %d are allowed: give a hash of it", len(text), longest)
	case strings.ContainsRune(text, 0):
		reason = "contains a NUL byte"
	case !utf8.ValidString(text):
		reason = "is not valid UTF-8"
	default:
		return nil
	}
	return &InputError{Name: name, Reason: reason}
}

// repeated answers for an operation that has been applied with an amount of had.
func (ch change) repeated(had int64) (Result, error) {
	if had != ch.delta {
		return Result{}, &MismatchError{Key: ch.key, Had: had, Got: ch.delta}
	}
	return Result{Replayed: true}, nil
}

// refuse returns the error of a change that a value of have does not allow, or nil. largest bounds the value.
func (ch change) refuse(have, largest int64, floor bool) error {
	if over := ch.delta > 0 && have > largest-ch.delta; over {
		return &OverflowError{Key: ch.key, Have: have, Add: ch.delta}
	}
	if ch.delta < 0 && have < -largest-ch.delta-1 {
		if floor {
			return &InsufficientError{Key: ch.key, Have: have, Want: negative(ch.delta)}
		}
		return &OverflowError{Key: ch.key, Have: have, Add: ch.delta}
	}
	if floor && have+ch.delta < 0 {
		return &InsufficientError{Key: ch.key, Have: have, Want: negative(ch.delta)}
	}
	return nil
}

// negative returns -n, or the nearest.
func negative(n int64) int64 {
	if n == math.MinInt64 {
		return math.MaxInt64
	}
	return -n
}

// A markOp is an operation on its way into the table of operations.
type markOp struct {
	Op    string `json:"op"`
	Delta int64  `json:"delta"`
}

func marksJSON(marks ...markOp) string {
	text, err := json.Marshal(marks)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(text)
}
