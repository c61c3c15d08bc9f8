package redisflight

import (
	"errors"

	"github.com/holdfast-go/holdfast/singleflight"
)

// ErrInvalid: an argument or option cannot be used.
var ErrInvalid = errors.New("redisflight: invalid")

var (
	errSlow   = errors.New("redisflight: Redis did not answer within Options.Timeout")
	errFormat = errors.New("redisflight: what is stored was not written by this package")
	errReply  = errors.New("redisflight: the server's reply is none of the script's")
)

// A notFound is an error that was remembered.
type notFound struct{ text string }

func (e *notFound) Error() string { return e.text }

func (e *notFound) Unwrap() error { return singleflight.ErrNotFound }
