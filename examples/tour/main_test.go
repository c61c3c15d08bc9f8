package main

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/internal/testdb"
)

func TestMain(m *testing.M) {
	story.RunChild()
	testdb.Main(m)
}

func TestEveryStoryHoldsOnSQLite(t *testing.T) { runAll(t, story.Config{}) }

func TestEveryStoryHoldsOnServers(t *testing.T) {
	redis, _ := testdb.Redis(t)
	runAll(t, story.Config{DSN: testdb.Postgres(t), Redis: redis})
}

func runAll(t *testing.T, c story.Config) {
	c.Seed = 7
	for _, ch := range chapters {
		t.Run(ch.name, func(t *testing.T) {
			c.Out = t.Output()
			r := tour(t.Context(), c, []chapter{ch})[0]
			if ch.lacks(c) != "" {
				if r.NotRun == "" || held([]story.Result{r}) {
					t.Fatalf("a story without its server counts: %+v", r)
				}
				return
			}
			if !r.OK || r.Operations == 0 || r.Backend == "" || r.Hazard == "" {
				t.Fatalf("got %+v", r)
			}
		})
	}
}

func TestAControlWithoutDamageFailsTheTour(t *testing.T) {
	t.Parallel()
	for _, r := range []story.Result{{NaiveDamage: 0, Damage: 0}, {NaiveDamage: 3, Damage: 1}} {
		r.Judge()
		if held([]story.Result{{OK: true}, r}) {
			t.Errorf("%+v passes", r)
		}
	}
	good := story.Result{NaiveDamage: 3}
	if good.Judge(); !held([]story.Result{good, {NotRun: "no server"}}) {
		t.Error("a good tour fails")
	}
}

func TestOnlyNamesStories(t *testing.T) {
	t.Parallel()
	if picked, err := pick("signup, payments"); err != nil || len(picked) != 2 || picked[0].name != "signup" {
		t.Errorf("got %v, %v", picked, err)
	}
	if _, err := pick("payment"); err == nil || !strings.Contains(err.Error(), "payments-crash") {
		t.Errorf("got %v", err)
	}
}
