package optimistic_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/optimistic"
)

func parse(t testing.TB, name string, values ...string) (optimistic.Condition, error) {
	t.Helper()
	return optimistic.ParseCondition(http.Header{name: values})
}

func TestPreconditionsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for _, good := range []struct {
		values  []string
		version optimistic.Version
	}{
		{[]string{`"7"`}, optimistic.At(7)},
		{[]string{` "7" `}, optimistic.At(7)},
		{[]string{`"-7"`}, optimistic.At(-7)},
		{[]string{`"9223372036854775807"`}, optimistic.At(1<<63 - 1)},
		{[]string{`, "7",, `}, optimistic.At(7)},
		{[]string{`*`}, optimistic.Any()},
		{[]string{`W/"7"`}, optimistic.Version{}},
		{[]string{`"7","8"`}, optimistic.Version{}},
		{[]string{`"7"`, `"8"`}, optimistic.Version{}},
		{[]string{`"7,8"`}, optimistic.Version{}},
		{[]string{`""`}, optimistic.Version{}},
		{[]string{`"07"`}, optimistic.Version{}},
		{[]string{`"+7"`}, optimistic.Version{}},
		{[]string{`"0x7"`}, optimistic.Version{}},
		{[]string{`"9223372036854775808"`}, optimistic.Version{}},
		{[]string{"\"\xe9\""}, optimistic.Version{}},
	} {
		c, err := parse(t, "If-Match", good.values...)
		if err != nil || c.Version() != good.version || c.Empty() {
			t.Errorf("%q: got %v, %v", good.values, c.Version(), err)
		}
	}
	for _, bad := range [][]string{
		{``},
		{`7`},
		{`'7'`},
		{`"7`},
		{`7"`},
		{`w/"7"`},
		{`W/7`},
		{`W/ "7"`},
		{`"7" "8"`},
		{`"7";"8"`},
		{`*, "7"`},
		{`"7", *`},
		{`*`, `*`},
		{`,`},
		{"\"a\x00\""},
		{`"a b"`},
		{"\"a\x7f\""},
		{strings.Repeat(`"7",`, 65)},
		{`"` + strings.Repeat("7", 10<<20) + `"`},
		{`"7"x`},
	} {
		for _, name := range []string{"If-Match", "If-None-Match"} {
			_, err := parse(t, name, bad...)
			if status, _ := optimistic.Status(err); !errors.Is(err, optimistic.ErrMalformed) || status != http.StatusBadRequest {
				t.Errorf("%s: %.40q: got %v", name, bad, err)
			}
		}
	}
	if c, err := optimistic.ParseCondition(nil); err != nil || !c.Empty() || !errors.Is(c.Require(), optimistic.ErrRequired) {
		t.Errorf("no header: got %v", err)
	}
}

func TestPreconditionsAreEvaluatedInOrder(t *testing.T) {
	t.Parallel()
	none, seven := optimistic.Version{}, optimistic.At(7)
	for _, c := range []struct {
		match, noneMatch string
		current          optimistic.Version
		get, put         int
	}{
		{"", "", seven, 0, 0},
		{"", "", none, 0, 0},
		{`"7"`, "", seven, 0, 0},
		{`"8"`, "", seven, 412, 412},
		{`"7"`, "", none, 412, 412},
		{`W/"7"`, "", seven, 412, 412},
		{`*`, "", seven, 0, 0},
		{`*`, "", none, 412, 412},
		{"", `"7"`, seven, 304, 412},
		{"", `W/"7"`, seven, 304, 412},
		{"", `"6", W/"7"`, seven, 304, 412},
		{"", `"8"`, seven, 0, 0},
		{"", `"7"`, none, 0, 0},
		{"", `*`, seven, 304, 412},
		{"", `*`, none, 0, 0},
		{`"8"`, `"7"`, seven, 412, 412},
		{`"7"`, `"7"`, seven, 304, 412},
	} {
		h := http.Header{}
		if c.match != "" {
			h.Set("If-Match", c.match)
		}
		if c.noneMatch != "" {
			h.Set("If-None-Match", c.noneMatch)
		}
		cond, err := optimistic.ParseCondition(h)
		get, put := cond.Evaluate(http.MethodGet, c.current), cond.Evaluate(http.MethodPut, c.current)
		if err != nil || get != c.get || put != c.put || cond.Evaluate(http.MethodHead, c.current) != c.get {
			t.Errorf("%+v: got %d, %d, %v", c, get, put, err)
		}
	}
}

// O15: which refusal has which status, and the current ETag where it is known.
func TestRefusalsHaveAStatus(t *testing.T) {
	t.Parallel()
	conflict := &optimistic.ConflictError{Expected: optimistic.At(1), Current: optimistic.At(2)}
	for _, c := range []struct {
		err    error
		status int
		etag   string
	}{
		{conflict, 412, `"2"`},
		{&optimistic.PreconditionError{Current: optimistic.At(3)}, 412, `"3"`},
		{&optimistic.PreconditionError{}, 412, ""},
		{optimistic.ErrRequired, 428, ""},
		{optimistic.ErrNoVersion, 428, ""},
		{optimistic.ErrMalformed, 400, ""},
		{optimistic.ErrNotFound, 404, ""},
		{&optimistic.ContendedError{Stop: optimistic.ErrAttempts, Last: conflict}, 503, ""},
	} {
		w := httptest.NewRecorder()
		if !optimistic.Refuse(w, c.err) || w.Code != c.status || w.Header().Get("ETag") != c.etag ||
			w.Header().Get("Content-Type") != "application/problem+json" || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%v: got %d, %v, %s", c.err, w.Code, w.Header(), w.Body)
		}
	}
	for _, other := range []error{nil, errors.New("other")} {
		w := httptest.NewRecorder()
		if optimistic.Refuse(w, other) || w.Body.Len() > 0 {
			t.Errorf("%v is refused", other)
		}
	}
}

// What was accepted as ours is what we write, and nothing that is not a tag is accepted.
func FuzzParseCondition(f *testing.F) {
	for _, seed := range []string{`"7"`, `*`, `W/"7", "8"`, `"`, `"a,b" , "c"`, "", `"-0"`, "\"\x00\""} {
		f.Add(seed, int64(7))
	}
	f.Fuzz(func(t *testing.T, header string, n int64) {
		c, err := parse(t, "If-Match", header)
		if err != nil {
			if !errors.Is(err, optimistic.ErrMalformed) || !c.Empty() {
				t.Fatalf("%q: got %v", header, err)
			}
			return
		}
		if v, ok := c.Version().Int64(); ok && strings.Trim(header, " \t,") != optimistic.At(v).ETag() {
			t.Fatalf("%q is taken for %d", header, v)
		}
		both, err := parse(t, "If-Match", header, optimistic.At(n).ETag())
		if err == nil && both.Evaluate(http.MethodPut, optimistic.At(n)) != 0 {
			t.Fatalf("%q and %d: does not match", header, n)
		}
		own, err := parse(t, "If-Match", optimistic.At(n).ETag())
		if err != nil || own.Version() != optimistic.At(n) {
			t.Fatalf("%d does not come back: %v, %v", n, own.Version(), err)
		}
	})
}
