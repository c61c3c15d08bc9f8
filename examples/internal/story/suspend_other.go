//go:build !unix

package story

import (
	"errors"
	"os"
)

func suspend(*os.Process) error { return errors.ErrUnsupported }
func wake(*os.Process) error    { return errors.ErrUnsupported }
