// Package fault breaks an operation on a database at any point, in any mode, and checks what is left.
//
// An [Injector] counts the points that one process passes and breaks those of its plan. It sits in a database/sql driver
// ([Injector.Connector]), in a [tx.Driver] ([Driver]) or on the wire ([Injector.Script]). A [Scenario] is run at every
// point in every mode.
package fault

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A Mode is what goes wrong at a point.
type Mode int

// The modes. Those after the effect make the caller believe the opposite of what happened.
const (
	// ErrorBefore: the database refuses the operation.
	ErrorBefore Mode = iota + 1
	// ErrorAfter: the operation has its effect and returns an error all the same. Of a commit it is a lost reply: no
	// database refuses what it has committed.
	ErrorAfter
	// CutBefore: the connection breaks before the operation reaches the database.
	CutBefore
	// CutAfter: the connection breaks after the effect, before the reply.
	CutAfter
	// CancelBefore: the context of the caller ends before the operation.
	CancelBefore
	// CancelAfter: it ends after the operation, which succeeds.
	CancelAfter
	// CrashBefore: the process dies before the operation: nothing that it does reaches the database any more.
	CrashBefore
	// CrashAfter: it dies after the effect.
	CrashAfter
	// Panic: the operation panics.
	Panic
	// Goexit: the goroutine exits in the operation.
	Goexit
	// Silence: the message disappears and the connection stays open; then the context of the caller ends.
	Silence
	// Trickle: the message arrives byte by byte.
	Trickle
)

var modeNames = [...]string{
	"", "error-before", "error-after", "cut-before", "cut-after", "cancel-before", "cancel-after", "crash-before",
	"crash-after", "panic", "goexit", "silence", "trickle",
}

// String returns the name that [Parse] reads.
func (m Mode) String() string {
	if m < 1 || int(m) >= len(modeNames) {
		return "invalid"
	}
	return modeNames[m]
}

// Sets of modes: those that a kind of point can have.
var (
	aroundModes = []Mode{ErrorBefore, ErrorAfter, CutBefore, CutAfter, CancelBefore, CancelAfter, CrashBefore, CrashAfter}
	allModes    = append(slices.Clone(aroundModes), Panic, Goexit)
)

// A Fault is one thing that goes wrong. Points count from 1.
type Fault struct {
	Point int
	Mode  Mode
}

// A Plan is what goes wrong in one run, by the order of points.
type Plan []Fault

// String returns the plan as [Parse] reads it, such as "7:cut-after,9:error-before".
func (p Plan) String() string {
	var parts []string
	for _, f := range p {
		parts = append(parts, fmt.Sprintf("%d:%v", f.Point, f.Mode))
	}
	return strings.Join(parts, ",")
}

// Parse reads a plan.
func Parse(text string) (Plan, error) {
	var p Plan
	for part := range strings.SplitSeq(text, ",") {
		number, name, _ := strings.Cut(strings.TrimSpace(part), ":")
		point, err := strconv.Atoi(number)
		mode := slices.Index(modeNames[:], name)
		if err != nil || point < 1 || mode < 1 {
			return nil, fmt.Errorf("fault: %q is no fault: write point and mode, such as 7:cut-after", part)
		}
		p = append(p, Fault{Point: point, Mode: Mode(mode)})
	}
	return p, nil
}

// Injected is the value of a panic that a plan asked for.
type Injected struct{ Fault }

func (i Injected) Error() string { return "fault: injected at point " + i.Fault.String() }

// String returns the fault as a plan of one.
func (f Fault) String() string { return Plan{f}.String() }

// Errors that operations return when they are broken.
var (
	// ErrRefused is an error of the database. It carries a SQLSTATE, so that it is known to be the server's own.
	ErrRefused error = refused{}
	// ErrUnsent: the connection broke before the operation was sent.
	ErrUnsent = fmt.Errorf("fault: the connection broke before the statement was sent: %w", io.ErrUnexpectedEOF)
	// ErrLost: the connection broke, and the reply is lost.
	ErrLost = fmt.Errorf("fault: the connection broke before the reply: %w", io.ErrUnexpectedEOF)
	// ErrCrashed: the process is dead.
	ErrCrashed = fmt.Errorf("fault: the process has crashed: %w", io.ErrUnexpectedEOF)
)

type refused struct{}

func (refused) Error() string { return "fault: the database refused the statement" }

// SQLState returns internal_error.
func (refused) SQLState() string { return "XX000" }
