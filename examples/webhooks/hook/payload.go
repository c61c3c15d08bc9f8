package hook

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// A Payload is an event as the provider sends it.
type Payload struct {
	Event    string `json:"event"`
	Delivery string `json:"delivery"`
	Body     string `json:"body"`
}

// load reads payloads from a file, a JSON object a line, or makes up a few.
func load(file string) ([]Payload, error) {
	if file == "" {
		return madeUp(), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("-payloads: %w", err)
	}
	defer func() { _ = f.Close() }()
	var list []Payload
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 32<<20)
	for lines.Scan() {
		var p Payload
		err := json.Unmarshal(lines.Bytes(), &p)
		if err == nil && p.Delivery == "" {
			err = errors.New(`it has no "delivery"`)
		}
		if err != nil {
			return nil, fmt.Errorf("-payloads: line %d: %w", len(list)+1, err)
		}
		list = append(list, p)
	}
	if len(list) == 0 && lines.Err() == nil {
		return nil, errors.New("-payloads: there are no payloads in the file")
	}
	return list, lines.Err()
}

func madeUp() []Payload {
	var list []Payload
	for i := range 40 {
		event := []string{"invoice.paid", "invoice.voided", "customer.created", "payout.sent"}[i%4]
		list = append(list, Payload{
			Event:    event,
			Delivery: fmt.Sprintf("6f1d0c5e-0000-4000-8000-%012d", i),
			Body:     fmt.Sprintf(`{"type":%q,"object":{"id":"in_%04d","amount":%d,"note":"caf\u00e9 \ud83d\ude00"}}`, event, i, 100+i),
		})
	}
	return append(list, list[3], list[7]) // the provider itself sends some twice
}
