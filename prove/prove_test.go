package prove

import "testing"

func TestNilAnswersOfAnInterfaceAreCompared(t *testing.T) {
	t.Parallel()
	equal := same(func(a, b error) bool { return a == b }) //nolint:errorlint // it compares what it is given
	if !equal(nil, nil) {
		t.Error("two nil answers differ")
	}
}
