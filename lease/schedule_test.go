package lease

import (
	"slices"
	"testing"
	"time"
)

// until is a schedule that ends.
type until struct {
	Every

	end time.Time
}

func (u until) Next(t time.Time) time.Time {
	if next := u.Every.Next(t); !next.After(u.end) {
		return next
	}
	return time.Time{}
}

func TestLastInstants(t *testing.T) {
	t.Parallel()
	noon := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	const year = 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		s            Schedule
		after, until time.Time
		n            int
		want         []time.Time
	}{
		"the last":                  {Every(time.Hour), at(-year), at(1), 1, []time.Time{noon}},
		"the end belongs to it":     {Every(time.Hour), at(-year), noon, 2, []time.Time{at(-time.Hour), noon}},
		"the beginning does not":    {Every(time.Hour), at(-time.Hour), noon, 5, []time.Time{noon}},
		"none yet":                  {Every(time.Hour), noon, at(time.Minute), 5, nil},
		"a long period":             {Every(30 * 24 * time.Hour), at(-year), noon, 1, []time.Time{time.Date(2024, 2, 15, 0, 0, 0, 0, time.UTC)}},
		"a schedule that has ended": {until{Every(time.Hour), at(-3 * time.Hour)}, at(-year), noon, 1, []time.Time{at(-3 * time.Hour)}},
		"one that never began":      {until{Every(time.Hour), at(-2 * year)}, at(-year), noon, 3, nil},
	} {
		if got := lastInstants(c.s, c.after, c.until, c.n); !slices.EqualFunc(got, c.want, time.Time.Equal) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// asked counts how often a schedule is asked.
type asked struct {
	Every

	n int
}

func (a *asked) Next(t time.Time) time.Time {
	a.n++
	return a.Every.Next(t)
}

// A short period in a long window is not gone through from its beginning.
func TestLastInstantsOfAShortPeriod(t *testing.T) {
	t.Parallel()
	s := &asked{Every: Every(time.Second)}
	now := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	if got := lastInstants(s, now.AddDate(-1, 0, 0), now, 10); len(got) != 10 || !got[9].Equal(now) {
		t.Errorf("got %v", got)
	}
	if s.n > 100 {
		t.Errorf("asked %d times", s.n)
	}
}

// A timer that fires a little early, as after a step of the clock, means the slot that comes, and a late one the slot that was.
func TestNearest(t *testing.T) {
	t.Parallel()
	noon := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	j := &Job[any]{o: JobOptions{Schedule: Every(time.Hour), Location: time.UTC, Ahead: time.Minute, Window: 24 * time.Hour}}
	for fired, want := range map[time.Duration]time.Time{
		0: noon, time.Second: noon, 59 * time.Minute: noon.Add(time.Hour), 58 * time.Minute: noon, -time.Second: noon,
		-time.Minute: noon, -2 * time.Minute: noon.Add(-time.Hour),
	} {
		if got, err := j.nearest(noon.Add(fired)); err != nil || !got.Equal(want) {
			t.Errorf("fired at %v: %v, %v", noon.Add(fired), got, err)
		}
	}
	j.o.Schedule = Every(time.Second)
	if got, err := j.nearest(noon.Add(400 * time.Millisecond)); err != nil || !got.Equal(noon) {
		t.Errorf("of a short period: %v, %v", got, err)
	}
	j.o.Schedule = Every(7 * 24 * time.Hour)
	if got, err := j.nearest(noon); err != nil || !got.Equal(time.Date(2024, 3, 4, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("with none in the window: %v, %v", got, err)
	}
}

func TestEvery(t *testing.T) {
	t.Parallel()
	if got := Every(7 * 24 * time.Hour).Next(time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)); got.Weekday() != time.Monday {
		t.Errorf("weeks begin at %v", got)
	}
	east := time.Date(2024, 2, 29, 1, 0, 0, 0, time.FixedZone("east", 9*3600))
	if got := Every(24 * time.Hour).Next(east); !got.Equal(time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the day begins at %v", got)
	}
	if got := Every(time.Microsecond).Next(east); !got.IsZero() {
		t.Errorf("got %v", got)
	}
}
