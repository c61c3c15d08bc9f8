package wire

import "time"

// Watch counts the messages that match.
func (p *Proxy) Watch(match Match) *Hook { return p.hook(match, watch).Always() }

// CutBefore breaks the connection of the message that matches. The server sees what came before it, never the message.
func (p *Proxy) CutBefore(match Match) *Hook { return p.hook(match, cutBefore) }

// CutReplyTo lets the server do what the message asks for and breaks the connection before the reply reaches the client,
// together with the replies to all that was sent in the same round trip.
func (p *Proxy) CutReplyTo(match Match) *Hook { return p.hook(match, cutReply) }

// HoldReplyTo holds that reply back until [Hook.Release].
func (p *Proxy) HoldReplyTo(match Match) *Hook { return p.hook(match, holdReply) }

// Swallow drops the message, and all that comes after it in its direction, as a network that takes packets and delivers
// none. The connection stays open.
func (p *Proxy) Swallow(match Match) *Hook { return p.hook(match, swallow) }

// Delay delivers the message, and what comes after it, later.
func (p *Proxy) Delay(match Match, d time.Duration) *Hook { return p.delayed(match, late, d) }

// DelayReplyTo delivers the reply to the message later.
func (p *Proxy) DelayReplyTo(match Match, d time.Duration) *Hook {
	return p.delayed(match, lateReply, d)
}

// Trickle delivers the message, and what is sent along with it, byte by byte.
func (p *Proxy) Trickle(match Match) *Hook { return p.hook(match, trickle) }

// TrickleReplyTo delivers the reply to the message byte by byte.
func (p *Proxy) TrickleReplyTo(match Match) *Hook { return p.hook(match, trickleReply) }

// LoseCancels drops the requests to cancel a query from now on, as a network does that goes down with the connection. pgx
// sends one for what ran on a connection that broke.
func (p *Proxy) LoseCancels() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = true
}

func (p *Proxy) losesCancels() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaf
}
