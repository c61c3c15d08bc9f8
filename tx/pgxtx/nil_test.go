package pgxtx_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func TestNewNamesWhatIsNil(t *testing.T) {
	t.Parallel()
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "pgxtx: New: the pool is nil") {
			t.Errorf("New(nil) said %q", said)
		}
	}()
	pgxtx.New(nil)
}
