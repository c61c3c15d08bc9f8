package sqltx

import "testing"

type severe struct{ Severity, Code string }

func (e *severe) Error() string    { return e.Severity + " " + e.Code }
func (e *severe) SQLState() string { return e.Code }

// An error of the server proves that it refused the COMMIT, unless it is the last word of a server that goes down.
func TestRefused(t *testing.T) {
	t.Parallel()
	for e, want := range map[severe]bool{
		{"ERROR", "23505"}: true, {"ERROR", "40001"}: true, {"ERROR", "57P01"}: false, {"FATAL", "58000"}: false, {"PANIC", "58030"}: false, {"FATAL", "XX000"}: false,
	} {
		if got := refused(&e); got != want {
			t.Errorf("%v: refused %v, want %v", e, got, want)
		}
	}
}
