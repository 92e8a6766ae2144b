package web

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/lingserve/lingserve/access"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/web/wire"
)

// runsPage is the number of runs in a page, where the client does not say.
const runsPage = 50

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
	one := listedRun{ID: r.ID, Workflow: r.Workflow, Agent: r.Agent, Status: r.State, Created: r.Created.UTC(), Ended: r.Ended.UTC()}
	if r.Session != "" && p.Remembers() {
		one.Session = nameOf(r.Owner, r.Session)
	}
	if p.Administers() {
		one.Owner = cmp.Or(r.Owner, access.Local.Name) // "local" for requests without keys; ownerOf is the inverse
	}
	return one
}

// ownerOf returns the owner with a name.
func ownerOf(name string) string { return access.Principal{Name: name}.Owner() }

// getHistory lists the runs of the caller, for admins those of all, the newest first.
func (s *Server) getHistory(w http.ResponseWriter, r *http.Request) *wire.Problem {
	query := struct {
		Workflow string    `field:"workflow" max:"256"`
		Agent    string    `field:"agent" max:"256"`
		Session  string    `field:"session" max:"1024"`
		Owner    string    `field:"owner" max:"64"`
		Status   []string  `field:"status" words:"running queued waiting completed failed canceled interrupted"`
		From     time.Time `field:"from"`
		To       time.Time `field:"to"`
		Limit    int64     `field:"limit" max:"200"`
		After    string    `field:"after"`
	}{Limit: runsPage}
	if p := wire.Query(r, &query); p != nil {
		return p
	}
	q := store.RunQuery{
		Workflow: query.Workflow, Agent: query.Agent, States: query.Status, From: query.From, To: query.To,
		Limit: int(query.Limit), Cursor: query.After,
	}
	who := wire.Who(r)
	of := who
	if query.Owner != "" {
		if !who.Administers() {
			return onlyAdmins("list runs of an owner")
		}
		name := ownerOf(query.Owner)
		q.Owner, of = &name, access.Principal{Name: query.Owner}
	}
	if query.Session != "" {
		if !who.Remembers() {
			return wire.NewProblem(wire.CodeForbidden, run.NoMemory)
		}
		q.Session = webchannel.SessionKey(of.Owner(), query.Session)
		if s.runs.ChannelOf(who, query.Session) != "" {
			q.Session = query.Session
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
	var body struct {
		Owner string `field:"owner,required" max:"64"`
	}
	if p := s.wire.ReadMembers(w, r, true, &body); p != nil {
		return p
	}
	owner := body.Owner
	canceled, elsewhere, err := s.runs.CancelOwner(r.Context(), ownerOf(owner))
	attrs := append([]slog.Attr{slog.String("owner", owner), slog.Int("runs", canceled)}, s.callerAttrs(r)...)
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
