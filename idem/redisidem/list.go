package redisidem

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/redisscript"
)

var (
	//go:embed lua/open.lua
	openSource string
	//go:embed lua/show.lua
	showSource string

	openScript = script(openSource)
	showScript = script(showSource)
)

// Sizes of a page of a list.
const (
	pageSize    = 100
	longestPage = 1000
)

// List implements [idem.Store]. Keys that are open are found by their indices: it reads the whole of these, and the records of the page.
// Others are found by a scan of all that the servers have, whoever's it is.
func (s *Store) List(ctx context.Context, f idem.Filter) (list []idem.Record, err error) {
	if s.err != nil {
		return nil, s.err
	}
	limit := pageSize
	if f.Limit > 0 {
		limit = min(f.Limit, longestPage)
	}
	switch {
	case f.ID != idem.ID{}:
		list, err = s.show(ctx, f, []idem.ID{f.ID})
	case open(f.States):
		list, err = s.listOpen(ctx, f, limit)
	default:
		list, err = s.scan(ctx, f, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("redisidem: list: %w", err)
	}
	return page(list, limit), nil
}

// open reports whether states are open ones alone.
func open(states []idem.State) bool {
	for _, state := range states {
		if state != idem.Running && state != idem.Unknown && state != idem.Pending {
			return false
		}
	}
	return len(states) > 0
}

// page returns the first of list, which it puts in order.
func page(list []idem.Record, limit int) []idem.Record {
	slices.SortFunc(list, byAge)
	list = slices.CompactFunc(list, func(a, b idem.Record) bool { return a.ID == b.ID })
	return list[:min(limit, len(list))]
}

func byAge(a, b idem.Record) int {
	return cmp.Or(a.Created.Compare(b.Created), bytes.Compare(a.ID[:], b.ID[:]))
}

// listOpen returns open keys in the order of their age, as many as limit if there are.
func (s *Store) listOpen(ctx context.Context, f idem.Filter, limit int) (list []idem.Record, err error) {
	for {
		ages, err := s.ages(ctx, f, limit)
		if err != nil {
			return nil, err
		}
		ids := make([]idem.ID, len(ages))
		for i, age := range ages {
			ids[i], _ = idOf(age, idInAge)
		}
		found, err := s.show(ctx, f, ids)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
		if len(ages) < limit || len(list) >= limit {
			return list, nil
		}
		last := ages[len(ages)-1] // scopes are not in the index: go on behind what was looked at
		micros, err := strconv.ParseInt(last[:idInAge-1], 10, 64)
		if err != nil {
			return nil, err
		}
		f.After = idem.Record{ID: ids[len(ids)-1], Created: time.UnixMicro(micros)}
	}
}

// idInAge is where the ID is in "created id".
const idInAge = 17

// ages returns "created id" of the oldest open keys that f asks for, but for their scope.
func (s *Store) ages(ctx context.Context, f idem.Filter, limit int) (ages []string, err error) {
	after := ""
	if !f.After.Created.IsZero() {
		after = fmt.Sprintf("%016d %s", f.After.Created.UnixMicro(), f.After.ID)
	}
	calls := make([]redisscript.Call, shards)
	for shard := range calls {
		calls[shard] = redisscript.Call{Keys: s.index(shard), Args: []any{
			letters(f.States...), f.Name, after, max(f.OlderThan, 0).Microseconds(), limit,
		}}
	}
	calls, err = s.scripts.RunAll(ctx, openScript, calls)
	for _, c := range calls {
		values, _ := c.Reply.([]any)
		for _, value := range values {
			age, _ := value.(string)
			if _, ok := idOf(age, idInAge); !ok {
				return nil, fmt.Errorf("%w: %v", errReply, c.Reply)
			}
			ages = append(ages, age)
		}
		err = cmp.Or(err, c.Err)
	}
	slices.Sort(ages)
	return ages[:min(limit, len(ages))], err
}

// show returns the records of ids that f asks for.
func (s *Store) show(ctx context.Context, f idem.Filter, ids []idem.ID) (list []idem.Record, err error) {
	calls := make([]redisscript.Call, len(ids))
	for i, id := range ids {
		calls[i] = redisscript.Call{Keys: s.keys(id)[:3], Args: []any{id.String()}}
	}
	calls, err = s.scripts.RunAll(ctx, showScript, calls)
	if err != nil {
		return nil, err
	}
	for i, c := range calls {
		if c.Err != nil {
			return nil, c.Err
		}
		r, err := s.told("show", ids[i], c.Reply)
		if err != nil {
			return nil, err
		}
		now, _ := c.Reply.([]any)[0].(int64)
		if asked(f, r, time.UnixMicro(now)) {
			list = append(list, r)
		}
	}
	return list, nil
}

// asked reports whether f asks for r.
func asked(f idem.Filter, r idem.Record, now time.Time) bool {
	return r.State != 0 && (len(f.States) == 0 || slices.Contains(f.States, r.State)) &&
		(f.Scope == "" || f.Scope == r.Scope) && (f.Name == "" || f.Name == r.Name) &&
		!r.Created.After(now.Add(-max(f.OlderThan, 0))) &&
		(f.After.Created.IsZero() || byAge(r, f.After) > 0)
}
