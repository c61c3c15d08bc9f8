package idem

import (
	"context"
	"errors"
)

// A Listed is a key in a list.
type Listed struct {
	Record

	// Made are the steps that have begun, in their order. They are left out where no codec of Options.Codecs opens them.
	Made []StepState
}

// A StepState is what is known of one step.
type StepState struct {
	Name    string
	Version int
	// Saved tells that it was made and its result recorded. Otherwise it has begun, and nobody knows more.
	Saved bool
}

// List returns a page of the keys that f asks for, the oldest first, and no answers. The next page has the last Record of this one
// as Filter.After. A list of keys that are not all open reads the whole table. It returns [*KeyError] and errors of the store.
func (l *leased) List(ctx context.Context, f Filter) ([]Listed, error) {
	if l.err != nil {
		return nil, l.err
	}
	for _, part := range []struct{ name, text string }{{"Scope", f.Scope}, {"Name", f.Name}} {
		if err := validatePart(part.name, part.text); part.text != "" && err != nil {
			return nil, err
		}
	}
	records, err := l.store.List(ctx, f)
	if err != nil {
		return nil, err
	}
	list := make([]Listed, len(records))
	for i, r := range records {
		list[i] = Listed{Record: r}
		if list[i].Made, err = l.made(ctx, r); err != nil && !errors.Is(err, ErrResult) {
			return nil, err
		}
		list[i].Steps = nil
	}
	return list, nil
}

func (l *leased) made(ctx context.Context, r Record) (made []StepState, err error) {
	run := &Run{l: l, c: callOf(r), steps: steps{stored: r.Steps}}
	if err := run.load(ctx); err != nil {
		return nil, err
	}
	for _, s := range run.steps.list {
		made = append(made, StepState{s.Name, s.Version, s.Saved})
	}
	return made, nil
}
