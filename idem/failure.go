package idem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// A Failure is a business failure that is an answer: the card is declined, the stock is gone. The closure returns one,
// or [Terminal] of an error, to have it stored and replayed while its own writes are undone. A repetition gets an equal
// Failure without running again. It matches [ErrFailed].
type Failure struct {
	// Status is the HTTP status to answer with, and decides whether the failure is an answer: see [Failure.Stored]. 0
	// means that the failure has none, and is stored.
	Status int
	// Message is the text of the error.
	Message string
	// Body is what to answer, replayed byte for byte unless it is larger than Options.MaxBody: then a repetition gets none.
	// It may be nil.
	Body []byte

	cause error
}

// Terminal marks err as final: trying again with the same request cannot succeed. The first caller's error wraps err;
// a replayed one has its text. Terminal(nil) is nil. A serialization failure or a deadlock is not final, marked or not: the
// closure runs again.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &Failure{Message: err.Error(), cause: err}
}

func (f *Failure) Error() string {
	switch {
	case f.Message != "":
		return f.Message
	case f.Status != 0:
		return fmt.Sprintf("%v: status %d", ErrFailed, f.Status)
	}
	return ErrFailed.Error()
}

// Unwrap returns the error given to [Terminal], on the call that ran the operation.
func (f *Failure) Unwrap() error { return f.cause }

// Is matches ErrFailed.
func (f *Failure) Is(target error) bool { return target == ErrFailed }

// Outcome returns NotApplied: the writes of a failed operation are undone. Where Options.KeepFailedWrites says otherwise,
// the error that Do returns wraps the failure and is Applied.
func (f *Failure) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// Stored reports whether the failure is an answer to keep: one without a status, or with a status below 500 that another
// attempt cannot change. 408, 409, 421, 423, 425 and 429 ask for another attempt, and 5xx is the server's own trouble:
// the transaction rolls back and the key is free again.
func (f *Failure) Stored() bool {
	switch f.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusMisdirectedRequest, http.StatusLocked,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return f.Status < http.StatusInternalServerError
}

// asFailure returns the failure that err is, if it is one to store. One that wraps a conflict is none, whatever the closure
// made of it: only a fresh transaction can tell.
func (k *Keys[T]) asFailure(err error) (*Failure, bool) {
	if err == nil {
		return nil, false
	}
	var f *Failure
	if !errors.As(err, &f) || !f.Stored() || k.conflict(err) {
		return nil, false
	}
	return f, true
}

// conflict reports whether the transaction met a conflict. What another Do has used up its attempts on is not one.
func (k *Keys[T]) conflict(err error) bool {
	var inner *tx.AbortError
	return k.db.Classify(err) == tx.Retryable && !errors.As(err, &inner)
}

// storedFailure is the JSON form of a failure in the database.
// Both are bytes, so that what is not UTF-8 comes back as it was.
type storedFailure struct {
	Message []byte `json:"message"`
	Body    []byte `json:"body"`
}

// encode returns the stored form. A body or message above the limit is not kept: the status is what a repetition must get.
func (f *Failure) encode(limit int) ([]byte, error) {
	s := storedFailure{Message: []byte(f.Message), Body: f.Body}
	if len(s.Body) > limit {
		s.Body = nil
	}
	if len(s.Message) > limit {
		s.Message = s.Message[:max(limit, 0)]
	}
	return json.Marshal(s)
}

func decodeFailure(status int, text []byte) (*Failure, error) {
	var s storedFailure
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("%w: stored failure: %w", ErrResult, err)
	}
	return &Failure{Status: status, Message: string(s.Message), Body: s.Body}, nil
}

// A toldError says what became of the operation, where err by itself says something else or nothing.
type toldError struct {
	error
	outcome holdfast.Outcome
}

func (e toldError) Unwrap() error { return e.error }

func (e toldError) Outcome() holdfast.Outcome { return e.outcome }

// kept returns err, marked if it is a failure that is stored beside its writes.
func (k *core) kept(e entry, err error) error {
	if e.state == stateFailed && k.o.KeepFailedWrites {
		return toldError{err, holdfast.Applied}
	}
	return err
}

// unread returns err, of an answer that is there and could not be read, marked with what it is the answer of.
func (k *core) unread(state int, err error) error {
	if !errors.Is(err, ErrResult) {
		return err
	}
	if state == stateFailed && !k.o.KeepFailedWrites {
		return toldError{err, holdfast.NotApplied}
	}
	return toldError{err, holdfast.Applied}
}
