package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tube"
)

// Bounds of what a client gets of a conversation that it comes back to.
const (
	maxEntries      = 2000    // of the tape, the newest
	maxEntriesBytes = 2 << 20 // of their texts
)

// Newest returns the newest entries of a session, oldest first, as many as a client gets; none if there is no such session.
func (s *Server) Newest(ctx context.Context, session string, kinds ...tape.Kind) (list []tape.Entry, p *Problem) {
	if s.Tapes == nil {
		return nil, nil
	}
	by := access.From(ctx)
	if s.Runs.ChannelOf(by, session) != "" {
		return nil, nil
	}
	t, err := tape.Lookup(ctx, s.Tapes, s.Workspace, webchannel.SessionKey(by.Owner(), session))
	if errors.Is(err, tape.ErrNotFound) || errors.Is(err, tape.ErrDeleted) {
		return nil, nil
	}
	if err != nil {
		return nil, s.TapeProblem(ctx, err)
	}
	size := 0
	for e, err := range t.Read(ctx, tape.Query{Kinds: kinds, Newest: true, Limit: maxEntries}) {
		if err != nil {
			return nil, s.TapeProblem(ctx, err)
		}
		if size += len(e.Payload); size > maxEntriesBytes {
			break
		}
		list = append(list, e)
	}
	slices.Reverse(list)
	return list, nil
}

// TapeProblem is the answer to an error of the store of tapes, or of package run.
func (s *Server) TapeProblem(ctx context.Context, err error) *Problem {
	_, ours := errors.AsType[*run.Error](err)
	if _, other := errors.AsType[*run.Elsewhere](err); !ours && !other {
		err = s.Runs.SessionError(ctx, err)
	}
	return s.Problem(ctx, err)
}

// InSession reports whether a run belongs to a session of the caller, for callers who have sessions.
func InSession(r *http.Request, of *run.Run, session string) bool {
	return !Who(r).Remembers() || of.Lane() == webchannel.SessionKey(Who(r).Owner(), session)
}

// Answered reports whether the question of event n is answered, or the run has ended.
func Answered(of *run.Run, n uint64, id string) bool {
	if of.Ended() {
		return true
	}
	for e := range of.ReadNow(n + 1).Waiting() {
		var a struct{ ID string }
		if e.Kind == tube.Named && e.Name == string(agent.ApprovalResolvedEvent) && json.Unmarshal(e.Value, &a) == nil && a.ID == id {
			return true
		}
	}
	return false
}

// DenyQuestions denies the open questions of a session whose user sends another message instead, as a page does that was reloaded and
// does not know of them. Without an answer, the message would wait until the questions expire.
func (s *Server) DenyQuestions(r *http.Request, session string) *Problem {
	of, p := s.Latest(r, session)
	if of == nil || of.Ended() {
		return p
	}
	for e := range of.Events().Waiting() {
		var q struct{ ID string }
		if e.Kind == tube.Named && e.Name == string(agent.ApprovalRequiredEvent) && json.Unmarshal(e.Value, &q) == nil && !Answered(of, e.N, q.ID) {
			// If that fails, the question has another answer.
			_ = s.Runs.Answer(r.Context(), of, agent.Answer{ID: q.ID, Reason: "the user sent another message instead"})
		}
	}
	return nil
}

// Latest finds the run that was started last in a session of the caller; nil where none is known.
func (s *Server) Latest(r *http.Request, session string) (*run.Run, *Problem) {
	of, err := s.Runs.Latest(r.Context(), Who(r), session)
	if err != nil {
		return nil, s.Problem(r.Context(), err)
	}
	return of, nil
}
