package payroll_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/examples/fencing/payroll"
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/internal/testdb"
)

func TestMain(m *testing.M) {
	story.RunChild()
	testdb.Main(m)
}

// With Redis: the tour's tests run the story without.
func TestWithRedis(t *testing.T) {
	t.Parallel()
	redis, _ := testdb.Redis(t)
	for name, dsn := range map[string]string{"SQLite": "", "PostgreSQL": testdb.Postgres(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r, err := payroll.Run(t.Context(), story.Config{DSN: dsn, Redis: redis, Out: &out})
			if err != nil || !r.OK || r.NaiveDamage != 1 || r.Operations != 8 {
				t.Errorf("%+v, %v\n%s", r, err, out.String())
			}
			if n := strings.Count(out.String(), "was refused: lease: fenced off: token"); n != 2 {
				t.Errorf("%d refusals are shown\n%s", n, out.String())
			}
		})
	}
}
