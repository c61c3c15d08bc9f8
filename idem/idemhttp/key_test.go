package idemhttp

import (
	"strings"
	"testing"
)

func TestKeyIsTheSameInBothSpellings(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(`"`, maxKey)
	for text, want := range map[string]string{
		`8e03978e-40d5-43dd-bc93-6894a57f9324`:   "8e03978e-40d5-43dd-bc93-6894a57f9324",
		`"8e03978e-40d5-43dd-bc93-6894a57f9324"`: "8e03978e-40d5-43dd-bc93-6894a57f9324",
		" \tabc ":                                "abc",
		` "abc" `:                                "abc",
		`"a b"`:                                  "a b",
		`a b`:                                    "a b",
		`"a,b"`:                                  "a,b",
		`"a\"b\\c"`:                              `a"b\c`,
		`a\b;c=1`:                                `a\b;c=1`,
		`" "`:                                    " ",
		`'; drop table idem_key; --`:             `'; drop table idem_key; --`,
		strings.Repeat("k", maxKey):              strings.Repeat("k", maxKey),
		quote(long):                              long,
	} {
		if got, err := parseKey(text); err != nil || got != want {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}

func TestKeyIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "is empty",
		" \t":                             "is empty",
		`""`:                              "is empty",
		`"`:                               "no closing",
		`"abc`:                            "no closing",
		`"abc\"`:                          "no closing",
		`"a\b"`:                           "escape",
		`"abc\`:                           "escape",
		`"abc";v=1`:                       "parameters",
		`"abc", "abc"`:                    "parameters",
		`abc, abc`:                        "quoted",
		`abc"`:                            "quoted",
		"a\x00b":                          "ASCII",
		"a\r\nSet-Cookie: b":              "ASCII",
		"\xff\xfe":                        "ASCII",
		"schlüssel":                       "ASCII",
		`"schlüssel"`:                     "ASCII",
		"a\x7f":                           "ASCII",
		strings.Repeat("k", maxKey+1):     "255",
		quote(strings.Repeat("k", 256)):   "255",
		strings.Repeat("k", 10<<20):       "255",
		`"` + strings.Repeat("k", 10<<20): "255",
	} {
		if got, err := parseKey(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %q, %v, want an error with %q", text, got, err, want)
		}
	}
}

// quote spells a key as RFC 8941 does.
func quote(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

func FuzzKeyHeader(f *testing.F) {
	for _, seed := range []string{"abc", `"abc"`, `"a\"b"`, `"abc";v=1`, "a,b", "a\x00", `"`, `"\`, " a ", "ä"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := parseKey(text)
		if err != nil {
			if key != "" {
				t.Fatalf("%q: refused, and yet %q", text, key)
			}
			return
		}
		if key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q: accepted as %q", text, key)
		}
		if again, err := parseKey(quote(key)); err != nil || again != key {
			t.Fatalf("%q quoted: got %q, %v", key, again, err)
		}
		if raw := strings.Trim(text, " \t"); raw[0] != '"' && key != raw {
			t.Fatalf("%q: got %q", text, key)
		}
	})
}
