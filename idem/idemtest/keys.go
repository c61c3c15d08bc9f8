package idemtest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

type receipt struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

func keyRules[T any]() []rule[T] {
	return []rule[T]{
		{"Once", "calls with one key have one effect and get equal bytes", once[T]},
		{"ZeroValues", "zero, empty and nil results are stored and replayed as they are", zeroValues[T]},
		{"Mismatch", "another fingerprint is refused on every path to a stored answer", mismatch[T]},
		{"Scopes", "no other scope, name or split of the parts reaches an answer", scopes[T]},
		{"BadKeys", "a key that cannot be used is a KeyError and nothing runs", badKeys[T]},
		{"TooLarge", "an answer above the limit is done once and not retained", tooLarge[T]},
		{"Unencodable", "a result that cannot be stored rolls the work back", unencodable[T]},
		{"NilFunc", "a nil closure is an error", nilFunc[T]},
		{"Cancelled", "a context that ended before the call has no effect; one that ends after the work does not undo it", cancelled[T]},
		{"Events", "the observer hears of each claim, answer and refusal with the correlation ID", observed[T]},
		{"Names", "tables of any name work", names[T]},
	}
}

func once[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	want := receipt{ID: "r1", Amount: 1200}
	var first []byte
	for i := range 3 {
		res, err := idem.Do(s.ctx, keys, key("once"), work(s, "once", runs, want))
		s.must(err)
		if i == 0 {
			first = res.Body
		}
		if res.Value != want || res.Replayed != (i > 0) || !bytes.Equal(res.Body, first) {
			s.Fatalf("call %d: got %+v", i, res)
		}
	}
	// A second process has no memory of the first.
	res, err := idem.Do(s.ctx, idem.New(s.DB, nil), key("once"), work(s, "once", runs, receipt{}))
	s.must(err)
	if res.Value != want || !res.Replayed || !bytes.Equal(res.Body, first) {
		s.Fatalf("second process: got %+v", res)
	}
	s.count(runs, 1)
	s.wantEffects("once", 1)
}

func zeroValues[T any](s *suite[T]) {
	check(s, "int", 0)
	check(s, "string", "")
	check(s, "struct", receipt{})
	check(s, "pointer", (*receipt)(nil))
	check(s, "slice", []int(nil))
	checkBytes(s, "no bytes", nil)
	checkBytes(s, "empty bytes", []byte{})
	checkBytes(s, "strange bytes", []byte("\x00\xff{\"a\": 1 }\n"))
	check(s, "text", "é\x00<&>\u2028")
}

func check[T, R any](s *suite[T], name string, value R) {
	s.Helper()
	keys, runs := idem.New(s.DB, nil), &counter{}
	first, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, value))
	s.must(err)
	again, err := idem.Do(s.ctx, idem.New(s.DB, nil), key(name), work(s, name, runs, value))
	s.must(err)
	if !again.Replayed || !bytes.Equal(first.Body, again.Body) {
		s.Fatalf("%s: first %q, again %q", name, first.Body, again.Body)
	}
	s.count(runs, 1)
}

func checkBytes[T any](s *suite[T], name string, value []byte) {
	s.Helper()
	keys, runs := idem.New(s.DB, nil), &counter{}
	_, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, value))
	s.must(err)
	again, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, value))
	s.must(err)
	if !again.Replayed || !bytes.Equal(again.Value, value) || !bytes.Equal(again.Body, value) {
		s.Fatalf("%s: got %q and %q", name, again.Value, again.Body)
	}
	s.count(runs, 1)
}

// mismatch covers the faults where a faster path, or a completion that rewrote the row, skipped the comparison.
func mismatch[T any](s *suite[T]) {
	right, wrong := key("fp"), key("fp")
	right.Fingerprint, wrong.Fingerprint = idem.FingerprintOf("12.00"), idem.FingerprintOf("99.00")
	runs := &counter{}
	keys := idem.New(s.DB, nil)
	_, err := idem.Do(s.ctx, keys, right, work(s, "fp", runs, 1))
	s.must(err)
	for name, k := range map[string]*idem.Keys[T]{"remembered": keys, "claimed": idem.New(s.DB, nil)} {
		_, err = idem.Do(s.ctx, k, wrong, work(s, "fp", runs, 1))
		var m *idem.MismatchError
		if !errors.As(err, &m) || m.Name != "charge" || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("%s: got %v", name, err)
		}
		res, err := idem.Do(s.ctx, k, right, work(s, "fp", runs, 1))
		s.must(err)
		if !res.Replayed {
			s.Fatalf("%s: not replayed", name)
		}
	}
	f := s.begin()
	_, err = idem.DoTx(s.ctx, keys, f.Tx, wrong, work(s, "fp", runs, 1))
	s.want(err, idem.ErrMismatch)
	s.must(f.Rollback(s.ctx))
	res, err := idem.Do(s.ctx, keys, key("fp"), work(s, "fp", runs, 1))
	s.must(err)
	if !res.Replayed {
		s.Fatal("a call without a fingerprint compares nothing")
	}
	s.count(runs, 1)
}

func scopes[T any](s *suite[T]) {
	keys := idem.New(s.DB, nil)
	different := []idem.Key{
		{Scope: "a", Name: "n", Value: "b:c"},
		{Scope: "a:b", Name: "n", Value: "c"},
		{Scope: "a", Name: "n:b", Value: "c"},
		{Scope: "an", Name: "b", Value: "c"},
		{Scope: "a", Name: "nb", Value: "c"},
		{Scope: "a", Name: "n", Value: "bc"},
		{Scope: "A", Name: "n", Value: "bc"},
		{Scope: "a", Name: "n", Value: "bc "},
		{Scope: "a", Name: "n", Value: "b'; drop table effect; --"},
	}
	runs := &counter{}
	for i, k := range different {
		res, err := idem.Do(s.ctx, keys, k, work(s, "scope", runs, i))
		s.must(err)
		if res.Replayed || res.Value != i {
			s.Fatalf("%+v got the answer of another: %+v", k, res)
		}
	}
	s.count(runs, len(different))
}

func badKeys[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	bad := map[string]string{
		"empty": "", "10 MB": strings.Repeat("x", 10<<20), "256 bytes": strings.Repeat("x", 256),
		"not UTF-8": "\xff\xfe", "NUL": "a\x00b", "newline": "a\nb", "delete": "a\x7f", "half a rune": "é"[:1],
	}
	for name, text := range bad {
		for part, k := range map[string]idem.Key{
			"Scope": {Scope: text, Name: "n", Value: "v"}, "Name": {Scope: "s", Name: text, Value: "v"}, "Value": {Scope: "s", Name: "n", Value: text},
		} {
			_, err := idem.Do(s.ctx, keys, k, work(s, "bad", runs, 1))
			var e *idem.KeyError
			if !errors.As(err, &e) || e.Part != part || !errors.Is(err, idem.ErrKeyInvalid) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
				s.Fatalf("%s as %s: got %v", name, part, err)
			}
			if len(err.Error()) > 300 {
				s.Fatalf("%s: the error repeats the key", name)
			}
		}
	}
	_, err := idem.Do(s.ctx, keys, key(strings.Repeat("é", 127)+"!"), work(s, "good", runs, 1))
	s.must(err)
	s.count(runs, 1)
	s.wantEffects("bad", 0)
}

func tooLarge[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, &idem.Options{MaxBody: 8}), &counter{}
	res, err := idem.Do(s.ctx, keys, key("large"), work(s, "large", runs, "0123456789"))
	s.must(err)
	if res.Value != "0123456789" || string(res.Body) != `"0123456789"` {
		s.Fatalf("the first caller got %+v", res)
	}
	for range 2 {
		res, err = idem.Do(s.ctx, keys, key("large"), work(s, "large", runs, "x"))
		s.want(err, idem.ErrNotRetained)
		if holdfast.OutcomeOf(err) != holdfast.Applied {
			s.Fatalf("outcome %v", holdfast.OutcomeOf(err))
		}
	}
	s.count(runs, 1)
	s.wantEffects("large", 1)
}

func unencodable[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	_, err := idem.Do(s.ctx, keys, key("chan"), work(s, "chan", runs, make(chan int)))
	s.want(err, idem.ErrResult)
	s.outcome(err, holdfast.NotApplied)
	s.wantEffects("chan", 0)
	_, err = idem.Do(s.ctx, keys, key("chan"), work(s, "chan", runs, "text"))
	s.must(err)
	_, err = idem.Do(s.ctx, keys, key("chan"), work(s, "chan", runs, 1))
	s.want(err, idem.ErrResult)
	s.outcome(err, holdfast.Applied)
	s.wantEffects("chan", 1)
}

func (s *suite[T]) outcome(err error, want holdfast.Outcome) {
	s.Helper()
	if got := holdfast.OutcomeOf(err); got != want {
		s.Fatalf("the outcome of %v is %v, want %v", err, got, want)
	}
}

func nilFunc[T any](s *suite[T]) {
	keys := idem.New(s.DB, nil)
	_, err := idem.Do[T, int](s.ctx, keys, key("nil"), nil)
	s.want(err, tx.ErrNilFunc)
	f := s.begin()
	_, err = idem.DoTx[T, int](s.ctx, keys, f.Tx, key("nil"), nil)
	s.want(err, tx.ErrNilFunc)
	s.must(f.Rollback(s.ctx))
	_, err = idem.NewInbox(s.DB, "c", nil).Do(s.ctx, "id", nil)
	s.want(err, tx.ErrNilFunc)
}

func cancelled[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := idem.Do(ctx, keys, key("before"), work(s, "before", runs, 1))
	s.want(err, context.Canceled)
	over, stop := context.WithDeadline(s.ctx, time.Now()) // no time left is not the same as no deadline
	defer stop()
	_, overErr := idem.Do(over, keys, key("before"), work(s, "before", runs, 1))
	s.want(overErr, context.DeadlineExceeded)
	if holdfast.OutcomeOf(err) != holdfast.NotApplied {
		s.Fatalf("outcome %v", holdfast.OutcomeOf(err))
	}
	s.count(runs, 0)

	// The client hangs up right after the effect: the answer is kept for the retry.
	ctx, cancel = context.WithCancel(s.ctx)
	_, err = idem.Do(ctx, keys, key("after"), func(ctx context.Context, t T) (int, error) {
		runs.add()
		defer cancel()
		return 7, s.apply(ctx, t, "after")
	})
	s.must(err)
	res, err := idem.Do(s.ctx, keys, key("after"), work(s, "after", runs, 1))
	s.must(err)
	if !res.Replayed || res.Value != 7 {
		s.Fatalf("got %+v", res)
	}
	s.count(runs, 1)
	s.wantEffects("after", 1)
}

func observed[T any](s *suite[T]) {
	heard := &events{}
	ctx := holdfast.WithCorrelationID(s.ctx, "req-1")
	keys := idem.New(s.DB, &idem.Options{Observer: heard})
	k := key("watched")
	k.Fingerprint = idem.FingerprintOf("a")
	other := k
	other.Fingerprint = idem.FingerprintOf("b")
	steps := []struct {
		want string
		do   func() error
	}{
		{"idem.claimed idem.released ", func() error {
			_, err := idem.Do(ctx, keys, k, func(context.Context, T) (int, error) { return 0, errors.New("no") })
			return err
		}},
		{"idem.claimed idem.completed ", func() error { _, err := idem.Do(ctx, keys, k, work(s, "w", &counter{}, 1)); return err }},
		{"idem.replayed ", func() error { _, err := idem.Do(ctx, keys, k, work(s, "w", &counter{}, 1)); return err }},
		{"idem.mismatch ", func() error { _, err := idem.Do(ctx, keys, other, work(s, "w", &counter{}, 1)); return err }},
		{"idem.claimed idem.failed ", func() error {
			_, err := idem.Do(ctx, keys, key("declined"), func(context.Context, T) (int, error) { return 0, &idem.Failure{Status: 402} })
			return err
		}},
		{"idem.replayed ", func() error { _, err := idem.Do(ctx, keys, key("declined"), work(s, "w", &counter{}, 1)); return err }},
	}
	for i, step := range steps {
		err := step.do()
		if got := heard.kinds(s, "req-1"); got != step.want {
			s.Fatalf("step %d: heard %q, want %q (error %v)", i, got, step.want, err)
		}
	}
}

func names[T any](s *suite[T]) {
	for _, name := range []string{`we"ird`, "Käse; drop table effect", "select", strings.Repeat("n", 40)} {
		table := idem.Names{Keys: name, Inbox: name + "_in"}
		if len(name) == 40 {
			table.Inbox = "inbox_of_long"
		}
		s.must(idem.Migrate(s.ctx, s.DB, table))
		keys, runs := idem.New(s.DB, &idem.Options{Table: name}), &counter{}
		s.must(keys.Check(s.ctx))
		for range 2 {
			_, err := idem.Do(s.ctx, keys, key("named"), work(s, name, runs, 1))
			s.must(err)
		}
		s.count(runs, 1)
		s.must(idem.NewInbox(s.DB, "c", &idem.InboxOptions{Table: table.Inbox}).Check(s.ctx))
	}
	for _, name := range []string{strings.Repeat("n", 41), "a\x00b", "\xff"} {
		keys := idem.New(s.DB, &idem.Options{Table: name})
		_, err := idem.Do(s.ctx, keys, key("named"), work(s, "bad name", &counter{}, 1))
		var e *tx.NameError
		if !errors.As(err, &e) || !errors.As(keys.Check(s.ctx), &e) {
			s.Fatalf("table %q: got %v", name, err)
		}
	}
}
