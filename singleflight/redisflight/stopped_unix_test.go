//go:build unix

package redisflight_test

import (
	"io"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// S13: a process that stood still for longer than the owner timeout comes back as a zombie. What it has loaded is not stored.
func TestS13AProcessThatStoodStillStoresNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	const timeout = 400 * time.Millisecond
	owner := func(o *redisflight.Options[string]) { o.OwnerTimeout, o.TTL = timeout, time.Hour }
	p := f.spawn(job{Key: "key", OwnerTimeout: timeout})
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c := f.cache(f.client, constant("value", &loads), owner)
	want(t, "value")(c.Get(t.Context(), "key"))
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(p.stdin, "end the load\n"); err != nil {
		t.Fatal(err)
	}
	line, err := p.out.ReadString('\n')
	if line != "value <nil>\n" { // its fill is refused, and it looks again
		t.Errorf("the zombie got %q, %v", line, err)
	}
	want(t, "value")(c.Get(t.Context(), "key"))
	if loads.Load() != 1 {
		t.Errorf("%d loads", loads.Load())
	}
}
