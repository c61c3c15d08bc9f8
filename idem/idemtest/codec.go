package idemtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
)

func codecRules[T any]() []rule[T] {
	return []rule[T]{
		{"Sealed", "answers and failures are stored sealed, and replayed as they were", sealed[T]},
		{"SealedBound", "a sealed answer opens in its own row only, as what it was stored as", sealedBound[T]},
		{"Rotation", "each codec opens what it has sealed, and plain answers stay readable", rotation[T]},
		{"SealFails", "an answer that cannot be sealed rolls the work back", sealFails[T]},
		{"CodecOptions", "codecs that cannot be used are reported before anything runs", codecOptions[T]},
	}
}

// aes is a codec whose secret is the byte c.
func (s *suite[T]) aes(id int, c byte) idem.Codec {
	s.Helper()
	codec, err := idem.AESGCM(id, bytes.Repeat([]byte{c}, 32))
	s.must(err)
	return codec
}

// turning seals by turning every bit, in place, and authenticates nothing.
type turning struct{ err error }

func (turning) ID() int { return 32767 }

func (c turning) Seal(_ context.Context, _ string, plain, _ []byte) ([]byte, error) {
	for i := range plain {
		plain[i] ^= 0xff
	}
	return plain, c.err
}

func (c turning) Open(ctx context.Context, scope string, sealed, bound []byte) ([]byte, error) {
	return c.Seal(ctx, scope, sealed, bound)
}

func sealed[T any](s *suite[T]) {
	for _, codec := range []idem.Codec{s.aes(16, 'a'), turning{}} {
		open := func() *idem.Keys[T] {
			return idem.New(s.DB, &idem.Options{Codecs: []idem.Codec{codec}, MaxBody: 64, CacheBytes: 1 << 20})
		}
		keys, runs := open(), &counter{}
		k, prefix := key(""), fmt.Sprint("sealed ", codec.ID(), " ")
		k.Fingerprint = idem.FingerprintOf("request")
		failure := &idem.Failure{Status: 402, Message: "secret failure", Body: []byte("\x00secret")}
		long, longest := strings.Repeat("l", 62), strings.Repeat("l", 63) // 64 and 65 bytes as JSON
		for i, keys := range []*idem.Keys[T]{keys, keys, open()} {
			k.Value = prefix + "json"
			text, err := idem.Do(s.ctx, keys, k, work(s, prefix, runs, "secret text"))
			s.must(err)
			k.Value = prefix + "bytes"
			raw, err := idem.Do(s.ctx, keys, k, work(s, prefix, runs, []byte("secret \x00\xff")))
			s.must(err)
			k.Value = prefix + "empty"
			empty, err := idem.Do(s.ctx, keys, k, work(s, prefix, runs, []byte{}))
			s.must(err)
			k.Value = prefix + "long"
			whole, err := idem.Do(s.ctx, keys, k, work(s, prefix, runs, long))
			s.must(err)
			if text.Value != "secret text" || string(text.Body) != `"secret text"` || string(raw.Body) != "secret \x00\xff" ||
				!bytes.Equal(raw.Value, raw.Body) || len(empty.Body) > 0 || whole.Value != long || raw.Replayed != (i > 0) {
				s.Fatalf("call %d: got %+v, %+v, %+v, %+v", i, text, raw, empty, whole)
			}
			k.Value = prefix + "failed"
			_, err = idem.Do(s.ctx, keys, k, func(context.Context, T) (int, error) { return 0, failure })
			var got *idem.Failure
			if !errors.As(err, &got) || got.Status != 402 || got.Message != failure.Message || !bytes.Equal(got.Body, failure.Body) {
				s.Fatalf("call %d: got %#v", i, err)
			}
			k.Value = prefix + "longest"
			_, err = idem.Do(s.ctx, keys, k, work(s, prefix, runs, longest))
			if i == 0 {
				s.must(err)
			} else {
				s.want(err, idem.ErrNotRetained)
			}
		}
		s.count(runs, 5)
		s.togetherSealed(open(), prefix)
		f := s.begin()
		k.Value = prefix + "json"
		res, err := idem.DoTx(s.ctx, keys, f.Tx, k, work(s, prefix, runs, ""))
		s.must(err)
		if !res.Replayed || res.Value != "secret text" {
			s.Fatalf("got %+v", res)
		}
		s.must(f.Rollback(s.ctx))
	}
	rows, err := s.DB.Conn().Query(s.ctx, "select codec, body from idem_key")
	s.must(err)
	defer rows.Close()
	for rows.Next() {
		var codec int
		var body []byte
		s.must(rows.Scan(&codec, &body))
		if bytes.Contains(body, []byte("secret")) || bytes.Contains(body, []byte("lll")) || codec < 16 && codec != 0 {
			s.Fatalf("codec %d stored %q", codec, body)
		}
	}
	s.must(rows.Err())
}

// togetherSealed: callers of one process that share an answer get it opened.
func (s *suite[T]) togetherSealed(keys *idem.Keys[T], name string) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			res, err := idem.Do(s.ctx, keys, key(name+"together"), work(s, name+"together", &counter{}, "secret shared"))
			if err != nil && !errors.Is(err, idem.ErrInFlight) || err == nil && res.Value != "secret shared" {
				s.Errorf("got %+v, %v", res, err)
			}
		})
	}
	wg.Wait()
	s.wantEffects(name+"together", 1)
}

// sealedBound plays somebody who can write to the table, and wants to see another tenant's answer.
func sealedBound[T any](s *suite[T]) {
	copyFrom := func(what string) string {
		return "update idem_key set " + what + " where scope <> 'victim'"
	}
	from := func(column string) string {
		return column + " = (select " + column + " from idem_key where scope = 'victim')"
	}
	for _, codec := range []idem.Codec{s.aes(16, 'a'), turning{}} {
		for name, change := range map[string]string{
			"body":    copyFrom(from("body")),
			"row":     copyFrom(from("body") + ", " + from("fp") + ", " + from("state") + ", " + from("status") + ", " + from("nonce")),
			"scope":   "delete from idem_key where scope = 'victim'; update idem_key set scope = 'victim'",
			"state":   "update idem_key set state = 3",
			"status":  "update idem_key set status = 402",
			"request": copyFrom("fp = x'01'"),
			"cut":     "update idem_key set body = x'01'",
			"no body": "update idem_key set body = null",
		} {
			if s.DB.Dialect().Capabilities.Schemas {
				change = strings.ReplaceAll(change, "x'01'", `'\x01'`)
			}
			s.exec("delete from idem_key")
			keys, runs := idem.New(s.DB, &idem.Options{Codecs: []idem.Codec{codec}}), &counter{}
			for _, scope := range []string{"victim", "attacker"} {
				k := idem.Key{Scope: scope, Name: "n", Value: "v", Fingerprint: idem.FingerprintOf("same")}
				_, err := idem.Do(s.ctx, keys, k, work(s, name, runs, scope))
				s.must(err)
			}
			if name == "scope" { // the column does not decide: the key is the digest
				s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
					for _, query := range strings.Split(change, "; ") {
						if _, err := s.DB.Tx(t).Exec(ctx, query); err != nil {
							return err
						}
					}
					return nil
				}))
				res, err := idem.Do(s.ctx, keys, idem.Key{Scope: "victim", Name: "n", Value: "v"}, work(s, name, runs, "free"))
				if err != nil || res.Replayed {
					s.Fatalf("%T, %s: got %+v, %v", codec, name, res, err)
				}
				continue
			}
			s.exec(change)
			heard := &events{}
			for _, keys := range []*idem.Keys[T]{keys, idem.New(s.DB, &idem.Options{Codecs: []idem.Codec{codec}, Observer: heard})} {
				res, err := idem.Do(s.ctx, keys, idem.Key{Scope: "attacker", Name: "n", Value: "v"}, work(s, name, runs, "ran"))
				if !errors.Is(err, idem.ErrResult) || res.Value != "" || res.Body != nil {
					s.Fatalf("%T, %s: got %+v, %v", codec, name, res, err)
				}
			}
			if got := heard.kinds(s, ""); got != "idem.replayed " {
				s.Fatalf("heard %q", got)
			}
			s.count(runs, 2)
		}
	}
}

func rotation[T any](s *suite[T]) {
	older, newer, impostor := s.aes(16, 'o'), s.aes(17, 'n'), s.aes(16, 'i')
	with := func(codecs ...idem.Codec) *idem.Keys[T] { return idem.New(s.DB, &idem.Options{Codecs: codecs}) }
	runs := &counter{}
	do := func(keys *idem.Keys[T], name string) error {
		res, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, []byte(name)))
		if err == nil && string(res.Value) != name {
			err = fmt.Errorf("got %q", res.Value)
		}
		return err
	}
	s.must(do(with(), "plain"))
	s.must(do(with(older), "older"))
	s.must(do(with(newer, older), "newer"))
	for i, step := range []struct {
		name string
		keys *idem.Keys[T]
		want error
	}{
		{"plain", with(newer, older), nil},
		{"older", with(newer, older), nil},
		{"older", with(older, newer), nil},
		{"newer", with(older, newer), nil},
		{"newer", with(newer), nil},
		{"older", with(newer), idem.ErrResult},
		{"older", with(), idem.ErrResult},
		{"older", with(impostor), idem.ErrResult},
	} {
		if err := do(step.keys, step.name); !errors.Is(err, step.want) {
			s.Fatalf("step %d: got %v, want %v", i, err, step.want)
		}
	}
	s.outcome(do(with(newer), "older"), holdfast.Applied)
	for outcome, o := range map[holdfast.Outcome]*idem.Options{
		holdfast.NotApplied: {Codecs: []idem.Codec{older}}, holdfast.Applied: {Codecs: []idem.Codec{older}, KeepFailedWrites: true},
	} {
		name := outcome.String()
		_, err := idem.Do(s.ctx, idem.New(s.DB, o), key(name), failing(s, name, runs, &idem.Failure{Status: 402}))
		s.outcome(err, outcome)
		o.Codecs = nil
		_, err = idem.Do(s.ctx, idem.New(s.DB, o), key(name), failing(s, name, runs, nil))
		s.want(err, idem.ErrResult)
		s.outcome(err, outcome)
	}
	if err := do(with(newer), "older"); !strings.Contains(err.Error(), "Options.Codecs") || strings.Contains(err.Error(), "ooo") {
		s.Fatalf("got %v", err)
	}
	s.count(runs, 5)
}

func sealFails[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, &idem.Options{Codecs: []idem.Codec{turning{err: errPlain}}}), &counter{}
	for name, fn := range map[string]func(context.Context, T) (int, error){
		"unsealed": work(s, "unsealed", runs, 1), "unsealed failure": failing(s, "unsealed", runs, &idem.Failure{Status: 402}),
	} {
		_, err := idem.Do(s.ctx, keys, key(name), fn)
		s.want(err, idem.ErrResult)
		s.want(err, errPlain)
		f := s.begin()
		_, err = idem.DoTx(s.ctx, keys, f.Tx, key(name), fn)
		s.want(err, idem.ErrResult)
		s.must(f.Commit(s.ctx))
		res, err := idem.Do(s.ctx, idem.New(s.DB, nil), key(name), work(s, "free", runs, 1))
		s.must(err)
		if res.Replayed {
			s.Fatalf("%s was stored", name)
		}
	}
	s.wantEffects("unsealed", 0)
}

type numbered int

func (n numbered) ID() int { return int(n) }

func (numbered) Seal(_ context.Context, _ string, plain, _ []byte) ([]byte, error) { return plain, nil }

func (numbered) Open(_ context.Context, _ string, sealed, _ []byte) ([]byte, error) {
	return sealed, nil
}

func codecOptions[T any](s *suite[T]) {
	for name, bad := range map[string]idem.Options{
		"nil":        {Codecs: []idem.Codec{numbered(16), nil}},
		"twice":      {Codecs: []idem.Codec{numbered(16), numbered(17), numbered(16)}},
		"too low":    {Codecs: []idem.Codec{numbered(15)}},
		"none":       {Codecs: []idem.Codec{numbered(0)}},
		"too high":   {Codecs: []idem.Codec{numbered(16), numbered(32768)}},
		"CacheBytes": {CacheBytes: -1},
		"CacheFor":   {CacheFor: -1},
	} {
		keys, runs := idem.New(s.DB, &bad), &counter{}
		_, err := idem.Do(s.ctx, keys, key("bad"), work(s, "bad", runs, 1))
		_, deleteErr := keys.Delete(s.ctx, key("bad"))
		_, releaseErr := keys.Release(s.ctx, key("bad"))
		_, eraseErr := keys.Erase(s.ctx, "tenant")
		for _, err := range []error{err, deleteErr, releaseErr, eraseErr, keys.Check(s.ctx)} {
			if err == nil || !strings.HasPrefix(err.Error(), "idem: Options.C") {
				s.Fatalf("%s: got %v", name, err)
			}
		}
		s.count(runs, 0)
	}
	keys := idem.New(s.DB, &idem.Options{Codecs: []idem.Codec{numbered(16), numbered(32767)}})
	s.must(keys.Check(s.ctx))
}
