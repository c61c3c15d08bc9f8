package flight_test

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/flight"
)

// bring makes what a leader brings.
func bring[L any](lead L) func() L { return func() L { return lead } }

func TestOneLeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var (
			group flight.Group[string, int, string]
			wg    sync.WaitGroup
			mu    sync.Mutex // guards leaders
			leads int
			enter = make(chan struct{})
		)
		for i := range 100 {
			wg.Go(func() {
				f, leader := group.Join("key", bring(i))
				if leader {
					mu.Lock()
					leads++
					mu.Unlock()
					f.Work()
					f.Work() // as often as it likes
					<-enter
					group.Land("key", f, func() (string, bool) { return "answer", true })
					return
				}
				<-f.Working()
				<-f.Landed()
				if got, ok := f.Result(); got != "answer" || !ok {
					t.Errorf("a follower got %q, %v", got, ok)
				}
			})
		}
		synctest.Wait()
		if other, leader := group.Join("another", bring(-1)); !leader || other.Lead != -1 {
			t.Error("another key has a flight of its own")
		}
		close(enter)
		wg.Wait()
		if leads != 1 {
			t.Errorf("%d calls led, want 1", leads)
		}
		if _, leader := group.Join("key", bring(7)); !leader {
			t.Error("a flight that has landed takes nobody")
		}
	})
}

func TestNothingToShare(t *testing.T) {
	t.Parallel()
	var group flight.Group[int, struct{}, string]
	f, _ := group.Join(1, bring(struct{}{}))
	follower, leads := group.Join(1, bring(struct{}{}))
	if leads || follower != f {
		t.Fatal("the second joins the first")
	}
	group.Land(1, f, func() (string, bool) { return "", false })
	<-follower.Landed()
	if _, ok := follower.Result(); ok {
		t.Error("there is nothing to share")
	}
	select {
	case <-follower.Working():
		t.Error("the leader never was at work")
	default:
	}
}

func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	var group flight.Group[int, struct{}, string]
	f, _ := group.Join(1, bring(struct{}{}))
	group.Land(1, f, func() (string, bool) {
		t.Error("nobody wants to know")
		return "", true
	})
	<-f.Landed()
}

// Who comes after a flight is forgotten does not get what it was under way to share, and its landing leaves the next alone.
func TestForget(t *testing.T) {
	t.Parallel()
	var group flight.Group[int, struct{}, string]
	for _, forget := range []func(){func() { group.Forget(1) }, group.ForgetAll} {
		first, _ := group.Join(1, bring(struct{}{}))
		waiting, _ := group.Join(1, bring(struct{}{}))
		forget()
		second, leads := group.Join(1, bring(struct{}{}))
		if !leads || second == first {
			t.Fatal("a call joined a flight that was forgotten")
		}
		group.Land(1, first, func() (string, bool) { return "first", true })
		if got, ok := waiting.Result(); got != "first" || !ok {
			t.Fatalf("who waited got %q, %v", got, ok)
		}
		if f, leads := group.Join(1, bring(struct{}{})); leads || f != second {
			t.Fatal("the first flight took the second down with it")
		}
		group.Land(1, second, func() (string, bool) { return "", false })
	}
}

// The last who leaves ends it: who comes then begins anew, and the landing of the old leaves the new alone.
func TestTheLastLeaves(t *testing.T) {
	t.Parallel()
	var group flight.Group[int, struct{}, string]
	first, _ := group.Join(1, bring(struct{}{}))
	group.Join(1, bring(struct{}{}))
	if group.Leave(1, first) || !first.Current() {
		t.Fatal("one is left")
	}
	if !group.Leave(1, first) || first.Current() {
		t.Fatal("nobody is left")
	}
	second, leads := group.Join(1, bring(struct{}{}))
	if !leads || second == first {
		t.Fatal("a call joined a flight that all had left")
	}
	group.Land(1, first, func() (string, bool) { return "", false })
	if f, leads := group.Join(1, bring(struct{}{})); leads || f != second {
		t.Fatal("the first flight took the second down with it")
	}
	group.Land(1, second, func() (string, bool) { return "second", true })
	if group.Leave(1, second) {
		t.Error("who leaves after the landing ends nothing")
	}
}

// A group that closes tells of every flight, also of those that nobody joins any more.
func TestClose(t *testing.T) {
	t.Parallel()
	var group flight.Group[float64, int, string]
	detached, _ := group.Join(1, bring(1))
	group.Forget(1)
	joined, _ := group.Join(1, bring(2))
	lost, _ := group.Join(math.NaN(), bring(3)) // which equals nothing, itself included
	landed, _ := group.Join(2, bring(4))
	group.Land(2, landed, func() (string, bool) { return "", true })
	under := map[*flight.Flight[int, string]]bool{}
	for _, f := range group.Close() {
		under[f] = true
	}
	if len(under) != 3 || !under[detached] || !under[joined] || !under[lost] {
		t.Errorf("%d flights are under way", len(under))
	}
	if f, leads := group.Join(3, bring(5)); f != nil || leads {
		t.Error("a flight began in a closed group")
	}
	for key, f := range map[float64]*flight.Flight[int, string]{1: joined, math.NaN(): lost} {
		group.Land(key, f, func() (string, bool) { return "", true })
	}
	group.Land(1, detached, func() (string, bool) { return "", true })
	if left := group.Close(); len(left) != 0 {
		t.Errorf("%d flights are left", len(left))
	}
}
