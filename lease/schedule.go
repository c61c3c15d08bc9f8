package lease

import "time"

// A Schedule says when a job is due. It is that of robfig/cron, whose parsed expressions can be used. Its instants must not depend
// on the process that asks.
type Schedule interface {
	// Next returns the first instant after t, or the zero time if there is none.
	Next(t time.Time) time.Time
}

// Every is the schedule of a period, counted from 1 January of the year 1, a Monday, in UTC: Every(24*time.Hour) is midnight.
type Every time.Duration

// Next implements [Schedule]. A period below a millisecond has no instants.
func (e Every) Next(t time.Time) time.Time {
	if time.Duration(e) < time.Millisecond {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Duration(e)).Add(time.Duration(e))
}

// Missed says which slots are begun that nobody began in time, since no process was there or all were busy.
type Missed int

const (
	// Skip begins none.
	Skip Missed = iota - 1
	// Latest begins the last of them, until the next one is due.
	Latest
)

// mostMissed bounds how many slots [All] looks at.
const mostMissed = 1000

// All begins the last n slots that are due, the oldest first, if nobody has begun them. n is 1000 at most; 0 is [Latest].
func All(n int) Missed { return Missed(n) }

// anchored reports whether the instants of s are the same whenever it is asked.
func anchored(s Schedule) bool {
	now := time.Unix(1_700_000_000, 0).UTC()
	next := s.Next(now)
	if !next.After(now) {
		return false
	}
	return s.Next(now.Add(next.Sub(now) / 2)).Equal(next)
}

// lastInstants returns the last n instants of s that are after the one time and not after the other, the oldest first.
func lastInstants(s Schedule, after, until time.Time, n int) []time.Time {
	for back := time.Minute; ; back *= 4 { // a long window of a short period has too many to go through
		from := until.Add(-back)
		if from.Before(after) {
			from = after
		}
		if found := instants(s, from, until, n); len(found) == n || from.Equal(after) {
			return found
		}
	}
}

func instants(s Schedule, after, until time.Time, n int) []time.Time {
	var found []time.Time
	for at := s.Next(after); at.After(after) && !at.After(until); at = s.Next(at) {
		if found = append(found, at); len(found) > n {
			found = found[1:]
		}
		after = at
	}
	return found
}
