package redislease

import "errors"

var (
	// ErrInvalid: an option or the client cannot be used.
	ErrInvalid = errors.New("redislease: invalid")
	// ErrServer: a server cannot keep leases as it is. See [ServerError].
	ErrServer = errors.New("redislease: the server cannot keep leases")
)

var errReply = errors.New("the server's reply is none of the script's")

// A ServerError says what is wrong with a server, and how to mend it. It matches [ErrServer].
type ServerError struct {
	// Server is what the server says of itself.
	Server Server
	// Reason is what is wrong.
	Reason string
}

// Error says what is wrong.
func (e *ServerError) Error() string {
	return "redislease: the server (" + e.Server.String() + ") " + e.Reason
}

// Is matches ErrServer.
func (e *ServerError) Is(target error) bool { return target == ErrServer }
