package fault

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// Variables that steer a run.
const (
	// PlanEnv holds the one plan to run, to replay a failure.
	PlanEnv = "HOLDFAST_FAULT"
	// RoundsEnv is how many random pairs of faults are tried.
	RoundsEnv = "HOLDFAST_ROUNDS"
	// SeedEnv is the seed of these.
	SeedEnv = "HOLDFAST_SEED"
)

const usualRounds = 25

// A Report says what was tried.
type Report struct {
	Points int // of a call that nothing disturbs
	Runs   int
	Pairs  int // of the runs, those with two faults
	Missed int // of the runs, those whose faults did not all happen
}

// Everywhere breaks a call at every point in every mode, and at random pairs of points, where the second hits what follows
// the first: the rollback, the next attempt, the look for the lost commit. Each time the process ends, another one repeats
// the call until it succeeds, and there must be one effect. What was reported as applied must be there before that, and
// what was reported as not applied must not.
func Everywhere(t TB, s Scenario) Report {
	t.Helper()
	r := begin(t, s)
	if r == nil {
		return Report{}
	}
	defer r.end()
	if text := os.Getenv(PlanEnv); text != "" {
		plan, err := Parse(text)
		if err == nil {
			_, _, err = r.breakAt(plan)
		}
		r.fails("", err)
		return Report{Runs: 1}
	}
	points, _, err := r.breakAt(nil)
	if r.fails("without a fault: ", err); err != nil {
		return Report{Runs: 1}
	}
	report := Report{Points: len(points), Runs: 1}
	var follow []tail
	try := func(plan Plan) (passed []point, stop bool) {
		report.Runs++
		passed, fired, err := r.breakAt(plan)
		if err == nil && fired < len(plan) {
			report.Missed++
		}
		return passed, r.fails(describe(plan, passed), err)
	}
	for i, p := range points {
		for _, mode := range p.modes {
			first := Fault{i + 1, mode}
			passed, stop := try(Plan{first})
			if stop {
				return report
			}
			if len(passed) > first.Point {
				follow = append(follow, tail{first, passed})
			}
		}
	}
	seed := number(SeedEnv, uint64(time.Now().UnixNano())) //nolint:gosec // any seed does
	random := rand.New(rand.NewPCG(seed, 0))               //nolint:gosec // a campaign needs no secret
	for range number(RoundsEnv, usualRounds) {
		if len(follow) == 0 {
			break
		}
		report.Pairs++
		if _, stop := try(follow[random.IntN(len(follow))].pair(random)); stop {
			break
		}
	}
	if r.bad > 0 {
		t.Logf("prove: the seed of the pairs is %d", seed)
	}
	t.Logf("prove: %d points, %d runs, %d of them with two faults, seed %d; %d missed a fault", report.Points, report.Runs, report.Pairs, seed, report.Missed)
	return report
}

// A tail is what a process passed after a first fault.
type tail struct {
	first  Fault
	passed []point
}

// pair adds a second fault.
func (p tail) pair(random *rand.Rand) Plan {
	i := p.first.Point + random.IntN(len(p.passed)-p.first.Point)
	modes := p.passed[i].modes
	return Plan{p.first, {i + 1, modes[random.IntN(len(modes))]}}
}

// breakAt runs a call of a new process with a plan and checks what becomes of it.
func (r *run) breakAt(plan Plan) (passed []point, fired int, err error) {
	in, key := NewInjector(plan), r.key()
	defer in.Stop()
	process, err := r.Start(r.ctx, in)
	if err != nil {
		return nil, 0, fmt.Errorf("start: %w", err)
	}
	ctx, cancel := in.Attach(r.ctx)
	got := invoke(ctx, process.Call, key)
	cancel()
	in.Stop()
	passed, fired = in.passed()
	if err := got.strange(); err != nil {
		return passed, fired, err
	}
	if plan == nil && got.err != nil {
		return passed, fired, got.err
	}
	if err := r.reported(key, got); err != nil {
		return passed, fired, err
	}
	var answers []any
	if got.ok() {
		answers = append(answers, got.answer)
	}
	return passed, fired, r.settle(key, answers...)
}

// reported holds what a call said of its effect against what there is.
func (r *run) reported(key string, got reply) error {
	outcome := holdfast.Unknown
	if got.returned {
		outcome = holdfast.OutcomeOf(got.err)
	}
	when := fmt.Sprintf("reported %v (%v)", outcome, got.err)
	switch outcome {
	case holdfast.Applied:
		return r.count(key, when, 1, 1)
	case holdfast.NotApplied:
		return r.count(key, when, 0, 0)
	default:
		return r.count(key, when, 0, 1)
	}
}

// describe says how to run a plan again.
func describe(plan Plan, passed []point) string {
	text := ""
	for _, f := range plan {
		name := "not reached"
		if f.Point <= len(passed) {
			name = passed[f.Point-1].name
		}
		text += fmt.Sprintf("%v at point %d (%s), ", f.Mode, f.Point, name)
	}
	return fmt.Sprintf("%sreplay with %s=%s: ", text, PlanEnv, plan)
}

func number(env string, usual uint64) uint64 {
	n, err := strconv.ParseUint(os.Getenv(env), 10, 64)
	if err != nil {
		return usual
	}
	return n
}
