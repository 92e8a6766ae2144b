package web

import (
	"net/http"

	"github.com/lingserve/lingserve/access"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// remembers lets only those through who may use sessions.
func remembers(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		if !wire.Who(r).Remembers() {
			return wire.NewProblem(wire.CodeForbidden, run.NoMemory)
		}
		return h(w, r)
	}
}

// nameOf is the id by which an owner reaches a session, of which the tape says the lane.
func nameOf(owner, lane string) string {
	if name, ok := webchannel.SessionName(owner, lane); ok {
		return name
	}
	return lane // of a channel
}

// laneOf returns the lane of the session that p means by an id. ok is false for a session of a channel that p may not reach.
func (s *Server) laneOf(p access.Principal, id string) (lane string, ok bool) {
	if s.runs.ChannelOf(p, id) != "" {
		return id, p.Operates()
	}
	return webchannel.SessionKey(p.Owner(), id), true
}
