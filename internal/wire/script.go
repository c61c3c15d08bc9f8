package wire

// A Step is what a script does at a message.
type Step struct {
	act  action
	then func()
	some bool
}

// Pass delivers the message.
func Pass() Step { return Step{} }

// The other steps are what the methods of [Proxy] of the same names do. then, if it is not nil, is called once the step is
// done: for the reply to a message that is after the server sent it, and before the client gets it.

// CutHere is [Proxy.CutBefore].
func CutHere(then func()) Step { return Step{cutBefore, then, true} }

// CutReply is [Proxy.CutReplyTo].
func CutReply(then func()) Step { return Step{cutReply, then, true} }

// SwallowHere is [Proxy.Swallow].
func SwallowHere(then func()) Step { return Step{swallow, then, true} }

// TrickleHere is [Proxy.Trickle].
func TrickleHere(then func()) Step { return Step{trickle, then, true} }

// Before calls then and delivers the message.
func Before(then func()) Step { return Step{watch, then, true} }

// AfterReply calls then once the server has replied to the message.
func AfterReply(then func()) Step { return Step{watchReply, then, true} }

// Script asks choose what to do at each message, also of several connections at once, besides the hooks. It replaces the
// script before it.
func (p *Proxy) Script(choose func(Message) Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script = choose
}

// Refuse breaks all connections, and closes new ones at once, as a server that is down does.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = true
	for s := range p.sessions {
		s.close()
	}
}
