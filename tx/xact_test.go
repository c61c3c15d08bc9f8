package tx_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// A server is a connection to PostgreSQL that answers the question for a transaction's status, or an error.
type server struct {
	tx.Conn
	answers []any
	asked   *int
}

func (s server) Dialect() *tx.Dialect { return tx.PostgreSQL }

func (s server) QueryRow(ctx context.Context, _ string, _ ...any) tx.Row {
	if err := ctx.Err(); err != nil {
		return answer{err}
	}
	i := min(*s.asked, len(s.answers)-1)
	*s.asked++
	return answer{s.answers[i]}
}

type answer struct{ value any }

func (a answer) Scan(dest ...any) error {
	if err, failed := a.value.(error); failed {
		return err
	}
	*dest[0].(*string) = a.value.(string)
	return nil
}

type onServer struct {
	*fake
	server server
}

func (s onServer) Conn() tx.Conn { return s.server }

// Only what the server says for certain is believed: whatever else it answers, the outcome stays unknown, and says why.
func TestStatusOfACommit(t *testing.T) {
	t.Parallel()
	lost := &net.OpError{Op: "read", Err: errors.New("reset")}
	for _, c := range []struct {
		answers []any
		want    holdfast.Outcome
		runs    int
		reason  string
	}{
		{[]any{"committed"}, holdfast.Applied, 1, ""},
		{[]any{"aborted"}, holdfast.Applied, 2, ""},
		{[]any{"in progress", "in progress", "committed"}, holdfast.Applied, 1, ""},
		{[]any{"in progress", "aborted"}, holdfast.Applied, 2, ""},
		{[]any{"in progress"}, holdfast.Unknown, 1, "not ended"},
		{[]any{lost, "committed"}, holdfast.Applied, 1, ""},
		{[]any{lost}, holdfast.Unknown, 1, "reset"},
		{[]any{"standby"}, holdfast.Unknown, 1, "primary"},
		{[]any{"restarted"}, holdfast.Unknown, 1, "restarted"},
		{[]any{"forgotten"}, holdfast.Unknown, 1, "no longer knows"},
		{[]any{&serverError{Code: "22023"}}, holdfast.Unknown, 1, "22023"},
	} {
		synctest.Test(t, func(t *testing.T) {
			runs, hooks := 0, 0
			f := &fake{commit: func(context.Context) error {
				if runs == 1 {
					return errLost
				}
				return nil
			}}
			db := tx.New[*int](onServer{f, server{answers: c.answers, asked: new(int)}}).With(tx.Options{ResolveCommit: true})
			began := time.Now()
			err := db.Do(t.Context(), func(ctx context.Context, _ *int) error {
				runs++
				return tx.AfterCommit(ctx, func(context.Context) { hooks++ })
			})
			if got := holdfast.OutcomeOf(err); got != c.want || runs != c.runs || (hooks == 1) != (c.want == holdfast.Applied) {
				t.Errorf("%v: %v (%v) after %d runs, %d hooks, want %v after %d", c.answers, got, err, runs, hooks, c.want, c.runs)
			}
			if err != nil && (!errors.Is(err, tx.ErrCommitUnknown) || !strings.Contains(err.Error(), c.reason)) {
				t.Errorf("%v: got %v, want it unknown, for %q", c.answers, err, c.reason)
			}
			if took := time.Since(began); took > 6*time.Second {
				t.Errorf("%v: took %v, want it bounded by the commit timeout", c.answers, took)
			}
		})
	}
}
