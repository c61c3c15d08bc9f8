package fault

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// The modes of messages. One within a round trip, or within the reply, can only be the last that arrives: whatever else
// goes wrong there is the same as at the end of the trip.
var (
	tripModes   = []Mode{CutBefore, CutAfter, CancelBefore, CancelAfter, CrashBefore, CrashAfter, Silence, Trickle}
	withinModes = []Mode{CutBefore}
)

const terminate = 'X'

// Script makes a proxy break what passes through it. Each message is a point, in either direction.
func (in *Injector) Script(p *wire.Proxy) {
	in.OnStop(p.Refuse)
	crash := func() {
		in.Crash()
		p.Refuse()
	}
	p.Script(func(m wire.Message) wire.Step {
		name, modes := text("message "+string(m.Type), m.SQL), withinModes
		switch {
		case m.Server:
			name = fmt.Sprintf("reply %c", m.Type)
		case m.Type == terminate:
			return wire.Pass()
		case m.Ends():
			modes = tripModes
		}
		f, dead := in.arrive(name, modes)
		if dead {
			return wire.CutHere(nil)
		}
		switch f.Mode {
		case CutBefore:
			return wire.CutHere(nil)
		case CutAfter:
			return wire.CutReply(nil)
		case CancelBefore:
			return wire.Before(in.end)
		case CancelAfter:
			return wire.AfterReply(in.end)
		case CrashBefore:
			return wire.CutHere(crash)
		case CrashAfter:
			return wire.CutReply(crash)
		case Silence:
			return wire.SwallowHere(in.end)
		case Trickle:
			return wire.TrickleHere(nil)
		}
		return wire.Pass()
	})
}
