//go:build !linux

package clock

import "time"

// sinceBoot is the wall clock where nothing better is at hand: it moves while the machine is suspended. A step forward costs a
// lease that was still good; a step back costs nothing, since the monotonic clock is asked too.
func sinceBoot() time.Duration { return time.Duration(time.Now().UnixNano()) }
