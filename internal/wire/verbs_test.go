package wire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/wire"
)

func TestSwallow(t *testing.T) {
	for name, commit := range commits {
		t.Run(name, func(t *testing.T) {
			p, direct := start(t, 0)
			conn := connect(t, p.URL())
			insert(t, conn)
			swallowed := p.Swallow(wire.Runs("commit"))
			answered := make(chan error, 1)
			go func() { answered <- commit(t, conn) }()
			<-swallowed.Hit()
			if n := rows(t, direct); n != 0 {
				t.Errorf("%d rows were committed", n)
			}
			select {
			case err := <-answered:
				t.Errorf("the connection did not stay open: %v", err)
			default:
			}
			p.Break()
			if err := <-answered; err == nil {
				t.Error("the commit was answered")
			}
		})
	}
}

func TestDelayIsForOneMessageOrReply(t *testing.T) {
	const delay = 50 * time.Millisecond
	for name, arm := range map[string]func(*wire.Proxy) *wire.Hook{
		"message": func(p *wire.Proxy) *wire.Hook { return p.Delay(wire.Runs("commit"), delay) },
		"reply":   func(p *wire.Proxy) *wire.Hook { return p.DelayReplyTo(wire.Runs("commit"), delay) },
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := start(t, 0)
			conn := connect(t, p.URL())
			insert(t, conn)
			late := arm(p)
			begun := time.Now()
			if _, err := conn.Exec(t.Context(), "commit"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took < delay || late.Hits() != 1 {
				t.Errorf("the commit took %v with %d hits, want %v at least", took, late.Hits(), delay)
			}
			if n := rows(t, conn); n != 1 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// What trickles arrives whole, in order, and takes its time.
func TestTrickle(t *testing.T) {
	for name, commit := range commits {
		p, _ := start(t, 0)
		conn := connect(t, p.URL())
		insert(t, conn)
		message, reply := p.Trickle(wire.Runs("commit")), p.TrickleReplyTo(wire.Runs("commit"))
		if err := commit(t, conn); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		<-message.Hit()
		<-reply.Hit()
		if n := rows(t, conn); n != 1 {
			t.Errorf("%s: %d rows", name, n)
		}
	}
}

// A script counts what passes in both directions and cuts within a reply.
func TestScript(t *testing.T) {
	p, direct := start(t, 0)
	conn := connect(t, p.URL())
	insert(t, conn)
	var sent, received int
	p.Script(func(m wire.Message) wire.Step {
		if !m.Server {
			sent++
			return wire.Pass()
		}
		if received++; received == 3 { // ParseComplete, ParameterDescription, RowDescription
			return wire.CutHere(nil)
		}
		return wire.Pass()
	})
	if _, err := conn.Exec(t.Context(), "insert into done values ($1)", 1); err == nil {
		t.Fatal("the reply came through")
	}
	if sent != 3 || received != 3 { // Parse, Describe, Sync
		t.Errorf("%d messages were sent and %d received, want 3 and 3", sent, received)
	}
	if n := rows(t, direct); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestScriptWaitsForTheReply(t *testing.T) {
	p, direct := start(t, 0)
	conn := connect(t, p.URL())
	insert(t, conn)
	there := 0
	p.Script(func(m wire.Message) wire.Step {
		if !wire.Runs("commit")(m) {
			return wire.Pass()
		}
		return wire.AfterReply(func() { there = rows(t, direct) })
	})
	if _, err := conn.Exec(t.Context(), "commit"); err != nil || there != 1 {
		t.Errorf("%d rows after the reply, error %v", there, err)
	}
}

func TestRefuse(t *testing.T) {
	p, _ := start(t, 0)
	conn := connect(t, p.URL())
	p.Refuse()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a connection survived")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := pgx.Connect(ctx, p.URL()); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
