package idem

import (
	"context"
	"errors"
	"fmt"

	holdfast "github.com/holdfast-go/holdfast"
)

// An External is a call to another service whose effect must happen once, such as a charge.
type External[V any] struct {
	// Name tells the step from the others of the operation, and goes into its child key. Required.
	Name string
	// Version is that of what the step does: raise it when it becomes another, which has a child key of its own. A key that has
	// begun with another version is refused with [ErrStep].
	Version int
	// Call makes the call, with childKey as its idempotency key. If its error proves that nothing was done, which is for
	// [holdfast.OutcomeOf] to say, the step has not happened; a [*Failure] that is not to be stored, as of a 5xx, proves nothing.
	// Any other error leaves the step unknown. Required.
	Call func(ctx context.Context, childKey string) (V, error)
	// Reconcile finds out whether a call with childKey has taken effect that nobody knows about, say by asking the service for
	// it: [Landed] with its result, [Absent] if it did not and cannot any more, and is to be made, or [Unsure], as is any error.
	// Default: none, and LeaseOptions.OnExpiry decides.
	Reconcile func(ctx context.Context, childKey string) (V, Landing, error)
}

// A Landing says whether a call took effect.
type Landing int

const (
	// Unsure: it cannot be told now.
	Unsure Landing = iota
	// Landed: it did.
	Landed
	// Absent: it did not, and will not.
	Absent
)

// Step makes a call to another service once for the key of run, whatever dies meanwhile. It records that the step has begun, makes
// the call, and records the result; an execution that comes later gets the recorded result without a call. A step that has begun and
// has no result is looked for by s.Reconcile. No transaction is open meanwhile. It costs two round trips, and none if the result is
// recorded.
//
// Steps of a run are made one after the other, in the same order each time, and each once. A result is stored as that of the
// operation is; one above MaxBody is not kept, and a later execution gets [ErrNotRetained].
//
// Besides the error of s.Call it returns [*UnknownError], [*LeaseLostError], [*StepError], [ErrNotRecorded], [ErrInTransaction],
// [ErrResult] and errors of the store, after which no call was made.
func Step[V any](ctx context.Context, run Runner, s External[V]) (V, error) {
	var value V
	x := external{name: s.Name, version: s.Version, reconciles: s.Reconcile != nil}
	if s.Call == nil {
		return value, &StepError{Step: s.Name, Reason: "has no Call"}
	}
	x.call = func(ctx context.Context, childKey string) (step, error) {
		v, err := s.Call(ctx, childKey)
		value = v
		if err != nil {
			return step{}, err
		}
		return encodeStep(v)
	}
	x.reconcile = func(ctx context.Context, childKey string) (step, Landing, error) {
		v, landing, err := s.Reconcile(ctx, childKey)
		if err != nil || landing != Landed {
			return step{}, landing, err
		}
		value = v
		result, err := encodeStep(v)
		return result, landing, err
	}
	known, err := run.run().step(ctx, x)
	if err != nil || known == nil {
		return value, err
	}
	v, err := decode[V](known.Codec, known.Body)
	if errors.Is(err, ErrResult) {
		err = toldError{err, holdfast.Applied}
	}
	return v, err
}

// encodeStep returns the form of a result to record. One that has none is recorded as not retained: the call was made.
func encodeStep[V any](v V) (step, error) {
	codec, body, err := encode(v)
	if err != nil {
		return step{Saved: true}, unencoded{err}
	}
	return step{Saved: true, Codec: codec, Body: body}, nil
}

// unencoded is the error of a result that cannot be encoded, of a step that has been made.
type unencoded struct{ error }

func (e unencoded) Unwrap() error { return e.error }

// Outcome returns Applied.
func (e unencoded) Outcome() holdfast.Outcome { return holdfast.Applied }

// external is an [External] whose result is encoded.
type external struct {
	name       string
	version    int
	call       func(ctx context.Context, childKey string) (step, error)
	reconcile  func(ctx context.Context, childKey string) (step, Landing, error)
	reconciles bool
}

// step makes x, or returns what is known of it.
func (r *Run) step(ctx context.Context, x external) (known *step, err error) {
	if err := r.mayStep(ctx, x); err != nil {
		return nil, err
	}
	s := r.steps.find(x.name)
	switch {
	case s == nil:
		r.steps.list = append(r.steps.list, step{Name: x.name, Version: x.version, asked: true})
	case s.Saved:
		s.asked = true
		return s, nil
	default:
		s.asked = true
		if known, err := r.reconcile(ctx, x); known || err != nil {
			return nil, err
		}
	}
	return nil, r.call(ctx, x)
}

// mayStep refuses what cannot be recorded, or must not be called now.
func (r *Run) mayStep(ctx context.Context, x external) error {
	if err := validatePart("the name", x.name); err != nil {
		return &StepError{Step: x.name, Reason: "has a name that cannot be used: " + err.Error()}
	}
	if r.finished != nil {
		return &StepError{Step: x.name, Reason: "comes after Finish, which has stored the answer: make it before"}
	}
	if holdfast.LockScopeOf(ctx) != nil {
		return ErrInTransaction
	}
	if err := r.Check(); err != nil {
		return err
	}
	s, skipped := r.steps.find(x.name), r.steps.skipped()
	switch {
	case s != nil && s.Version != x.version:
		return &StepError{Step: x.name, Reason: fmt.Sprintf("has begun in version %d, and this is %d: keep the code of a version until its last key is done", s.Version, x.version)}
	case s != nil && s.Saved && s.asked:
		return &StepError{Step: x.name, Reason: "was made already: give each step of an operation a name of its own"}
	case s == nil && skipped != "":
		return &StepError{Step: x.name, Reason: fmt.Sprintf("comes before %q, which an execution before has begun: the code has changed, finish such keys with the old one", skipped)}
	}
	return nil
}

// call makes a step that is in the list, and records it before and after.
func (r *Run) call(ctx context.Context, x external) error {
	held, err := r.mark(ctx)
	switch {
	case err != nil && r.Check() != nil:
		r.forget(x.name)
		return r.Check()
	case err != nil:
		r.forget(x.name)
		return fmt.Errorf("idem: record that step %q begins: %w", x.name, err)
	case !held:
		r.forget(x.name)
		return r.lose(TakenOver, nil)
	}
	r.observeStep(ctx, EventStepStarted, x, nil)
	result, err := x.call(ctx, childKey(r.term.ID, x.name, x.version))
	switch {
	case err == nil || isUnencoded(err):
		return errors.Join(err, r.record(ctx, x, result))
	case provesNothing(err):
		r.steps.failure = err
		return err
	}
	r.forget(x.name)
	held, failed := r.mark(ctx)
	if failed == nil && !held {
		return r.lost(err)
	}
	r.observeStep(ctx, EventStepSaved, x, err)
	return err
}

func isUnencoded(err error) bool {
	var u unencoded
	return errors.As(err, &u)
}

// provesNothing reports whether the call may have taken effect in spite of err.
func provesNothing(err error) bool {
	var f *Failure
	return holdfast.OutcomeOf(err) != holdfast.NotApplied || errors.As(err, &f) && !f.Stored()
}

// forget takes a step out of the list that has not happened.
func (r *Run) forget(name string) {
	for i, s := range r.steps.list {
		if s.Name == name {
			r.steps.list = append(r.steps.list[:i], r.steps.list[i+1:]...)
			return
		}
	}
}

// record stores the result of a step that has been made.
func (r *Run) record(ctx context.Context, x external, result step) error {
	if len(result.Body) > r.l.o.MaxBody {
		result.Codec, result.Body = codecNone, nil
	}
	s := r.steps.find(x.name)
	s.Saved, s.Codec, s.Body = true, result.Codec, result.Body
	err := r.insist(ctx, r.mark)
	if err != nil {
		s.Saved = false // as far as the next execution knows
		return err
	}
	r.observeStep(ctx, EventStepSaved, x, nil)
	return nil
}

// reconcile finds out what became of a step that has begun. known is false if it is to be made.
func (r *Run) reconcile(ctx context.Context, x external) (known bool, err error) {
	if !x.reconciles {
		if r.l.lo.OnExpiry == Rerun {
			return false, nil
		}
		return false, r.unsure(x, errors.New("it has begun, and there is no Reconcile to look for it"))
	}
	result, landing, err := x.reconcile(ctx, childKey(r.term.ID, x.name, x.version))
	r.observeStep(ctx, EventReconciled, x, err)
	switch {
	case isUnencoded(err) || err == nil && landing == Landed:
		return true, errors.Join(err, r.record(ctx, x, result))
	case err == nil && landing == Absent:
		return false, nil
	case err == nil:
		err = errors.New("it cannot be told now")
	}
	return false, r.unsure(x, err)
}

// unsure is the error of a step that nobody knows about.
func (r *Run) unsure(x external, err error) error {
	r.steps.failure = err
	return &UnknownError{
		Name: r.c.key.Name, Note: fmt.Sprintf("step %q: %s", x.name, noteOf(err)), RetryAfter: r.l.backoff(r.c.attempt), Err: err,
	}
}

func (r *Run) observeStep(ctx context.Context, kind holdfast.EventKind, x external, err error) {
	c := *r.c
	c.key.Name += "/" + x.name
	r.l.observe(ctx, kind, &c, err)
}
