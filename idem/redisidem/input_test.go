package redisidem_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/redisidem"
)

func TestWhatCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	f, ctx := shared(t, nil), t.Context()
	for name, s := range map[string]*redisidem.Store{
		"no client":     redisidem.New(nil, nil),
		"nil client":    redisidem.New((*redis.Client)(nil), nil),
		"nil cluster":   redisidem.New((*redis.ClusterClient)(nil), nil),
		"brace":         redisidem.New(f.client, &redisidem.Options{Prefix: "a{b"}),
		"closing brace": redisidem.New(f.client, &redisidem.Options{Prefix: "a}b"}),
		"retention":     redisidem.New(f.client, &redisidem.Options{Retention: time.Millisecond}),
		"past":          redisidem.New(f.client, &redisidem.Options{Retention: -time.Hour}),
	} {
		var errs [12]error
		_, errs[0] = s.Claim(ctx, claim("a", time.Minute))
		_, _, errs[1] = s.Take(ctx, idem.Taking{})
		_, errs[2] = s.TakeDue(ctx, due([]string{"a"}, 1, idem.Running))
		_, errs[3] = s.Renew(ctx, []idem.Term{{}}, time.Minute)
		_, errs[4] = s.Renew(ctx, nil, time.Minute)
		_, errs[5] = s.Mark(ctx, idem.Term{}, nil)
		_, errs[6] = s.Park(ctx, idem.Term{}, idem.Parking{})
		_, errs[7] = s.Complete(ctx, idem.Term{}, idem.Answer{}, time.Minute)
		_, errs[8] = s.Release(ctx, idem.Term{})
		_, errs[9] = s.Announce(ctx, idem.ID{})
		_, errs[10] = s.List(ctx, idem.Filter{})
		errs[11] = s.Check(ctx)
		for i, err := range errs {
			if !errors.Is(err, redisidem.ErrInvalid) {
				t.Errorf("%s, %d: %v", name, i, err)
			}
		}
	}
}

// hostile are bytes that a script or the protocol could take for something else.
var hostile = []string{
	"", " ", "0", "1", "-1", "nil", "\x00", "\xff\xfe", "\r\n*1\r\n$4\r\nPING\r\n", "{a}", "%s%d", "日本", "'; return 1 --", "]]", "1e999",
}

// What is stored comes back byte for byte, through every state.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	f, ctx := shared(t, nil), t.Context()
	values := append([]string{strings.Repeat("x", 1<<20)}, hostile...)
	for i, text := range values {
		raw := []byte(text)
		c := claim(fmt.Sprint("key ", i), time.Minute)
		c.Fingerprint, c.Input, c.Nonce = raw, raw, []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1}[i%6]
		if len(text) <= 255 {
			c.Scope, c.Name = text, text
		}
		begun(t, f, c)
		r, err := f.Claim(ctx, claim(fmt.Sprint("key ", i), time.Minute))
		must(t, err)
		if !bytes.Equal(r.Fingerprint, raw) || !bytes.Equal(r.Input, raw) || r.Scope != c.Scope || r.Name != c.Name || r.Nonce != c.Nonce {
			t.Fatalf("%.40q came back as %.200s", text, fmt.Sprintf("%+v", r))
		}
		near := termOf(r)
		near.Nonce++ // beyond 2^53 it is the same double
		no(t)(f.Mark(ctx, near, nil))
		yes(t)(f.Mark(ctx, termOf(r), raw))
		yes(t)(f.Park(ctx, termOf(r), idem.Parking{State: idem.Unknown, Note: text}))
		taken, err := f.TakeDue(ctx, due([]string{c.Name}, 1, idem.Unknown))
		if err != nil || len(taken) != 1 || !bytes.Equal(taken[0].Steps, raw) || taken[0].ID != c.ID || !bytes.Equal(taken[0].Input, raw) {
			t.Fatalf("%.40q: %d are taken, %v", text, len(taken), err)
		}
		answer := idem.Answer{State: idem.Failed, Codec: 32767, Status: -1, Body: raw}
		yes(t)(f.Complete(ctx, termOf(taken[0]), answer, time.Hour))
		if r, err = f.Claim(ctx, claim(fmt.Sprint("key ", i), time.Minute)); err != nil || !reflect.DeepEqual(r.Answer, answer) || r.Over {
			t.Fatalf("%.40q is answered with %.200s, %v", text, fmt.Sprintf("%+v", r), err)
		}
	}
}

// An answer without a body is none with an empty one.
func TestAnAnswerWithoutABody(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	r := begun(t, f, claim("a", time.Minute))
	yes(t)(f.Complete(t.Context(), termOf(r), idem.Answer{State: idem.Completed, Status: 3}, time.Hour))
	if r, err := f.Claim(t.Context(), claim("a", time.Minute)); err != nil || r.Answer.Body != nil || r.Over || r.State != idem.Completed {
		t.Errorf("%+v, %v", r, err)
	}
}

// Who deletes the body of an answer has not made the key free.
func TestABodyThatIsGone(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	r := begun(t, f, claim("a", time.Minute))
	yes(t)(f.Complete(t.Context(), termOf(r), idem.Answer{State: idem.Completed, Body: []byte("b")}, time.Hour))
	must(t, f.client.Del(t.Context(), f.KeyOf(r.ID)+":body").Err())
	if r, err := f.Claim(t.Context(), claim("a", time.Minute)); err != nil || r.State != idem.Expired || !r.Over {
		t.Errorf("%+v, %v", r, err)
	}
}

// Keys of others are left alone, and told.
func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	f, ctx := shared(t, nil), t.Context()
	list, rubbish := claim("list", time.Minute), claim("rubbish", time.Minute)
	must(t, f.client.LPush(ctx, f.KeyOf(list.ID), "x").Err())
	must(t, f.client.HSet(ctx, f.KeyOf(rubbish.ID), "state", "9", "nonce", "x").Err())
	for _, c := range []idem.Claim{list, rubbish} {
		before := f.client.Dump(ctx, f.KeyOf(c.ID)).Val()
		term := idem.Term{ID: c.ID, Nonce: 1, Epoch: 1}
		if r, err := f.Claim(ctx, c); err == nil {
			t.Errorf("%+v", r)
		}
		if r, ok, err := f.Take(ctx, idem.Taking{Claim: c, Was: idem.Record{ID: c.ID}, Early: true, Reuse: true}); ok {
			t.Errorf("%+v, %v, %v", r, ok, err)
		}
		for i, call := range []func() (bool, error){
			func() (bool, error) { return f.Mark(ctx, term, nil) },
			func() (bool, error) { return f.Park(ctx, term, idem.Parking{State: idem.Pending}) },
			func() (bool, error) { return f.Complete(ctx, term, idem.Answer{}, time.Hour) },
			func() (bool, error) { return f.Release(ctx, term) },
			func() (bool, error) { return f.Announce(ctx, c.ID) },
		} {
			if held, _ := call(); held {
				t.Errorf("%d: it was held", i)
			}
		}
		if after := f.client.Dump(ctx, f.KeyOf(c.ID)).Val(); after != before {
			t.Error("it was changed")
		}
	}
}

// Terms that are not those of the key change nothing, in any state.
func TestOtherTerms(t *testing.T) {
	t.Parallel()
	f, ctx := shared(t, nil), t.Context()
	refused := func(what string, terms ...idem.Term) {
		t.Helper()
		for i, term := range terms {
			before := f.client.Dump(ctx, f.KeyOf(term.ID)).Val()
			for n, call := range []func() (bool, error){
				func() (bool, error) { return f.Mark(ctx, term, []byte("x")) },
				func() (bool, error) { return f.Park(ctx, term, idem.Parking{State: idem.Pending, Note: "x"}) },
				func() (bool, error) { return f.Complete(ctx, term, idem.Answer{State: idem.Failed}, time.Hour) },
				func() (bool, error) { return f.Release(ctx, term) },
				func() (bool, error) {
					renewals, err := f.Renew(ctx, []idem.Term{term}, time.Hour)
					return renewals[0] != idem.RenewalLost, err
				},
			} {
				if held, err := call(); held || err != nil {
					t.Errorf("%s, term %d, %d: held is %v, %v", what, i, n, held, err)
				}
			}
			if f.client.Dump(ctx, f.KeyOf(term.ID)).Val() != before {
				t.Errorf("%s, term %d: the key was changed", what, i)
			}
		}
	}
	r := begun(t, f, claim("a", time.Minute))
	mine, nonce, epoch := termOf(r), termOf(r), termOf(r)
	nonce.Nonce++
	epoch.Epoch++
	refused("running", nonce, epoch)
	for _, state := range []idem.State{idem.Unknown, idem.Pending} {
		yes(t)(f.Park(ctx, mine, idem.Parking{State: state}))
		refused(state.String(), nonce, epoch, mine)
		next, ok, err := f.Take(ctx, idem.Taking{Claim: claim("a", time.Minute), Was: r})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		refused("taken", mine)
		r, mine = next, termOf(next)
	}
	yes(t)(f.Release(ctx, mine))
	refused("free", mine, nonce)
	r = begun(t, f, claim("a", time.Minute))
	yes(t)(f.Complete(ctx, termOf(r), idem.Answer{State: idem.Completed, Body: []byte("b")}, time.Hour))
	refused("completed", mine)
	no(t)(f.Release(ctx, termOf(r)))
	no(t)(f.Park(ctx, termOf(r), idem.Parking{State: idem.Unknown}))
	if got, err := f.Claim(ctx, claim("a", time.Minute)); err != nil || string(got.Answer.Body) != "b" {
		t.Errorf("%+v, %v", got, err)
	}
}
