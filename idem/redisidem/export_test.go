package redisidem

import "github.com/holdfast-go/holdfast/internal/redisnodes"

// TakeHash names the script that takes keys over.
var TakeHash = takeScript.Hash()

// Fault returns why a server that says this of itself cannot keep keys.
func (s *Store) Fault(info string) string { return s.fault(redisnodes.Read(info)) }
