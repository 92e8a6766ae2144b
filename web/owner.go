package web

import (
	"errors"
	"net/http"
	"slices"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
)

// who asks. Where nobody has to say who they are, it is the one user of the server.
func who(r *http.Request) access.Principal { return access.From(r.Context()) }

// mayStart says what keeps somebody from starting what is asked for: nil where nothing does. It is asked before it is looked whether
// there is such a thing, so that nobody learns that of what is not for them.
func mayStart(p access.Principal, a *ask) *problem {
	switch {
	case a.Agent != "" && !p.Asks(a.Agent):
		return newProblem(codeForbidden, "your key or token may not use the agent "+quote(a.Agent))
	case a.Workflow != "" && !p.Runs(a.Workflow):
		return newProblem(codeForbidden, "your key or token may not run the workflow "+quote(a.Workflow))
	case a.Inline != nil && !p.Runs(""):
		return newProblem(codeForbidden, "your key or token may not run workflows inside requests")
	case a.Completion != nil && !p.Runs(""):
		return newProblem(codeForbidden, "your key or token may not use models directly; use an agent or workflow of GET /v1/models")
	case a.Session != "" && !p.Remembers():
		return newProblem(codeForbidden, noMemory)
	}
	return nil
}

// noMemory is told to those who may not use sessions.
const noMemory = "your key or token may not use sessions"

// remembers lets only those through who may use sessions.
func remembers(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !who(r).Remembers() {
			newProblem(codeForbidden, noMemory).at(w, r)
			return
		}
		h(w, r)
	}
}

// nameOf is the id by which a principal reaches a session, of which the tape says the lane.
func nameOf(p access.Principal, lane string) string {
	if name, ok := webchannel.SessionName(p.Owner(), lane); ok {
		return name
	}
	return lane // of a channel
}

// channelOf returns the channel whose session an id means when p uses it; "" for a session of p's own. Where keys are needed, only operators
// and admins have ids for the sessions of channels: the ids of others lead to their own sessions alone. Without keys every id would lead to
// such a session, so the ids of channels are taken out.
func (s *Server) channelOf(p access.Principal, id string) string {
	if name := channel.ChannelOf(id); slices.Contains(s.o.ChannelNames, name) && (p.Owner() == "" || p.Operates() && name != Channel) {
		return name
	}
	return ""
}

// laneOf returns the lane of the session that p means by an id. ok is false for a session of a channel that p may not reach.
func (s *Server) laneOf(p access.Principal, id string) (lane string, ok bool) {
	if s.channelOf(p, id) != "" {
		return id, p.Operates()
	}
	return webchannel.SessionKey(p.Owner(), id), true
}

// admit counts a run for its caller, who may have no more of them at once, and no new one after having used too many tokens. What
// was taken before is not refused any more. The lock of runs is held, so that runs that begin together are counted one after the other.
func (rs *runs) admit(sp *spec) (release func(), p *problem) {
	limits := rs.o.Access.Limits
	if limits == nil || sp.caller == "" {
		return nil, nil
	}
	release, d := limits.Run(sp.caller)
	if refusal, ok := errors.AsType[*access.Refusal](d.Err()); ok && !sp.follows {
		return nil, problemOf(refusal)
	}
	return release, nil
}

// release stops counting a run that has ended, and charges its caller for the tokens that it has used.
func (rs *runs) release(r *run) {
	if rs.o.Access.Limits == nil || r.caller == "" {
		return
	}
	if r.release != nil {
		r.release()
	}
	tokens := 0
	for _, u := range r.outcome.Usage {
		tokens += u.TotalTokens
	}
	rs.o.Access.Limits.Charge(r.caller, tokens)
}
