package lease

import "time"

// A clock tells the time in two ways.
type clock struct {
	now  func() time.Time     // with the monotonic reading, which timers follow
	boot func() time.Duration // moves also while the machine sleeps
}

var systemClock = clock{now: time.Now, boot: sinceBoot}

// A moment is a reading of both.
type moment struct {
	at   time.Time
	boot time.Duration
}

func (c clock) read() moment { return moment{at: c.now(), boot: c.boot()} }

// since is how much time passed, by whichever clock says that it was more.
func (c clock) since(m moment) time.Duration {
	now := c.read()
	return max(now.at.Sub(m.at), now.boot-m.boot)
}
