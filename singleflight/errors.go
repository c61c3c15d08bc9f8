package singleflight

import (
	"errors"
	"fmt"
)

// Errors, which errors.Is finds in what the methods return.
var (
	// ErrClosed: the group or cache was closed.
	ErrClosed = errors.New("singleflight: closed")
	// ErrGoexit: the function ended its goroutine by runtime.Goexit, as t.FailNow does, and so returned nothing.
	ErrGoexit = errors.New("singleflight: the function called runtime.Goexit instead of returning")
	// ErrNested: the function asks for the key that it is called for, and would wait for itself.
	ErrNested = errors.New("singleflight: the function asks for its own key, and would wait for itself: call what loads it directly")
	// ErrNotFound is for loads to wrap when there is no value. A [Cache] can remember that: see CacheOptions.NotFoundTTL.
	ErrNotFound = errors.New("singleflight: not found")
	// ErrInvalid: an option cannot be used.
	ErrInvalid = errors.New("singleflight: invalid option")
)

// A PanicError is the panic of a function, for each caller that waited for it. If the value is an error, it wraps that.
type PanicError struct {
	// Value is what panic was called with.
	Value any
	// Stack is that of the goroutine that panicked, as debug.Stack prints it.
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("singleflight: the function panicked: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
