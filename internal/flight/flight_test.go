package flight_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/flight"
)

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
				f, leader := group.Join("key", i)
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
		if other, leader := group.Join("another", -1); !leader || other.Lead != -1 {
			t.Error("another key has a flight of its own")
		}
		close(enter)
		wg.Wait()
		if leads != 1 {
			t.Errorf("%d calls led, want 1", leads)
		}
		if _, leader := group.Join("key", 7); !leader {
			t.Error("a flight that has landed takes nobody")
		}
	})
}

func TestNothingToShare(t *testing.T) {
	t.Parallel()
	var group flight.Group[int, struct{}, string]
	f, _ := group.Join(1, struct{}{})
	follower, leads := group.Join(1, struct{}{})
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
	f, _ := group.Join(1, struct{}{})
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
		first, _ := group.Join(1, struct{}{})
		waiting, _ := group.Join(1, struct{}{})
		forget()
		second, leads := group.Join(1, struct{}{})
		if !leads || second == first {
			t.Fatal("a call joined a flight that was forgotten")
		}
		group.Land(1, first, func() (string, bool) { return "first", true })
		if got, ok := waiting.Result(); got != "first" || !ok {
			t.Fatalf("who waited got %q, %v", got, ok)
		}
		if f, leads := group.Join(1, struct{}{}); leads || f != second {
			t.Fatal("the first flight took the second down with it")
		}
		group.Land(1, second, func() (string, bool) { return "", false })
	}
}
