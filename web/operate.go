package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/control"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// Turns of chat platforms have no run that a client could follow. Operators see what waits in the session of such a turn, answer it, and
// end the turn.

// getApprovals lists the questions for approval that wait in a session.
func (s *Server) getApprovals(w http.ResponseWriter, r *http.Request, t *tape.Tape) {
	if p := new(decoder).query(r, nil); p != nil {
		p.write(w)
		return
	}
	answer, p := s.askSession(r.Context(), t.Session(), control.Request{Command: commandQuestions, Body: mustJSON(onBehalf{Who: who(r)})})
	if p != nil {
		p.write(w)
		return
	}
	list := struct {
		Approvals []agent.Question `json:"approvals"`
	}{answer.Questions}
	if list.Approvals == nil {
		list.Approvals = []agent.Question{}
	}
	s.sendJSON(w, r, http.StatusOK, list)
}

// postSessionApproval answers a question for approval that waits in a session.
func (s *Server) postSessionApproval(w http.ResponseWriter, r *http.Request, t *tape.Tape) {
	answer, p := s.readAnswer(w, r)
	if p == nil {
		_, p = s.askSession(r.Context(), t.Session(), control.Request{Command: commandAnswer, Body: mustJSON(decision{
			ID: answer.ID, Approve: answer.Approve, Reason: answer.Reason, Remember: answer.Remember, Who: who(r),
		})})
	}
	if p != nil {
		p.write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// postSessionCancel ends the turn of a session, and those that wait.
func (s *Server) postSessionCancel(w http.ResponseWriter, r *http.Request, t *tape.Tape) {
	_, p := s.readBody(w, r)
	if p == nil {
		p = new(decoder).query(r, nil)
	}
	var answer report
	if p == nil {
		answer, p = s.askSession(r.Context(), t.Session(), control.Request{Command: commandStop, Body: mustJSON(onBehalf{Who: who(r), Cancels: true})})
	}
	if p == nil && answer.Stopped == 0 {
		p = newProblem(codeConflict, "the session has no active run")
	}
	if p != nil {
		p.write(w)
		return
	}
	s.sendJSON(w, r, http.StatusAccepted, map[string]int{"canceled": answer.Stopped})
}

// askSession has a command done by the replica that has the turns of a session.
func (s *Server) askSession(ctx context.Context, lane string, r control.Request) (report, *problem) {
	r.Session = lane
	if replica := s.holder(ctx, lane); replica != "" {
		ctx, cancel := context.WithTimeout(ctx, commandWait)
		defer cancel()
		t, ok, err := s.ask(ctx, replica, r)
		switch {
		case err != nil:
			s.log.WarnContext(ctx, "a session's replica does not answer", "replica", replica, "error", err)
			return t, awayProblem()
		case ok:
			return t, t.problem()
		}
	}
	body, err := s.serve(ctx, r)
	var t report
	if err == nil {
		err = json.Unmarshal(body, &t)
	}
	if err != nil {
		s.log.ErrorContext(ctx, "command to a session failed", "session", lane, "command", r.Command, "error", err)
		return t, newProblem(codeInternal, "the server failed to execute the command; find the cause in its log")
	}
	return t, t.problem()
}

// reaches reports whether somebody may do something to the turns of a session: to their own, and as an operator to those of channels.
func (s *Server) reaches(p access.Principal, lane string) bool {
	if slices.Contains(s.o.ChannelNames, channel.ChannelOf(lane)) && channel.ChannelOf(lane) != Channel {
		return p.Operates()
	}
	_, own := webchannel.SessionName(p.Owner(), lane)
	return own && p.Remembers()
}

// serveQuestions lists what waits in a session of this replica.
func (s *Server) serveQuestions(who access.Principal, lane string) report {
	if !s.reaches(who, lane) {
		return reportOf(newProblem(codeForbidden, "the session is another's"))
	}
	if s.o.Agents == nil {
		return report{}
	}
	return report{Questions: s.o.Agents.Questions(lane)}
}

// serveAnswer answers a question that waits in a session of this replica.
func (s *Server) serveAnswer(ctx context.Context, lane string, d decision) report {
	if !s.reaches(d.Who, lane) {
		return reportOf(newProblem(codeForbidden, "the session is another's"))
	}
	err := agent.ErrNoQuestion
	if s.o.Agents != nil {
		err = s.o.Agents.Answer(ctx, agent.Answer{
			Session: lane, ID: d.ID, Approve: d.Approve, Reason: d.Reason, Remember: d.Remember, By: deciderName(d.Who), Role: d.Who.Role,
		})
	}
	switch {
	case err == nil:
		return report{}
	case errors.Is(err, agent.ErrNoQuestion):
		return reportOf(newProblem(codeNotFound, "no question "+quote(d.ID)+" waits for approval in this session"))
	}
	return reportOf(refusedAnswer(err, d.ID))
}

// serveStop ends the turns of a session of this replica.
func (s *Server) serveStop(by onBehalf, lane string) report {
	run := s.runs.inLane(lane)
	switch {
	case by.Cancels && !s.reaches(by.Who, lane),
		!by.Cancels && (!by.Who.Remembers() || by.Who.Role < tool.Operator && (run == nil || !run.owned(by.Who))):
		return reportOf(newProblem(codeForbidden, "the session is another's"))
	case s.o.Turns == nil:
		return report{}
	}
	cause := errErased
	if by.Cancels {
		cause = turn.ErrStopped
	}
	return report{Stopped: s.o.Turns.Stop(lane, cause)}
}
