package optimistic_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/optimistic"
)

// O2: presence is told apart from value, also in a body.
func TestVersionInABody(t *testing.T) {
	t.Parallel()
	type form struct {
		Version optimistic.Version  `json:"version"`
		Pointer *optimistic.Version `json:"pointer"`
	}
	for text, want := range map[string]optimistic.Version{
		`{}`: {}, `{"version":null}`: {}, `{"version":0}`: optimistic.At(0), `{"version":-3}`: optimistic.At(-3),
		`{"version":"0"}`: optimistic.At(0), `{"version":9007199254740993}`: optimistic.At(1<<53 + 1),
		`{"version":"9223372036854775807"}`: optimistic.At(1<<63 - 1),
	} {
		var got form
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Version != want || got.Version.IsSet() != want.IsSet() || got.Pointer != nil {
			t.Errorf("%s: got %v, %v", text, got.Version, err)
		}
		back, err := json.Marshal(got.Version)
		if err != nil {
			t.Error(err)
		}
		var again optimistic.Version
		if err := json.Unmarshal(back, &again); err != nil || again != want {
			t.Errorf("%s comes back as %s", text, back)
		}
	}
	for _, bad := range []string{`1.5`, `1e3`, `"x"`, `""`, `true`, `{}`, `9223372036854775808`, `"07"`, `"\ud800"`} {
		var v optimistic.Version
		if err := json.Unmarshal([]byte(bad), &v); !errors.Is(err, optimistic.ErrMalformed) || v.IsSet() {
			t.Errorf("%s: got %v, %v", bad, v, err)
		}
	}
	if text, err := json.Marshal(optimistic.Any()); err != nil || string(text) != "null" {
		t.Errorf("Any is written as %s, %v: a client must not be able to ask for it by echoing it", text, err)
	}
}

func TestVersionInAStatement(t *testing.T) {
	t.Parallel()
	var v optimistic.Version
	if err := v.Scan(int64(7)); err != nil || v != optimistic.At(7) {
		t.Errorf("got %v, %v", v, err)
	}
	if err := v.Scan(nil); err != nil || v.IsSet() {
		t.Errorf("NULL: got %v, %v", v, err)
	}
	for _, bad := range []any{time.Now(), "7", 1.5} { // O7: a timestamp is no version
		if err := v.Scan(bad); err == nil {
			t.Errorf("%T is taken for a version", bad)
		}
	}
	for _, v := range []optimistic.Version{{}, optimistic.Any()} {
		if _, err := v.Value(); !errors.Is(err, optimistic.ErrNoVersion) || v.ETag() != "" {
			t.Errorf("%v can be sent: %v", v, err)
		}
	}
	if optimistic.At(0).String() != "0" || optimistic.Any().String() != "any" || (optimistic.Version{}).String() != "unset" {
		t.Error("a version has another text")
	}
}
