package tx_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// A fake is a driver that does what a test says. What real drivers do is proved by package txtest.
type fake struct {
	tx.Driver[*int]
	begin, commit, rollback func(ctx context.Context) error
	calls                   []string
}

func (f *fake) call(ctx context.Context, name string, fn func(context.Context) error) error {
	f.calls = append(f.calls, name)
	if fn == nil {
		return nil
	}
	return fn(ctx)
}

func (f *fake) Begin(ctx context.Context, _ tx.Options, _ []*tx.Stmt) (*int, error) {
	return new(int), f.call(ctx, "begin", f.begin)
}

func (f *fake) Commit(ctx context.Context, _ *int, _ []*tx.Stmt) error {
	return f.call(ctx, "commit", f.commit)
}

func (f *fake) Rollback(ctx context.Context, _ *int) error {
	return f.call(ctx, "rollback", f.rollback)
}
func (f *fake) Conn() tx.Conn               { return fakeConn{} }
func (f *fake) Classify(err error) tx.Class { return tx.Classify(err) }

type fakeConn struct{ tx.Conn }

func (fakeConn) Dialect() *tx.Dialect { return tx.SQLite }

func succeed(context.Context, *int) error { return nil }

var (
	errConflict = &serverError{Code: "40001"}
	errLost     = &tx.CommitUnknownError{Err: errors.New("no reply")}
)

// The outcome of a commit without a reply is what Resolve finds out, and unknown if it finds out nothing.
func TestResolve(t *testing.T) {
	t.Parallel()
	look := errors.New("cannot look")
	for _, c := range []struct {
		name    string
		outcome holdfast.Outcome
		err     error
		want    holdfast.Outcome
		calls   string
		events  string
	}{
		{"applied", holdfast.Applied, nil, holdfast.Applied, "begin commit", "tx.commit_unknown tx.commit_resolved"},
		{"not applied", holdfast.NotApplied, nil, holdfast.Applied, "begin commit begin commit", "tx.commit_unknown tx.commit_resolved tx.retried"},
		{"unknown", holdfast.Unknown, nil, holdfast.Unknown, "begin commit", "tx.commit_unknown"},
		{"error", holdfast.Applied, look, holdfast.Unknown, "begin commit", "tx.commit_unknown"},
		// What made the look fail could be tried again. The transaction could not.
		{"conflict while looking", holdfast.Unknown, &tx.AbortError{Err: look, Class: tx.Retryable}, holdfast.Unknown, "begin commit", "tx.commit_unknown"},
	} {
		commits := 0
		f := &fake{commit: func(context.Context) error {
			commits++
			if commits == 1 {
				return errLost
			}
			return nil
		}}
		var events []string
		db := tx.New(f).Observed(holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) { events = append(events, string(e.Kind)) }))
		ctx, cancel := context.WithCancel(t.Context())
		hooks := 0
		err := db.Run(ctx, tx.Plan[*int]{
			Work: func(ctx context.Context, _ *int) error { return tx.AfterCommit(ctx, func(context.Context) { hooks++ }) },
			Resolve: func(ctx context.Context) (holdfast.Outcome, error) {
				if c.outcome != holdfast.NotApplied {
					cancel() // the caller is gone: it must be found out all the same
				}
				if err := ctx.Err(); err != nil {
					t.Errorf("%s: the context of Resolve has ended: %v", c.name, err)
				}
				return c.outcome, c.err
			},
		})
		cancel()
		if got := holdfast.OutcomeOf(err); got != c.want || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: got %v (%v), want %v", c.name, err, got, c.want)
		}
		if c.want == holdfast.Unknown && !errors.Is(err, tx.ErrCommitUnknown) {
			t.Errorf("%s: got %v, want %v", c.name, err, tx.ErrCommitUnknown)
		}
		if (hooks == 1) != (c.want == holdfast.Applied) {
			t.Errorf("%s: %d hooks ran", c.name, hooks)
		}
		if got := strings.Join(f.calls, " "); got != c.calls {
			t.Errorf("%s: the driver was called %q, want %q", c.name, got, c.calls)
		}
		if got := strings.Join(events, " "); got != c.events {
			t.Errorf("%s: told of %q, want %q", c.name, got, c.events)
		}
	}
}

// Commit and rollback outlive the caller's context, and end when the commit timeout has passed.
func TestEndsOnItsOwnContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, work := range []func(context.Context, *int) error{
			succeed, func(context.Context, *int) error { return errConflict },
		} {
			type key struct{}
			end := func(ctx context.Context) error {
				if ctx.Err() != nil || ctx.Value(key{}) != "kept" {
					t.Errorf("the context to end with has ended (%v) or lost its values", ctx.Err())
				}
				start := time.Now()
				<-ctx.Done()
				if took := time.Since(start); took != 3*time.Second {
					t.Errorf("it ends after %v, want 3 s", took)
				}
				return ctx.Err()
			}
			f := &fake{commit: end, rollback: end}
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
			db := tx.New(f).With(tx.Options{CommitTimeout: 3 * time.Second, Attempts: 1})
			_ = db.Do(ctx, func(ctx context.Context, n *int) error {
				cancel()
				return work(ctx, n)
			})
		}
	})
}

// The pauses between attempts grow, never exceed half a second, and are not the same for everybody.
func TestPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var last []time.Duration
		for range 2 {
			var begun []time.Time
			f := &fake{begin: func(context.Context) error {
				begun = append(begun, time.Now())
				return errConflict
			}}
			err := tx.New(f).With(tx.Options{Attempts: 20}).Do(t.Context(), succeed)
			var aborted *tx.AbortError
			if !errors.As(err, &aborted) || aborted.Attempts != 20 || !errors.Is(err, tx.ErrAttempts) || !errors.Is(err, errConflict) {
				t.Fatalf("got %v, want 20 attempts", err)
			}
			var pauses []time.Duration
			for i := 1; i < len(begun); i++ {
				pause := begun[i].Sub(begun[i-1])
				if limit := min(2*time.Millisecond<<(i-1), 500*time.Millisecond); pause <= 0 || pause > limit {
					t.Errorf("the pause after attempt %d is %v, want at most %v", i, pause, limit)
				}
				pauses = append(pauses, pause)
			}
			if slices.Equal(pauses, last) {
				t.Error("two callers pause alike")
			}
			last = pauses
		}
	})
}

// What the errors of Do say.
func TestErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cause")
	for _, c := range []struct {
		err     error
		text    string
		is      []error
		outcome holdfast.Outcome
	}{
		{&tx.AbortError{Err: cause, Attempts: 1}, "the cause", []error{cause}, holdfast.NotApplied},
		{
			&tx.AbortError{Err: cause, Attempts: 3, Class: tx.Retryable, Stop: tx.ErrAttempts},
			"tx: no attempts left, after 3 attempts: the cause",
			[]error{cause, tx.ErrAttempts},
			holdfast.NotApplied,
		},
		{
			&tx.AbortError{Err: cause, Class: tx.ReadOnly}, "tx: the database is read-only: connect to the primary: the cause",
			[]error{cause, tx.ErrReadOnly},
			holdfast.NotApplied,
		},
		{&tx.CommitUnknownError{Err: cause}, "tx: the outcome of the commit is unknown: the cause", []error{cause, tx.ErrCommitUnknown}, holdfast.Unknown},
		{
			&tx.CommitUnknownError{Err: cause, Resolve: errRoute}, "tx: the outcome of the commit is unknown: the cause; looking for its effect: no route",
			[]error{cause, errRoute, tx.ErrCommitUnknown},
			holdfast.Unknown,
		},
		{&tx.EndedError{}, "tx: the closure ended the transaction by itself", []error{tx.ErrEnded}, holdfast.Unknown},
		{&tx.EndedError{Err: cause}, "the cause (tx: the closure ended the transaction by itself)", []error{tx.ErrEnded, cause}, holdfast.Unknown},
	} {
		if got := c.err.Error(); got != c.text {
			t.Errorf("got the text %q, want %q", got, c.text)
		}
		for _, target := range c.is {
			if !errors.Is(c.err, target) {
				t.Errorf("%v is not %v", c.err, target)
			}
		}
		if got := holdfast.OutcomeOf(c.err); got != c.outcome {
			t.Errorf("the outcome of %v is %v, want %v", c.err, got, c.outcome)
		}
	}
}

// What package retry may try again. It asks by the method, since neither package imports the other.
func TestAnAbortErrorSaysWhetherItPasses(t *testing.T) {
	t.Parallel()
	for class, want := range map[tx.Class]bool{
		tx.Retryable: true, tx.NotSent: true, tx.Lost: true,
		tx.Permanent: false, tx.Unique: false, tx.Exclusion: false, tx.ForeignKey: false, tx.Check: false, tx.ReadOnly: false, tx.Undefined: false,
	} {
		if got := (&tx.AbortError{Err: errRoute, Class: class}).Transient(); got != want {
			t.Errorf("%v: got %v", class, got)
		}
		if (&tx.AbortError{Err: errRoute, Class: class, Stop: tx.ErrAttempts}).Transient() {
			t.Errorf("%v: it was tried again as often as it may be", class)
		}
	}
}

var errRoute = errors.New("no route")

// The server says that it cancelled a statement, and the caller knows why.
func TestACancelledStatementIsToldWithTheCause(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	for _, c := range []struct {
		code string
		ends bool
		want bool
	}{{"57014", true, true}, {"57014", false, false}, {"42601", true, false}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := tx.New[*int](&fake{}).Do(ctx, func(context.Context, *int) error {
			if c.ends {
				cancel(enough)
			}
			return &serverError{Code: c.code}
		})
		var said *serverError
		if errors.Is(err, enough) != c.want || !errors.As(err, &said) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("%+v: got %v", c, err)
		}
		cancel(nil)
	}
}
