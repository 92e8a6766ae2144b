package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// session is a session as clients see it. It does not have the folder that it works in, which is the server's own.
type session struct {
	ID      string        `json:"id"`
	Tape    string        `json:"tape"`
	Title   string        `json:"title"`
	Agent   string        `json:"agent,omitempty"`
	Created time.Time     `json:"created"`
	Updated time.Time     `json:"updated"`
	Counts  sessionCounts `json:"counts"`
	LastID  int64         `json:"last_id"`
	Bytes   int64         `json:"bytes"`
	// Of one session, not in a list.
	Anchors  []anchor       `json:"anchors,omitempty"`
	Usage    *adapter.Usage `json:"usage,omitempty"`
	Approved []string       `json:"approved,omitempty"` // tools of its agent, for the session
}

type sessionCounts struct {
	Entries int64 `json:"entries"`
	Anchors int64 `json:"anchors"`
}

// anchor is an anchor of a session.
type anchor struct {
	ID    int64           `json:"id"`
	Name  string          `json:"name"`
	State json.RawMessage `json:"state"`
	Date  time.Time       `json:"date"`
}

func sessionOf(p access.Principal, i tape.Info) session {
	return session{
		ID: nameOf(p.Owner(), i.Session), Tape: i.Tape, Title: i.Title, Agent: i.Agent, Created: i.Created, Updated: i.Updated, LastID: i.LastID, Bytes: i.Bytes,
		Counts: sessionCounts{Entries: i.Entries, Anchors: i.Anchors},
	}
}

// Sizes of pages. Clients may ask for less, and for more up to the most.
const (
	sessionsPage            = 50
	entriesPage, maxEntries = 100, 1000
	// maxPage bounds the bytes of a page of entries, and of the anchors of a session: an entry may have megabytes.
	maxPage    = 1 << 20
	maxAnchors = 100 // of one session; the others are on its tape
)

// noSessions is the answer of a server that keeps no tapes.
const noSessions = "this server has no sessions"

// withTapes lets requests through if the server has sessions.
func (s *Server) withTapes(h handler) handler {
	return remembers(func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		if s.o.Tapes == nil {
			return wire.NewProblem(wire.CodeNotFound, noSessions)
		}
		return h(w, r)
	})
}

// withoutQuery refuses requests with a query.
func withoutQuery(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		if p := wire.NoQuery(r); p != nil {
			return p
		}
		return h(w, r)
	}
}

// withSession finds the session that the path names, among those that the caller may reach.
func (s *Server) withSession(h func(w http.ResponseWriter, r *http.Request, t *tape.Tape) *wire.Problem) handler {
	return s.withTapes(func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		lane, ok := s.laneOf(wire.Who(r), wire.PathValue(r, "id"))
		if !ok {
			return wire.NewProblem(wire.CodeNotFound, "unknown session")
		}
		t, err := tape.Lookup(r.Context(), s.o.Tapes, s.o.Workspace, lane)
		if r.Method == http.MethodDelete && errors.Is(err, tape.ErrNotFound) && s.o.Kernel != nil && s.o.Kernel.Keeps(r.Context(), lane) {
			return s.eraseWindow(w, r, lane)
		}
		if err != nil {
			return s.wire.TapeProblem(r.Context(), err)
		}
		return h(w, r, t)
	})
}

// eraseWindow erases what waits in the window of a conversation that has no session.
func (s *Server) eraseWindow(w http.ResponseWriter, r *http.Request, lane string) *wire.Problem {
	if err := s.runs.Exclusive(r.Context(), lane, turn.Interrupt, func(ctx context.Context) error { return s.o.Kernel.Erase(ctx, lane) }); err != nil {
		return s.wire.TapeProblem(r.Context(), err)
	}
	s.log.LogAttrs(r.Context(), slog.LevelInfo, "waiting messages of a conversation erased", s.callerAttrs(r)...)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// sessionPath is the place of a session.
func sessionPath(id string) string { return "/v1/sessions/" + url.PathEscape(id) }

// getSessions lists the sessions, the one that was used last first.
func (s *Server) getSessions(w http.ResponseWriter, r *http.Request) *wire.Problem {
	query := struct {
		Limit int64  `field:"limit" max:"200"`
		After string `field:"after"`
	}{Limit: sessionsPage}
	if p := wire.Query(r, &query); p != nil {
		return p
	}
	q := tape.SessionQuery{Workspace: s.o.Workspace, Prefix: webchannel.SessionPrefix(wire.Who(r).Owner()), After: query.After}
	list := struct {
		Sessions []session `json:"sessions"`
		Next     string    `json:"next,omitempty"`
	}{Sessions: []session{}}
	var last tape.Info
	for in, err := range s.o.Tapes.Sessions(r.Context(), q) {
		if errors.Is(err, tape.ErrInvalid) {
			return wire.Invalid(run.Field{Parameter: "after", Detail: "expected the value next of an earlier list"})
		}
		if err != nil {
			return s.wire.TapeProblem(r.Context(), err)
		}
		if len(list.Sessions) == int(query.Limit) {
			list.Next = last.Cursor()
			break
		}
		last = in
		if s.runs.ChannelOf(wire.Who(r), in.Session) == "" {
			list.Sessions = append(list.Sessions, sessionOf(wire.Who(r), in))
		}
	}
	s.wire.SendJSON(w, r, http.StatusOK, list)
	return nil
}

// getSession describes a session, with its newest anchors.
func (s *Server) getSession(w http.ResponseWriter, r *http.Request, t *tape.Tape) *wire.Problem {
	answer, err := s.describe(r.Context(), t)
	if err != nil {
		return s.wire.TapeProblem(r.Context(), err)
	}
	s.wire.SendJSON(w, r, http.StatusOK, answer)
	return nil
}

// describe returns a session with its newest anchors, and what its turns took.
func (s *Server) describe(ctx context.Context, t *tape.Tape) (session, error) {
	in, err := t.Info(ctx)
	if err != nil {
		return session{}, err
	}
	answer := sessionOf(access.From(ctx), in)
	size := 0
	query := tape.Query{Kinds: []tape.Kind{tape.KindAnchor}, Newest: true, Limit: maxAnchors}
	for e, err := range t.Read(ctx, query) {
		if err != nil {
			return session{}, err
		}
		if size += len(e.Payload); size > maxPage && len(answer.Anchors) > 0 {
			break
		}
		answer.Anchors = append(answer.Anchors, anchorOf(e))
	}
	used, _, err := agent.Usage(ctx, t)
	if err != nil {
		return session{}, err
	}
	if used != (adapter.Usage{}) {
		answer.Usage = &used
	}
	if s.o.Agents != nil {
		answer.Approved, err = s.o.Agents.Remembered(ctx, in.Agent, t)
	}
	return answer, err
}

func anchorOf(e tape.Entry) anchor {
	p := tape.PayloadOf(e) // an anchor without a state has null
	return anchor{ID: e.ID, Name: p.Name, Date: e.Date, State: p.State}
}

// tapeOffers are what a tape can be read in.
var tapeOffers = []wire.Offer{wire.Offers[0], wire.Offers[2], wire.Offers[3]}

// getTape sends entries: a page of them as JSON, or all that are asked for as JSON Lines, which is also the tape's export.
func (s *Server) getTape(w http.ResponseWriter, r *http.Request, t *tape.Tape) *wire.Problem {
	var query struct {
		After  int64    `field:"after" min:"0"`
		Limit  int64    `field:"limit"`
		Kinds  []string `field:"kinds" words:"event message tool_call tool_result reasoning system anchor error"`
		Text   string   `field:"q" max:"1024"`
		Format string   `field:"format" words:"jsonl json"`
	}
	p := wire.Query(r, &query)
	if p != nil {
		return p
	}
	q := tape.Query{After: query.After, Limit: int(query.Limit), Text: query.Text}
	for _, kind := range query.Kinds {
		if !slices.Contains(q.Kinds, tape.Kind(kind)) {
			q.Kinds = append(q.Kinds, tape.Kind(kind))
		}
	}
	format, p := wire.Choose(r, frame.Format(query.Format), tapeOffers)
	if p != nil {
		return p
	}
	if format == frame.JSONL {
		return s.sendEntries(w, r, t, q)
	}
	if q.Limit > maxEntries {
		return wire.Invalid(run.Field{Parameter: "limit", Detail: fmt.Sprintf("expected a whole number from 1 to %d; use JSON Lines for more", maxEntries)})
	}
	limit := cmp.Or(q.Limit, entriesPage)
	q.Limit = limit + 1 // to know whether there are more
	page := struct {
		Entries []json.RawMessage `json:"entries"`
		Next    int64             `json:"next,omitempty"`
	}{Entries: []json.RawMessage{}}
	size, last := 0, int64(0)
	for e, err := range t.Read(r.Context(), q) {
		if err != nil {
			return s.wire.TapeProblem(r.Context(), err)
		}
		text := e.AppendJSON(nil)
		if size += len(text); len(page.Entries) == limit || len(page.Entries) > 0 && size > maxPage {
			page.Next = last
			break
		}
		page.Entries, last = append(page.Entries, text), e.ID
	}
	s.wire.SendJSON(w, r, http.StatusOK, page)
	return nil
}

// sendEntries streams entries, a line each. A stream that cannot go on to its end is broken off.
func (s *Server) sendEntries(w http.ResponseWriter, r *http.Request, t *tape.Tape, q tape.Query) *wire.Problem {
	const flush = 64 << 10
	out := s.wire.NewStream(w, r)
	began := false
	var lines []byte
	write := func() {
		if !began {
			wire.StreamHeaders(w.Header(), frame.JSONL)
		}
		if _, err := out.Write(lines); err != nil {
			panic(http.ErrAbortHandler)
		}
		began, lines = true, lines[:0]
	}
	for e, err := range t.Read(r.Context(), q) {
		if err != nil {
			p := s.wire.TapeProblem(r.Context(), err)
			if began {
				panic(http.ErrAbortHandler)
			}
			return p
		}
		if lines = append(e.AppendJSON(lines), '\n'); len(lines) >= flush {
			write()
		}
	}
	write()
	return nil
}

// postHandoff writes an anchor: what follows it is all that a model sees of the session, with the anchor's state.
func (s *Server) postHandoff(w http.ResponseWriter, r *http.Request, t *tape.Tape) *wire.Problem {
	body := struct {
		Name  string          `field:"name"`
		State json.RawMessage `field:"state"`
	}{State: json.RawMessage("null")}
	if p := s.wire.ReadMembers(w, r, true, &body); p != nil {
		return p
	}
	var e tape.Entry
	err := s.runs.Exclusive(r.Context(), t.Session(), turn.Reject, func(ctx context.Context) (err error) {
		e, err = t.Handoff(ctx, body.Name, body.State)
		return err
	})
	if errors.Is(err, tape.ErrInvalid) {
		return wire.Invalid(run.Field{Pointer: "/name", Detail: run.Unfit(err)})
	}
	if err != nil {
		return s.wire.TapeProblem(r.Context(), err)
	}
	s.wire.Send(w, r, http.StatusCreated, "application/json", append(e.AppendJSON(nil), '\n'))
	return nil
}

// postFork copies a session into a new one.
func (s *Server) postFork(w http.ResponseWriter, r *http.Request, t *tape.Tape) *wire.Problem {
	var body struct {
		Session string `field:"session"`
		At      int64  `field:"at"`
	}
	if p := s.wire.ReadMembers(w, r, false, &body); p != nil {
		return p
	}
	target := cmp.Or(body.Session, run.NewID())
	if why := s.runs.CheckSession(wire.Who(r), target); why != "" {
		return wire.Invalid(run.Field{Pointer: "/session", Detail: why})
	}
	fork, err := t.ForkSession(r.Context(), webchannel.SessionKey(wire.Who(r).Owner(), target), body.At)
	switch {
	case errors.Is(err, tape.ErrInvalid):
		return wire.Invalid(run.Field{Pointer: "/at", Detail: run.Unfit(err)})
	case errors.Is(err, tape.ErrNotEmpty):
		return wire.NewProblem(wire.CodeConflict, "there is a session "+wording.Quote(target)+" already")
	}
	var answer session
	if err == nil {
		answer, err = s.describe(r.Context(), fork)
	}
	if err != nil {
		return s.wire.TapeProblem(r.Context(), err)
	}
	w.Header().Set("Location", sessionPath(target))
	s.wire.SendJSON(w, r, http.StatusCreated, answer)
	return nil
}

// deleteSession erases a session and its forks, the forks first: where that fails, the session is there to be erased once more. One that is not there is a 404, so that a wrong id does not look like one that is erased.
func (s *Server) deleteSession(w http.ResponseWriter, r *http.Request, t *tape.Tape) *wire.Problem {
	forks, err := t.SessionForks(r.Context())
	if err != nil {
		return s.wire.TapeProblem(r.Context(), err)
	}
	for _, one := range append(forks, t) {
		if err := s.eraseSession(r.Context(), one, turn.Interrupt, nil); err != nil {
			return s.wire.TapeProblem(r.Context(), err)
		}
		attrs := append([]slog.Attr{slog.String("tape", one.Name())}, s.callerAttrs(r)...) // not its id, which may be a name
		s.log.LogAttrs(r.Context(), slog.LevelInfo, "session erased", attrs...)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// eraseSession erases one session when nothing runs in it any more, unless check then has an error. check may be nil.
func (s *Server) eraseSession(ctx context.Context, t *tape.Tape, running turn.Policy, check func(context.Context) error) error {
	return s.runs.Exclusive(ctx, t.Session(), running, func(ctx context.Context) error {
		if check != nil {
			if err := check(ctx); err != nil {
				return err
			}
		}
		if s.o.Kernel != nil { // before the tape: where this fails, the session is there to be erased once more
			if err := s.o.Kernel.Erase(ctx, t.Session()); err != nil {
				return err
			}
		}
		err := t.Delete(ctx)
		if err == nil {
			s.runs.Forget(t.Session())
		}
		return err
	})
}

const (
	// sweepSessionsEvery is between looks for sessions that have expired.
	sweepSessionsEvery = 10 * time.Minute
	sweptSessions      = 1000 // at most, each time
)

// errUsedAgain says that a session which had expired has a new entry.
var errUsedAgain = errors.New("the session is used again")

// sweepSessions erases sessions that were not used for as long as they are kept. It ends with Close. Replicas do it side by side, which does
// no harm.
func (s *Server) sweepSessions() {
	for backoff.Sleep(s.ctx, sweepSessionsEvery) == nil {
		erased := 0
		for unnamed, keep := range map[bool]time.Duration{false: s.o.KeepSessions, true: s.o.KeepUnnamed} {
			if keep == 0 {
				continue
			}
			n, err := s.eraseUnused(time.Now().Add(-keep), unnamed)
			if erased += n; err != nil && s.ctx.Err() == nil {
				s.log.WarnContext(s.ctx, "cannot erase expired sessions; retrying", "error", err)
			}
		}
		if erased > 0 {
			s.log.InfoContext(s.ctx, "expired sessions erased", "sessions", erased)
		}
	}
}

// eraseUnused erases sessions whose last entry is from before a date: of all, or of those that no request has named. It leaves those in
// which a turn runs, here or on another replica.
func (s *Server) eraseUnused(before time.Time, unnamed bool) (erased int, err error) {
	expired, err := s.o.Tapes.Unused(s.ctx, before, unnamed, sweptSessions)
	for _, in := range expired {
		err := s.expireSession(in, before)
		_, isElsewhere := errors.AsType[*run.Elsewhere](err)
		switch {
		case err == nil:
			erased++
		case isElsewhere, errors.Is(err, errUsedAgain), errors.Is(err, run.ErrBusy), errors.Is(err, tape.ErrNotFound):
		default:
			return erased, err
		}
	}
	return erased, err
}

// expireSession erases a session whose last entry is from before a date.
func (s *Server) expireSession(in tape.Info, before time.Time) error {
	t, err := tape.Lookup(s.ctx, s.o.Tapes, in.Workspace, in.Session)
	if err != nil {
		return err
	}
	return s.eraseSession(s.ctx, t, turn.Reject, func(ctx context.Context) error {
		now, err := t.Info(ctx)
		if err == nil && !now.Updated.Before(before) {
			err = errUsedAgain
		}
		return err
	})
}
