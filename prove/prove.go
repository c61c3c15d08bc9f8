package prove

import (
	"context"
	"reflect"

	"github.com/holdfast-go/holdfast/internal/fault"
)

// A TB is what the proofs need of a test. *testing.T and *testing.B are one.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

// A Handler is an operation that claims to be idempotent: what is to be proved. D is the type of the database that it
// works on, A that of its answer.
type Handler[D, A any] struct {
	// Call does the operation that key names, on db, and returns its answer. It gets a key that nobody has used, and the
	// same one again where it is repeated; what else makes the operation must follow from the key. An error says
	// that the caller should try again; one that states a [holdfast.Outcome] is held to it. A refusal that is final is an
	// answer. Call must use ctx, and must not keep db or anything else from one call to the next. Required.
	Call func(ctx context.Context, db D, key string) (A, error)
	// Effects counts the effects of the operation that key names, on a database without faults. The invariant that the
	// operation must keep besides that goes here too: return an error where it is broken. It is called often, also
	// while calls are running. Required.
	Effects func(ctx context.Context, db D, key string) (int, error)
	// Equal compares two answers. Default: [reflect.DeepEqual].
	Equal func(a, b A) bool
}

// Twice proves that a repetition is harmless: Call is made, repeated by the same process, and by another. It reports a
// second effect and a different answer.
func Twice[D, A any](t TB, db *Database[D], h Handler[D, A]) {
	t.Helper()
	if s, ok := scenario(t, db, h); ok {
		fault.Twice(t, s)
	}
}

// Together proves that duplicates at the same moment are harmless. Eight calls of one key run at once in one process; then
// three processes, each with a pool of its own, are held before their first operation on the database until all have come
// to it, then before their second, and so on, so that no check is so close to its act that the others do not come between.
// A call may be refused. It reports a second effect, answers that differ, and an operation that cannot be completed later.
func Together[D, A any](t TB, db *Database[D], h Handler[D, A]) {
	t.Helper()
	if s, ok := scenario(t, db, h); ok {
		fault.Together(t, s)
	}
}

// CrashEverywhere proves that a failure at any point is harmless. It counts the operations on the database of a call that
// nothing disturbs; then, for each of them, a call meets an error there, before the effect and after it, a connection that
// breaks before and after, a context that ends, a crash of the process, and what else can go wrong in such a place (see the
// package). 25 random pairs of faults follow; HOLDFAST_ROUNDS sets another number.
//
// After each, a caller retries through another process until Call succeeds, and once more. There must be one effect then,
// and equal answers. Before the retry, what was reported as applied must be there and what was reported as not applied must
// not: a nil error means applied, any other what [holdfast.OutcomeOf] makes of it.
//
// A failure names the variable to set to run it alone.
func CrashEverywhere[D, A any](t TB, db *Database[D], h Handler[D, A]) {
	t.Helper()
	if s, ok := scenario(t, db, h); ok {
		fault.Everywhere(t, s)
	}
}

// scenario fails t unless db and h can be used.
func scenario[D, A any](t TB, db *Database[D], h Handler[D, A]) (s fault.Scenario, ok bool) {
	t.Helper()
	switch {
	case db == nil || db.open == nil:
		t.Errorf("prove: the database is nil: make it with SQL, Connector, Postgres or Driver")
	case db.err != nil:
		t.Errorf("prove: %v", db.err)
	case h.Call == nil || h.Effects == nil:
		t.Errorf("prove: Handler needs Call and Effects")
	default:
		return fault.Scenario{Start: starting(db, h), Same: same(h.Equal)}, true
	}
	return fault.Scenario{}, false
}

// starting returns how a process begins.
func starting[D, A any](db *Database[D], h Handler[D, A]) func(context.Context, *fault.Injector) (fault.Process, error) {
	return func(ctx context.Context, in *fault.Injector) (p fault.Process, err error) {
		d, err := db.open(ctx, in)
		if err != nil {
			return p, err
		}
		p.Call = func(ctx context.Context, key string) (any, error) { return h.Call(ctx, d, key) }
		p.Effects = func(ctx context.Context, key string) (int, error) { return h.Effects(ctx, d, key) }
		return p, nil
	}
}

func same[A any](equal func(a, b A) bool) func(a, b any) bool {
	if equal == nil {
		return reflect.DeepEqual
	}
	return func(a, b any) bool {
		answer, _ := a.(A) // a nil one, if A is an interface, has no type
		other, _ := b.(A)
		return equal(answer, other)
	}
}
