package idem

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestDigestsOfDifferentPartsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[ID]Key{}
	parts := []string{"", "a", "b", "ab", "a\x00b", ":", "a:", ":a"}
	for _, s := range parts {
		for _, n := range parts {
			for _, v := range parts {
				k := Key{Scope: s, Name: n, Value: v}
				if other, ok := seen[k.ID()]; ok {
					t.Fatalf("%+v and %+v have one digest", k, other)
				}
				seen[k.ID()] = k
			}
		}
	}
}

func TestDerive(t *testing.T) {
	t.Parallel()
	derive := func(fields ...Field) Key {
		t.Helper()
		k, err := Derive("tenant", "transfer", fields...)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	type payload struct {
		From, To  string
		Amount    int
		CreatedAt time.Time
	}
	keyOf := func(p payload) Key {
		return derive(Field{"actor", "ann"}, Field{"from", p.From}, Field{"to", p.To}, Field{"amount", p.Amount})
	}
	base := payload{"a", "b", 100, time.Unix(1, 0)}
	later := base
	later.CreatedAt = time.Unix(2, 0)
	if keyOf(base) != keyOf(later) {
		t.Error("a changed timestamp changed the key")
	}
	if derive(Field{"a", 1}, Field{"b", 2}) != derive(Field{"b", 2}, Field{"a", 1}) {
		t.Error("the order of the fields changed the key")
	}
	different := [][]Field{
		{{"a", 1}},
		{{"a", "1"}},
		{{"a", 1}, {"b", nil}},
		{{"b", 1}},
		{{"a", 1.5}},
		{{"a", []int{1}}},
		{{"a", true}},
		{{"a", int64(1) << 53}},
		{{"a", int64(1)<<53 + 1}},
		{{"a", ""}},
		{{"a", nil}},
		{{"ab", "c"}},
		{{"a", "bc"}},
		{{"a\xff", 1}},
		{{"a\xfe", 1}},
	}
	seen := map[string]int{}
	for i, fields := range different {
		k := derive(fields...)
		if j, ok := seen[k.Value]; ok {
			t.Errorf("%v and %v have one key", different[j], fields)
		}
		seen[k.Value] = i
	}
}

func TestDeriveRefuses(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string][]Field{
		"none": nil, "no name": {{"", 1}}, "twice": {{"a", 1}, {"a", 2}}, "no JSON": {{"a", make(chan int)}}, "NaN": {{"a", math.NaN()}},
		"not UTF-8": {{"a", "x\xff"}}, "not UTF-8 inside": {{"a", map[string]any{"k": []string{"\xc3"}}}},
	} {
		if k, err := Derive("s", "o", fields...); !errors.Is(err, ErrKeyInvalid) {
			t.Errorf("%s: got %v, %v", name, k, err)
		}
	}
	if _, err := Derive("s", "o", Field{"a", "legal: \ufffd and \\ufffd"}); err != nil {
		t.Error(err)
	}
	if _, err := Derive("", "o", Field{"a", 1}); !errors.Is(err, ErrKeyInvalid) {
		t.Error("a scope is required")
	}
}

func TestFingerprints(t *testing.T) {
	t.Parallel()
	if FingerprintOf("ab", "c") == FingerprintOf("a", "bc") || FingerprintOf("a") == FingerprintOf("a", "") || FingerprintOf[string]() == (Fingerprint{}) {
		t.Error("different requests have one fingerprint")
	}
	if FingerprintOf("a", "b") != FingerprintOf([]byte("a"), []byte("b")) {
		t.Error("text and bytes differ")
	}
	a, err := FingerprintJSON(map[string]any{"a": 1, "b": []any{2, map[string]any{"c": nil}}})
	b, err2 := FingerprintJSON(map[string]any{"b": []any{2, map[string]any{"c": nil}}, "a": 1})
	if err != nil || err2 != nil || a != b {
		t.Error("the order of a map changed the fingerprint")
	}
	if _, err := FingerprintJSON("\xff"); !errors.Is(err, ErrKeyInvalid) {
		t.Errorf("got %v", err)
	}
	unknown := append([]byte{9}, make([]byte, 32)...)
	if a.matches(unknown) {
		t.Error("an unknown version matched")
	}
}

func FuzzKey(f *testing.F) {
	f.Add("s", "n", "v", "s", "n", "w")
	f.Add("a:b", "c", "d", "a", "b:c", "d")
	f.Add("\xff", "", "\x00", "é", strings.Repeat("x", 300), " ")
	f.Fuzz(func(t *testing.T, s1, n1, v1, s2, n2, v2 string) {
		a, b := Key{Scope: s1, Name: n1, Value: v1}, Key{Scope: s2, Name: n2, Value: v2}
		if (a == b) != (a.ID() == b.ID()) {
			t.Fatalf("%+v and %+v", a, b)
		}
		if err := a.validate(); err != nil && !errors.Is(err, ErrKeyInvalid) {
			t.Fatalf("got %v", err)
		}
	})
}

func FuzzDerive(f *testing.F) {
	f.Add("a", "x", "b", "y")
	f.Add("a", "\xff", "a", "")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		one, err := Derive("s", "o", Field{name1, value1}, Field{name2, value2})
		if err != nil {
			if !errors.Is(err, ErrKeyInvalid) {
				t.Fatalf("got %v", err)
			}
			return
		}
		two, err := Derive("s", "o", Field{name2, value2}, Field{name1, value1})
		if err != nil || one != two {
			t.Fatalf("order matters: %v, %v, %v", one, two, err)
		}
		other, err := Derive("s", "o", Field{name1, value1 + "x"}, Field{name2, value2})
		if err == nil && other == one {
			t.Fatal("another value has the same key")
		}
	})
}

func FuzzFingerprint(f *testing.F) {
	f.Add([]byte("ab"), []byte("c"), []byte("a"), []byte("bc"))
	f.Fuzz(func(t *testing.T, a1, a2, b1, b2 []byte) {
		same := string(a1) == string(b1) && string(a2) == string(b2)
		a, b := FingerprintOf(a1, a2), FingerprintOf(b1, b2)
		if same != (a == b) || same != a.matches(b.bytes()) {
			t.Fatalf("%q %q and %q %q", a1, a2, b1, b2)
		}
	})
}

// Only the value of a key can be derived: other parts that are too long are told what helps them.
func TestLongPartsAreToldWhatHelps(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10<<20)
	for part, derived := range map[string]bool{"Value": true, "Scope": false, "Name": false, "message ID": false, "consumer": false} {
		err := validatePart(part, long)
		if err == nil || strings.Contains(err.Error(), "Derive") != derived || !strings.Contains(err.Error(), "hash") || len(err.Error()) > 200 {
			t.Errorf("%s: got %.300v", part, err)
		}
	}
}
