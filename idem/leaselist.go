package idem

import (
	"context"
	"encoding/json"
)

// List implements [Store].
func (s *sqlStore[T]) List(ctx context.Context, f Filter) ([]Record, error) {
	query := s.sql.list
	if f.open() {
		query = s.sql.listOpen
	}
	states, err := json.Marshal(f.states())
	if err != nil {
		return nil, err
	}
	var id any
	if f.ID != (ID{}) {
		id = f.ID[:]
	}
	return s.records(ctx, query, id, f.Scope, f.Name, string(states), max(f.OlderThan, 0).Microseconds(), f.after(), f.After.ID[:], f.limit())
}

// after is when the last record of the page before was claimed, in microseconds since 1970.
func (f *Filter) after() int64 {
	if f.After.Created.IsZero() {
		return 0
	}
	return f.After.Created.UnixMicro()
}

// Sizes of a page of a list.
const (
	pageSize    = 100
	longestPage = 1000
)

func (f *Filter) limit() int {
	if f.Limit <= 0 {
		return pageSize
	}
	return min(f.Limit, longestPage)
}

func (f *Filter) states() []State {
	if len(f.States) == 0 {
		return []State{Running, Completed, Failed, Expired, Unknown, Pending}
	}
	return f.States
}

// open reports whether f asks for open keys alone.
func (f *Filter) open() bool {
	for _, s := range f.states() {
		if !s.open() {
			return false
		}
	}
	return true
}
