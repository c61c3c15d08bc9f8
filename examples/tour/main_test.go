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

func TestEveryStoryHoldsOnSQLite(t *testing.T)     { runAll(t, "") }
func TestEveryStoryHoldsOnPostgreSQL(t *testing.T) { runAll(t, testdb.Postgres(t)) }

func runAll(t *testing.T, dsn string) {
	for _, ch := range chapters {
		t.Run(ch.name, func(t *testing.T) {
			r := tour(t.Context(), story.Config{DSN: dsn, Seed: 7, Out: t.Output()}, []chapter{ch})[0]
			if ch.needs != "" && dsn == "" {
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
