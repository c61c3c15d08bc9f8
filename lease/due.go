package lease

import (
	"context"
	"slices"
	"time"
)

// Due returns the slots that are to be run now, by the server's clock, the oldest first: those whose run died or was stopped, and
// those that JobOptions.Missed and Schedule say. A job begins with the first slot after it was first seen, by this method, by
// [Job.Tick] or [Job.Run], so that none is missed before that.
//
// It returns [*InputError] and errors of the database.
func (j *Job[T]) Due(ctx context.Context) ([]time.Time, error) {
	due, _, err := j.due(ctx)
	return due, err
}

// due returns also the time by the server's clock.
func (j *Job[T]) due(ctx context.Context) (due []time.Time, now time.Time, err error) {
	if err := j.scheduled(); err != nil {
		return nil, now, err
	}
	now, first, due, err := j.open(ctx)
	if err != nil {
		return nil, now, err
	}
	if first.IsZero() {
		return nil, now, j.see(ctx, now)
	}
	missed := j.missed(now, first)
	if len(missed) == 0 {
		return due, now, nil
	}
	known, err := j.known(ctx, missed[0])
	if err != nil {
		return nil, now, err
	}
	for _, slot := range missed {
		if !known[slot] {
			due = append(due, slot)
		}
	}
	slices.SortFunc(due, time.Time.Compare)
	return due, now, nil
}

// missed returns the slots that the policy says, whether they are known or not.
func (j *Job[T]) missed(now, first time.Time) []time.Time {
	if ago := now.Add(-j.o.Window); first.Before(ago) {
		first = ago
	}
	last := lastInstants(j.o.Schedule, first.In(j.o.Location), now, max(int(j.o.Missed), 1))
	for i := range last {
		last[i] = slotOf(last[i])
	}
	if j.o.Missed == Skip && len(last) > 0 && now.Sub(last[0]) > j.o.Late {
		return nil
	}
	return last
}

// open asks for the time, the first slot that is known, and those that have begun and have no run.
func (j *Job[T]) open(ctx context.Context) (now, first time.Time, open []time.Time, err error) {
	err = j.store.again(ctx, func() error {
		open = nil
		rows, err := j.store.db.Conn().Query(ctx, j.sql.open, j.name, j.o.Window.Milliseconds())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var at, from, slot int64
			var alive bool
			if err := rows.Scan(&at, &from, &slot, &alive); err != nil {
				return err
			}
			now = time.UnixMilli(at).UTC()
			if from != 0 {
				first = time.UnixMilli(from).UTC()
			}
			if slot != 0 && !alive {
				open = append(open, time.UnixMilli(slot).UTC())
			}
		}
		return rows.Err()
	})
	return now, first, open, err
}

// see writes that the job was seen.
func (j *Job[T]) see(ctx context.Context, now time.Time) error {
	last := now
	if passed := lastInstants(j.o.Schedule, now.Add(-j.o.Window).In(j.o.Location), now, 1); len(passed) > 0 {
		last = passed[0]
	}
	return j.store.again(ctx, func() error {
		_, err := j.store.db.Conn().Exec(ctx, j.sql.see, j.name, slotOf(last).UnixMilli())
		return err
	})
}

// known returns the slots from one on that have begun or need not.
func (j *Job[T]) known(ctx context.Context, from time.Time) (known map[time.Time]bool, err error) {
	err = j.store.again(ctx, func() error {
		known = map[time.Time]bool{}
		rows, err := j.store.db.Conn().Query(ctx, j.sql.known, j.name, from.UnixMilli())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var slot int64
			if err := rows.Scan(&slot); err != nil {
				return err
			}
			known[time.UnixMilli(slot).UTC()] = true
		}
		return rows.Err()
	})
	return known, err
}
