package idem

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestAESGCM(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 16, 24, 31, 33, 64} {
		if codec, err := AESGCM(16, bytes.Repeat([]byte("s"), size)); err == nil || codec != nil || strings.Contains(err.Error(), "ss") {
			t.Errorf("a secret of %d bytes: got %v, %v", size, codec, err)
		}
	}
	secret := bytes.Repeat([]byte("s"), 32)
	codec, err := AESGCM(16, secret)
	if err != nil || codec.ID() != 16 {
		t.Fatal(err)
	}
	clear(secret) // the codec has its own
	ctx, plain, bound := context.Background(), []byte("plain text"), []byte("key")
	one, err := codec.Seal(ctx, "tenant", plain, bound)
	two, err2 := codec.Seal(ctx, "tenant", plain, bound)
	if err != nil || err2 != nil || bytes.Equal(one, two) || bytes.Equal(one[:12], two[:12]) || bytes.Contains(one, plain) {
		t.Fatalf("sealed twice: %x and %x, %v, %v", one, two, err, err2)
	}
	if got, err := codec.Open(ctx, "tenant", one, bound); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("got %q, %v", got, err)
	}
	if got, err := codec.Open(ctx, "tenant", one, []byte("another key")); err == nil {
		t.Errorf("it opened for another key: %q", got)
	}
	other, err := AESGCM(16, secret)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.Open(ctx, "tenant", one, bound); err == nil {
		t.Errorf("it opened with another secret: %q", got)
	}
	for i := range one {
		changed := bytes.Clone(one)
		changed[i] ^= 1
		if got, err := codec.Open(ctx, "tenant", changed, bound); err == nil {
			t.Errorf("it opened with byte %d changed: %q", i, got)
		}
		if got, err := codec.Open(ctx, "tenant", one[:i], bound); err == nil {
			t.Errorf("it opened cut to %d bytes: %q", i, got)
		}
	}
}

func TestBindingsDiffer(t *testing.T) {
	t.Parallel()
	a, b := Key{Scope: "a", Name: "n", Value: "v"}.ID(), Key{Scope: "b", Name: "n", Value: "v"}.ID()
	fp := FingerprintOf("request").bytes()
	seen := map[binding]bool{}
	for _, d := range []ID{a, b} {
		for _, f := range [][]byte{nil, fp, fp[:32], FingerprintOf("another").bytes()} {
			if seen[bindTo(d, f)] {
				t.Errorf("two rows have one binding")
			}
			seen[bindTo(d, f)] = true
		}
	}
	if bindTo(a, nil) != bindTo(a, []byte{}) {
		t.Error("drivers differ in how they read no bytes")
	}
}

// An envelope is read as what was written, or not at all.
func FuzzEnvelope(f *testing.F) {
	b := bindTo(digestOf(1), nil)
	for _, e := range []entry{
		{state: stateCompleted, codec: codecJSON, stored: []byte(`"text"`)},
		{state: stateCompleted, codec: codecBytes},
		{state: stateFailed, codec: codecJSON, status: 402, stored: []byte("{}")},
		{state: stateFailed, codec: codecJSON, status: -1},
	} {
		f.Add(wrap(e, b), e.state, e.status)
	}
	f.Add(wrap(entry{state: stateFailed, codec: codecBytes}, b), stateFailed, 0)
	f.Add([]byte{}, 0, 0)
	f.Add(bytes.Repeat([]byte{1}, envelopeSize), 1, 0x0101010101010101)
	f.Fuzz(func(t *testing.T, text []byte, state, status int) {
		e, err := unwrap(entry{state: state, status: status, codec: minCodec}, text, b)
		if err != nil {
			if e.state != 0 || e.body != nil {
				t.Fatalf("got %+v with %v", e, err)
			}
		} else {
			if e.state != state || e.status != status || e.codec != codecBytes && e.codec != codecJSON {
				t.Fatalf("got %+v of %d and %d", e, state, status)
			}
			e.stored = e.body
			if again := wrap(e, b); !bytes.Equal(again, text) {
				t.Fatalf("%x was read as %x", text, again)
			}
		}
		// Whatever was stored comes back, and in its own row only.
		e = entry{state: stateCompleted, codec: codecBytes, status: status, stored: text}
		for name, other := range map[string]func() (entry, error){
			"key":    func() (entry, error) { return unwrap(e, wrap(e, b), bindTo(digestOf(2), nil)) },
			"state":  func() (entry, error) { return unwrap(entry{state: stateFailed, status: status}, wrap(e, b), b) },
			"status": func() (entry, error) { return unwrap(entry{state: e.state, status: status + 1}, wrap(e, b), b) },
		} {
			if got, err := other(); err == nil {
				t.Fatalf("opened with another %s as %+v", name, got)
			}
		}
		if got, err := unwrap(e, wrap(e, b), b); err != nil || !bytes.Equal(got.body, text) {
			t.Fatalf("got %+v, %v", got, err)
		}
	})
}
