package tx_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// What can happen to a COMMIT.
const (
	cutReply   = iota // the server commits, and the connection breaks before its reply arrives
	cutRequest        // the connection breaks before the server sees it
	holdReply         // the server commits, and its reply never arrives
)

// throughProxy returns a URL that leads to a database of the test's own through a proxy, and a direct one.
func throughProxy(t testing.TB) (p *wire.Proxy, proxied, direct string) {
	t.Helper()
	direct = postgres(t)
	p, err := wire.Start(direct, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, p.URL(), direct
}

// arm makes damage happen to the next COMMIT.
func arm(p *wire.Proxy, damage int) {
	commit := wire.Runs("commit")
	switch damage {
	case cutReply:
		p.CutReplyTo(commit)
	case cutRequest:
		p.CutBefore(commit)
	case holdReply:
		p.HoldReplyTo(commit)
	}
}
