package web

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/access"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/request"
)

// Sizes of pages of runs.
const runsPage, maxRuns = 50, 200

// listedRun is a run in a list.
type listedRun struct {
	ID       string    `json:"id"`
	Workflow string    `json:"workflow,omitempty"`
	Agent    string    `json:"agent,omitempty"`
	Session  string    `json:"session,omitempty"` // as its owner calls it; of a channel: its full name
	Owner    string    `json:"owner,omitempty"`   // only for admins
	Status   string    `json:"status"`
	Created  time.Time `json:"created"`
	Ended    time.Time `json:"ended,omitzero"`
}

// listedRunOf describes a stored run for p. Callers without the scope sessions do not see the session.
func listedRunOf(p access.Principal, r store.Run) listedRun {
	one := listedRun{ID: r.ID, Workflow: r.Workflow, Agent: r.Agent, Status: r.State, Created: r.Created.UTC()}
	if !r.Ended.IsZero() {
		one.Ended = r.Ended.UTC()
	}
	if r.Session != "" && p.Remembers() {
		one.Session = r.Session
		if name, ok := webchannel.SessionName(r.Owner, r.Session); ok {
			one.Session = name
		}
	}
	if p.Administers() {
		one.Owner = ownerName(r.Owner)
	}
	return one
}

// ownerName returns the name of an owner in lists: "local" for requests without keys. [ownerOf] is its inverse.
func ownerName(owner string) string {
	if owner == "" {
		return access.Local.Name
	}
	return owner
}

// ownerOf returns the owner with a name.
func ownerOf(name string) string { return access.Principal{Name: name}.Owner() }

// getHistory lists the runs of the caller, for admins those of all, the newest first.
func (s *Server) getHistory(w http.ResponseWriter, r *http.Request) *wire.Problem {
	q := store.RunQuery{Limit: runsPage}
	who := wire.Who(r)
	owner, session := "", ""
	d := new(request.Decoder)
	if p := wire.Query(d, r, request.Parameters{
		"workflow": d.Name(&q.Workflow, request.MaxName),
		"agent":    d.Name(&q.Agent, request.MaxName),
		"session":  d.Name(&session, request.MaxPattern),
		"owner":    d.Name(&owner, access.MaxName),
		"status":   func(value string) { q.States = readStatuses(d, value) },
		"from":     func(value string) { q.From = readTime(d, value) },
		"to":       func(value string) { q.To = readTime(d, value) },
		"limit":    func(value string) { q.Limit = d.Count(value, maxRuns) },
		"after":    func(value string) { q.Cursor = value },
	}); p != nil {
		return p
	}
	of := who
	if owner != "" {
		if !who.Administers() {
			return onlyAdmins("list runs of an owner")
		}
		name := ownerOf(owner)
		q.Owner, of = &name, access.Principal{Name: owner}
	}
	if session != "" {
		if !who.Remembers() {
			return wire.NewProblem(wire.CodeForbidden, run.NoMemory)
		}
		q.Session = webchannel.SessionKey(of.Owner(), session)
		if s.runs.ChannelOf(who, session) != "" {
			q.Session = session
		}
	}
	rows, next, err := s.runs.List(r.Context(), who, q)
	if errors.Is(err, store.ErrCursor) {
		return wire.Invalid(run.Field{Parameter: "after", Detail: "expected the value of next from an earlier answer"})
	}
	if err != nil {
		return s.wire.Problem(r.Context(), err)
	}
	list := struct {
		Runs []listedRun `json:"runs"`
		Next string      `json:"next,omitempty"`
	}{[]listedRun{}, next}
	for _, row := range rows {
		list.Runs = append(list.Runs, listedRunOf(who, row))
	}
	s.wire.SendJSON(w, r, http.StatusOK, list)
	return nil
}

// postHistoryCancel cancels all runs of an owner that go on on this server. The answer names those that go on on other replicas: the caller
// cancels them one by one, and these requests are forwarded.
func (s *Server) postHistoryCancel(w http.ResponseWriter, r *http.Request) *wire.Problem {
	if !wire.Who(r).Administers() {
		return onlyAdmins("cancel the runs of an owner")
	}
	owner := ""
	if p := s.wire.ReadMembers(w, r, true, func(d *request.Decoder) request.Fields {
		return request.Fields{"owner": func(at string, raw json.RawMessage) { owner = d.Text(at, raw, access.MaxName) }}
	}); p != nil {
		return p
	}
	if owner == "" {
		return wire.Invalid(run.Field{Pointer: "/owner", Detail: "missing"})
	}
	canceled, elsewhere, err := s.runs.CancelOwner(r.Context(), ownerOf(owner))
	attrs := append([]slog.Attr{slog.String("owner", owner), slog.Int("runs", canceled)}, s.callerAttrs(r, recorderOf(r))...)
	s.log.LogAttrs(r.Context(), slog.LevelInfo, "canceled the runs of an owner", attrs...)
	if err != nil {
		return s.wire.Problem(r.Context(), err)
	}
	s.wire.SendJSON(w, r, http.StatusAccepted, struct {
		Canceled  int      `json:"canceled"`
		Elsewhere []string `json:"elsewhere,omitempty"`
	}{canceled, elsewhere})
	return nil
}

// onlyAdmins is the answer to a caller that is no admin.
func onlyAdmins(what string) *wire.Problem {
	return wire.NewProblem(wire.CodeForbidden, "only admins may "+what)
}

// runStatuses are the values of status in a list of runs.
var runStatuses = []string{
	store.RunRunning, store.RunQueued, store.RunWaiting, store.RunCompleted, store.RunFailed, store.RunCanceled, store.RunInterrupted,
}

// readStatuses reads statuses of runs, separated by commas.
func readStatuses(d *request.Decoder, value string) (list []string) {
	for status := range strings.SplitSeq(value, ",") {
		status = d.Word("", strings.TrimSpace(status), runStatuses...)
		if status == "" {
			return nil
		}
		if !slices.Contains(list, status) {
			list = append(list, status)
		}
	}
	return list
}

// readTime reads a date and time as RFC 3339 writes it.
func readTime(d *request.Decoder, value string) time.Time {
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		d.Fail("", "expected a time as in RFC 3339, such as 2026-01-31T15:04:05Z, found %q", wording.Clip(value))
	}
	return t
}
