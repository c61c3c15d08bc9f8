// Package history has what random campaigns share whose histories of concurrent calls are checked with porcupine.
package history

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Seed is that of a campaign: HOLDFAST_SEED, or another each time.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("HOLDFAST_SEED"), 10, 64)
	if err != nil {
		return rand.Uint64()
	}
	return seed
}

// Rounds is how often a campaign runs: usual times, or HOLDFAST_ROUNDS, as make test/stress says.
func Rounds(t testing.TB, usual int) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("HOLDFAST_ROUNDS"))
	if err != nil || n < 1 {
		return usual
	}
	return n
}

// A Call is one of a history.
type Call interface {
	fmt.Stringer
	// Span tells when it began and ended. An open one may still take effect later: nobody knows its outcome.
	Span() (from, to time.Duration, open bool)
}

// Check returns what is wrong with the calls of one thing that model describes, or nothing.
func Check[C Call](model porcupine.Model, calls []C) string {
	var ops []porcupine.Operation
	for i, c := range calls {
		from, to, open := c.Span()
		if open {
			to = time.Hour
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: c, Call: int64(from), Return: int64(to)})
	}
	result := porcupine.CheckOperationsTimeout(model, ops, time.Minute)
	if result == porcupine.Ok {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: these calls fit no order of one at a time:\n", result)
	for _, c := range slices.SortedFunc(slices.Values(calls), earlier) {
		from, to, _ := c.Span()
		fmt.Fprintf(&text, "  %8.2f..%8.2f ms  %v\n", from.Seconds()*1000, to.Seconds()*1000, c)
	}
	return text.String()
}

func earlier[C Call](a, b C) int {
	one, _, _ := a.Span()
	other, _, _ := b.Span()
	return int(one - other)
}
