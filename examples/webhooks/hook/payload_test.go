package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEachPayloadIsDeliveredOneToFiveTimes(t *testing.T) {
	t.Parallel()
	payloads, err := load("")
	if err != nil {
		t.Fatal(err)
	}
	payloads = payloads[:40] // without the ones that the provider itself sends twice
	times, inARow := map[string]int{}, 0
	list := schedule(payloads, 1)
	for i, p := range list {
		times[p.Delivery]++
		if i > 0 && list[i-1].Delivery == p.Delivery {
			inARow++
		}
	}
	if len(times) != len(payloads) || inARow < 5 {
		t.Errorf("%d of %d delivered, %d twice in a row", len(times), len(payloads), inARow)
	}
	for id, n := range times {
		if n > 5 {
			t.Errorf("%s is delivered %d times", id, n)
		}
	}
	failing := 0
	for id := range unique(payloads) {
		if failsFirst(id) {
			failing++
		}
	}
	if failing == 0 {
		t.Error("no handler fails")
	}
}

func TestPayloadsComeFromAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "payloads.jsonl")
	text := `{"event":"push","delivery":"1","body":"{\"a\":\"\u00e9\"}"}` + "\n" + `{"event":"ping","delivery":"2","body":"{}"}` + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := load(file)
	if err != nil || len(list) != 2 || list[0] != (Payload{Event: "push", Delivery: "1", Body: `{"a":"é"}`}) {
		t.Fatalf("got %v, %v", list, err)
	}
	for name, bad := range map[string]string{"line 2": text[:strings.Index(text, "\n")+1] + "{", "delivery": `{"event":"push"}`, "no payloads": ""} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(file); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
