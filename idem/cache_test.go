package idem

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func answer(text string) row {
	return row{entry: entry{state: stateCompleted, codec: codecBytes, body: []byte(text)}}
}

func TestCacheKeepsForATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newCache(1<<20, time.Minute)
		early := m.ask()
		time.Sleep(30 * time.Second) // the request is under way
		m.add(digestOf(1), answer("one"), early)
		time.Sleep(30*time.Second - time.Nanosecond)
		if r, ok := m.get(digestOf(1)); !ok || string(r.body) != "one" {
			t.Fatalf("got %q, %v", r.body, ok)
		}
		time.Sleep(time.Nanosecond)
		if _, ok := m.get(digestOf(1)); ok || m.size != 0 || len(m.rows) != 0 || m.order.Len() != 0 {
			t.Errorf("an answer outlived its time, counted from the request: %d bytes", m.size)
		}
		m.add(digestOf(1), answer("late"), early)
		if _, ok := m.get(digestOf(1)); ok {
			t.Error("what took longer than its time was kept")
		}
		if _, ok := m.get(digestOf(2)); ok {
			t.Error("an answer came from nowhere")
		}
	})
}

// An answer that was asked for before a deletion may have been read before it.
func TestCacheIsFenced(t *testing.T) {
	t.Parallel()
	m := newCache(1<<20, time.Minute)
	for name, forget := range map[string]func(){"drop": func() { m.drop(digestOf(1)) }, "clear": m.clear} {
		before := m.ask()
		m.add(digestOf(1), answer("old"), before)
		forget()
		if _, ok := m.get(digestOf(1)); ok || m.size != 0 {
			t.Errorf("%s: the answer is still there, or its %d bytes", name, m.size)
		}
		if m.add(digestOf(1), answer("old"), before); len(m.rows) != 0 {
			t.Errorf("%s: what was asked for before came back", name)
		}
		m.add(digestOf(1), answer("new"), m.ask())
		if r, ok := m.get(digestOf(1)); !ok || string(r.body) != "new" {
			t.Errorf("%s: got %q, %v", name, r.body, ok)
		}
	}
}

func TestCacheCopies(t *testing.T) {
	t.Parallel()
	m, mine := newCache(1<<20, time.Minute), answer("mine")
	m.add(digestOf(1), mine, m.ask())
	clear(mine.body)
	for range 2 {
		r, _ := m.get(digestOf(1))
		if string(r.body) != "mine" {
			t.Fatalf("got %q", r.body)
		}
		clear(r.body)
	}
	m.add(digestOf(2), row{}, m.ask())
	if r, ok := m.get(digestOf(2)); !ok || r.body != nil {
		t.Errorf("got %v, %v", r.body, ok)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	const limit, n = 10_000, 100
	m, one := newCache(limit, time.Minute), answer("1")
	kept := limit / (&cached{row: one}).size()
	for i := range n {
		m.add(digestOf(uint64(i)), one, m.ask())
		m.add(digestOf(uint64(i)), one, m.ask()) // in the place of the first
		if m.size > limit || len(m.rows) != min(i+1, kept) || m.order.Len() != len(m.rows) {
			t.Fatalf("%d rows of %d bytes after %d", len(m.rows), m.size, i+1)
		}
	}
	if _, ok := m.get(digestOf(n - 1)); !ok {
		t.Error("the last answer is gone")
	}
	if _, ok := m.get(digestOf(uint64(n - kept - 1))); ok {
		t.Error("the oldest stayed")
	}
	m.add(digestOf(n), row{entry: entry{body: bytes.Repeat([]byte{1}, limit)}}, m.ask())
	if _, ok := m.get(digestOf(n)); ok || len(m.rows) != kept {
		t.Errorf("an answer above the limit was kept, or drove %d others out", kept-len(m.rows))
	}
}

func TestCacheIsSafe(t *testing.T) {
	t.Parallel()
	m := newCache(20_000, time.Minute)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 1000 {
				d := digestOf(uint64(j % 50))
				m.add(d, answer(fmt.Sprint(j%50)), m.ask())
				if r, ok := m.get(d); ok && string(r.body) != fmt.Sprint(j%50) {
					t.Errorf("got %q", r.body)
				}
				if i == 0 && j%10 == 0 {
					m.drop(d)
				}
				if i == 1 && j%100 == 0 {
					m.clear()
				}
			}
		})
	}
	wg.Wait()
	size := 0
	for _, e := range m.rows {
		size += e.Value.(*cached).size()
	}
	if size != m.size || m.order.Len() != len(m.rows) {
		t.Errorf("%d bytes in %d rows, counted as %d in %d", size, len(m.rows), m.size, m.order.Len())
	}
}

func TestNoCache(t *testing.T) {
	t.Parallel()
	var m *cache
	m.add(digestOf(1), answer("1"), m.ask())
	m.drop(digestOf(1))
	m.clear()
	if _, ok := m.get(digestOf(1)); ok {
		t.Error("without a cache nothing is kept")
	}
}
