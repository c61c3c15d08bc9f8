package main

import (
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/holdfast-go/holdfast/counter"
)

// counters is a group whose operation adds to one counter, durably.
var counters = group{
	name: "counter",
	variants: func(s *setup) []variant {
		return []variant{
			{"pgx, one hot row", s.hotRow},
			{"pgx, 16 slots", s.sixteenSlots},
			{"counter.Add, shared commits", s.counterShared},
			{"counter.Add, 16 slots", s.counterSlots},
			{"counter.Add with Once, shared commits", s.counterOnce},
		}
	},
	bars: []bar{
		{at: 2, reference: 0, direct: 0.85, remote: 0.85, byCallers: map[int]float64{8: 5, 32: 25}},
		{at: 3, reference: 1, direct: 0.85, remote: 0.85},
	},
}

const slots = 16

func (s *setup) fillCounters(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `create table raw_counter (name text, slot integer, n bigint not null, primary key (name, slot));
		insert into raw_counter select 'hot', 0, 0 union all select 'slots', generate_series(0, 15), 0`)
	if err != nil {
		return err
	}
	s.counters, s.slotted = counter.New(s.db, nil), counter.New(s.db, &counter.Options{MaxBatch: 1})
	if err := counter.Migrate(ctx, s.db, counter.Names{}); err != nil {
		return err
	}
	return s.slotted.Resize(ctx, "slots", slots)
}

const addSQL = `update raw_counter set n = n + 1 where name = $1 and slot = $2 returning n`

func (s *setup) hotRow(ctx context.Context, _ int, _ int64) error {
	return s.pool.QueryRow(ctx, addSQL, "hot", 0).Scan(new(int64))
}

func (s *setup) sixteenSlots(ctx context.Context, _ int, _ int64) error {
	return s.pool.QueryRow(ctx, addSQL, "slots", rand.IntN(slots)).Scan(new(int64)) //nolint:gosec // any slot does
}

func (s *setup) counterShared(ctx context.Context, _ int, _ int64) error {
	_, err := s.counters.Add(ctx, "hot", 1)
	return err
}

func (s *setup) counterSlots(ctx context.Context, _ int, _ int64) error {
	_, err := s.slotted.Add(ctx, "slots", 1)
	return err
}

func (s *setup) counterOnce(ctx context.Context, _ int, seq int64) error {
	_, err := s.counters.Add(ctx, "once", 1, counter.Once(strconv.FormatInt(seq, 10)))
	return err
}
