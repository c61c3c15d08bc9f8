// Package clock tells how much time has passed also where the machine slept meanwhile: a lease elsewhere does not sleep with it.
package clock

import "time"

// A Clock tells the time in two ways.
type Clock struct {
	Now  func() time.Time     // with the monotonic reading, which timers follow
	Boot func() time.Duration // moves also while the machine sleeps
}

// System is the clock of the machine.
var System = Clock{Now: time.Now, Boot: sinceBoot}

// A Moment is a reading of both.
type Moment struct {
	At   time.Time
	boot time.Duration
}

// Read returns the moment.
func (c Clock) Read() Moment { return Moment{At: c.Now(), boot: c.Boot()} }

// Since is how much time passed, by whichever clock says that it was more.
func (c Clock) Since(m Moment) time.Duration {
	now := c.Read()
	return max(now.At.Sub(m.At), now.boot-m.boot)
}
