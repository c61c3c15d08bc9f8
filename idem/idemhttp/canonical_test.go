package idemhttp

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestCanonicalJSONEquatesSpellings(t *testing.T) {
	t.Parallel()
	for want, texts := range map[string][]string{
		`{"a":1,"b":[2,{"c":null}]}`: {
			`{"a":1,"b":[2,{"c":null}]}`, "{ \"b\" : [ 2 , { \"c\" : null } ] ,\r\n\t\"a\" : 1 } ", `{"\u0061":1,"b":[2,{"c":null}]}`,
		},
		`[]`:                           {"[]", " [ ] "},
		`{}`:                           {"{}", "{ }"},
		`"é/\u001f\n\"\\"`:             {`"é/\u001f\n\"\\"`, `"\u00e9\/\u001F\u000a\u0022\u005c"`},
		`"😀"`:                          {`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`},
		`{"😀":1,"` + "\ufb33" + `":2}`: {`{"` + "\ufb33" + `":2,"😀":1}`}, // the order of UTF-16, not of UTF-8
		`{"a":1,"aa":2,"b":3}`:         {`{"b":3,"aa":2,"a":1}`},
		`-0.5e+10`:                     {" -0.5e+10"},
		`true`:                         {"true "},
	} {
		for _, text := range texts {
			if got, err := canonicalJSON([]byte(text)); err != nil || string(got) != want {
				t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
			}
		}
	}
}

func TestCanonicalJSONKeepsValuesApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, text := range []string{
		`{"a":1,"b":[2,{"c":null}]}`, `{"a":1.0,"b":[2,{"c":null}]}`, `{"a":1,"b":[2,{}]}`, `{"a":"1","b":[2,{"c":null}]}`,
		`{"a":1,"b":[{"c":null},2]}`, `{"a":1}`, `{"A":1}`, `[1]`, `[[1]]`, `1`, `"1"`, `-0`, `0`, `1e2`, `100`, `null`, `"null"`, `""`, `[]`, `{}`,
		`9007199254740992`, `9007199254740993`, `1e400`, `1e401`, `[1,2]`, `[12]`, `"a"`, `"a "`, `"\u0000"`, `"\ufffd"`,
	} {
		got, err := canonicalJSON([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if other, ok := seen[string(got)]; ok {
			t.Errorf("%s and %s are the same", text, other)
		}
		seen[string(got)] = text
	}
}

func TestCanonicalJSONRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"amount":1,"Amount":2}`, `{"a":{"k":1,"\u212A":2}}`, `{"s":1,"t":2,"\u017f":3}`, // one member to encoding/json, which takes the last
		``, ` `, `{`, `[`, `"`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1 "b":2}`, `{a:1}`, `{1:1}`, `'a'`, `nul`, `nulll`,
		`01`, `-`, `+1`, `1.`, `.1`, `1e`, `1e+`, `--1`, `0x1`, `NaN`, `Infinity`, `1_000`, `1 2`, `{}{}`, "\ufeff{}", "{}\x00",
		`"\a"`, `"\u12"`, `"\u12g4"`, `"\u+123"`, "\"\n\"", "\"\x00\"", `"\`,
		"\"\xff\"", "{\"\xc3\x28\":1}", `"\ud800"`, `"\udc00"`, `"\ud800x"`, `"\ud800\n"`, `"\ud800\u0041"`, `"\ud800\ud800"`,
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `[{"b":{"a":1,"c":2,"a":3}}]`,
		strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2), strings.Repeat(`{"a":`, 1_000_000), strings.Repeat("[", 10_000_000),
	} {
		if got, err := canonicalJSON([]byte(text)); err == nil {
			t.Errorf("%.60q: got %s", text, got)
		}
	}
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	if got, err := canonicalJSON([]byte(deep)); err != nil || string(got) != deep {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
}

// What is accepted is JSON, of the same value, in a form that stays as it is and that another order and spacing share.
func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{
		`{"b":[2,{"c":null}],"a":1}`, `"\ud83d\ude00\u001f"`, `[1.0,-0,1e400,9007199254740993]`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `[[[[]]]]`,
	} {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		got, err := canonicalJSON(text)
		if err != nil {
			return
		}
		if !json.Valid(text) || !json.Valid(got) {
			t.Fatalf("%q became %q: not JSON", text, got)
		}
		if !reflect.DeepEqual(valueOf(t, text), valueOf(t, got)) {
			t.Fatalf("%q became %q: another value", text, got)
		}
		if again, err := canonicalJSON(got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%q became %q: %v", got, again, err)
		}
		shuffled := shuffle(nil, valueOf(t, got), rand.New(rand.NewPCG(seed, 0)))
		if other, err := canonicalJSON(shuffled); err != nil || !bytes.Equal(other, got) {
			t.Fatalf("%q became %q, %v, want %q", shuffled, other, err, got)
		}
	})
}

// valueOf is the value as encoding/json reads it, with numbers as text.
func valueOf(t *testing.T, text []byte) (v any) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// shuffle writes a value with its members in random order and white space in between.
func shuffle(out []byte, v any, random *rand.Rand) []byte {
	out = append(out, " \n\t\r"[random.IntN(4)])
	switch v := v.(type) {
	case map[string]any:
		out = append(out, '{')
		names := slices.Sorted(maps.Keys(v))
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for i, name := range names {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(shuffle(out, name, random), ':')
			out = shuffle(out, v[name], random)
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for i, element := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = shuffle(out, element, random)
		}
		return append(out, ']')
	default:
		text, _ := json.Marshal(v) // escapes that the canonical form does not have
		return append(out, text...)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	body := []byte(`{"order":"order-17","amount":1250,"currency":"EUR","customer":{"name":"Ada","mail":"ada@example.com"},"items":[{"sku":"a-1","n":1},{"sku":"b-2","n":3}]}`)
	r := post("/payments?b=2&a=1", "application/json", body)
	for name, canonicalBody := range map[string]bool{"bytes": false, "canonical JSON": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				fingerprint(r, body, canonicalBody)
			}
		})
	}
}

func TestCanonicalJSONCostsInProportion(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	const size = 1 << 18
	for _, depth := range []int{8, 1000} {
		text := []byte(strings.Repeat(`{"b":`, depth) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat(`,"a":1}`, depth))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = canonicalJSON(text)
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / size; got > 256 {
			t.Errorf("%d levels take %d times the size of the text", depth, got)
		}
	}
}
