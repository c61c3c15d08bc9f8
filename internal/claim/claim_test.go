package claim_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/claim"
)

const every = 10 * time.Second

// A log is the batches that were sent, and when.
type log struct {
	mu      sync.Mutex
	begun   time.Time
	batches [][]int
	at      []time.Duration
}

func (l *log) add(batch []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches, l.at = append(l.batches, slices.Sorted(slices.Values(batch))), append(l.at, time.Since(l.begun))
}

// after lets d pass, and returns what was sent.
func (l *log) after(d time.Duration) ([][]int, []time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.batches), slices.Clone(l.at)
}

func each(batch []int, again time.Duration) []time.Duration {
	return slices.Repeat([]time.Duration{again}, len(batch))
}

// Claims that came one after the other are renewed together, from the first time on.
func TestTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{begun: time.Now()}
		r := claim.New(every, 100, func(batch []int) []time.Duration {
			l.add(batch)
			return each(batch, every)
		})
		for i := range 4 {
			r.Add(i, every)
			time.Sleep(time.Second)
		}
		batches, at := l.after(40 * time.Second)
		for i, batch := range batches {
			if len(batch) != 4 || at[i] != time.Duration(i+1)*every {
				t.Errorf("batch %d had %v after %v", i, batch, at[i])
			}
		}
		if len(batches) != 4 {
			t.Errorf("%d batches in 44 s", len(batches))
		}
		for i := range 4 {
			r.Remove(i)
		}
	})
}

// A request renews at most as many as it may.
func TestMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{begun: time.Now()}
		r := claim.New(every, 1000, func(batch []int) []time.Duration {
			l.add(batch)
			return each(batch, time.Hour)
		})
		for i := range 2500 {
			r.Add(i, every)
		}
		batches, _ := l.after(every)
		var sizes []int
		for _, batch := range batches {
			sizes = append(sizes, len(batch))
		}
		slices.Sort(sizes)
		if !slices.Equal(sizes, []int{500, 1000, 1000}) {
			t.Errorf("2500 claims went in batches of %v", sizes)
		}
		for i := range 2500 {
			r.Remove(i)
		}
	})
}

// A request that hangs delays no other claim, and its own are not sent again meanwhile.
func TestHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{begun: time.Now()}
		r := claim.New(every, 100, func(batch []int) []time.Duration {
			l.add(batch)
			if batch[0] == 0 {
				time.Sleep(time.Minute)
			}
			return each(batch, every)
		})
		r.Add(0, every)
		r.Add(1, 2*every)
		batches, _ := l.after(59 * time.Second)
		sent := map[int]int{}
		for _, batch := range batches {
			for _, c := range batch {
				sent[c]++
			}
		}
		if sent[0] != 1 || sent[1] != 4 {
			t.Errorf("in 59 s, sent %v", sent)
		}
		r.Remove(0)
		r.Remove(1)
		time.Sleep(time.Hour) // for the request
	})
}

// What a request says decides when its claims come again.
func TestAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{begun: time.Now()}
		r := claim.New(every, 100, func(batch []int) []time.Duration {
			l.add(batch)
			if len(l.batches) == 1 {
				return each(batch, time.Second) // it failed
			}
			return each(batch, every)
		})
		r.Add(0, every)
		_, at := l.after(21 * time.Second)
		if !slices.Equal(at, []time.Duration{every, every + time.Second, 2*every + time.Second}) {
			t.Errorf("sent at %v", at)
		}
		r.Remove(0)
	})
}

// A claim that was removed is not renewed again, also if its request is under way.
func TestRemove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{begun: time.Now()}
		r := claim.New(every, 100, func(batch []int) []time.Duration {
			l.add(batch)
			time.Sleep(time.Second)
			return each(batch, every)
		})
		r.Add(0, every)
		r.Add(1, every)
		time.Sleep(every + time.Second/2)
		r.Remove(0)
		batches, _ := l.after(time.Minute)
		for _, batch := range batches[1:] {
			if !slices.Equal(batch, []int{1}) {
				t.Errorf("sent %v after a removal", batch)
			}
		}
		r.Remove(1)
	})
}

// Nothing is left running after the last claim, and one that comes later is renewed. synctest fails a test that leaves
// goroutines.
func TestLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{begun: time.Now()}
		r := claim.New(every, 100, func(batch []int) []time.Duration {
			l.add(batch)
			return each(batch, every)
		})
		for range 3 {
			r.Add(0, every)
			time.Sleep(every + time.Second/2)
			r.Remove(0)
			time.Sleep(time.Hour)
		}
		if batches, _ := l.after(time.Hour); len(batches) != 3 {
			t.Errorf("sent %d times", len(batches))
		}
	})
}

// Processes that started together drift apart.
func TestInterval(t *testing.T) {
	t.Parallel()
	r := claim.New(every, 1, func([]int) []time.Duration { return nil })
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := r.Interval()
		if d < every*9/10 || d > every*11/10 {
			t.Fatalf("%v is more than a tenth away from %v", d, every)
		}
		seen[d] = true
	}
	if len(seen) < 900 {
		t.Errorf("1000 intervals were %d different ones", len(seen))
	}
}
