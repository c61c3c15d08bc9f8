package redisidem

import "errors"

var (
	// ErrInvalid: an option or the client cannot be used.
	ErrInvalid = errors.New("redisidem: invalid")
	// ErrServer: a server cannot keep keys as it is. See [ServerError].
	ErrServer = errors.New("redisidem: the server cannot keep keys")
)

var errReply = errors.New("the server's reply is none of the script's")

// A ServerError says what is wrong with a server, and how to mend it. It matches [ErrServer].
type ServerError struct {
	// Server is its name and version.
	Server string
	// Reason is what is wrong.
	Reason string
}

// Error says what is wrong.
func (e *ServerError) Error() string { return "redisidem: the server (" + e.Server + ") " + e.Reason }

// Is matches ErrServer.
func (e *ServerError) Is(target error) bool { return target == ErrServer }
