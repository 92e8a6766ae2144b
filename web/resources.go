package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/api"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
)

// sendJSON answers with a value as JSON. Characters of HTML stay as they are: nothing here is put into a page.
func (s *Server) sendJSON(w http.ResponseWriter, r *http.Request, status int, value any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(err)
	}
	s.send(w, r, status, "application/json", body.Bytes())
}

// getWorkflows lists what can be run.
func (s *Server) getWorkflows(w http.ResponseWriter, r *http.Request) {
	list := struct {
		Workflows []flow.Info `json:"workflows"`
	}{Workflows: []flow.Info{}}
	for _, wf := range s.o.Workflows.All() {
		info := wf.Info()
		if !who(r).Runs(info.Name) {
			continue
		}
		info.Graph = nil // one workflow has it; a list need not
		list.Workflows = append(list.Workflows, info)
	}
	s.sendJSON(w, r, http.StatusOK, list)
}

// getWorkflow describes one workflow: its input and its graph.
func (s *Server) getWorkflow(w http.ResponseWriter, r *http.Request) {
	name := pathValue(r, "name")
	if err := run.MayStart(who(r), &run.Request{Subject: run.Subject{Workflow: name}}); err != nil {
		s.problem(r.Context(), err).write(w)
		return
	}
	wf, ok := s.o.Workflows.Get(name)
	if !ok {
		newProblem(codeNotFound, "unknown workflow "+wording.Quote(name)+"; "+s.runs.Expected(who(r), name)).write(w)
		return
	}
	s.sendJSON(w, r, http.StatusOK, wf.Info())
}

// pathValue returns a part of the path, which may have been escaped.
func pathValue(r *http.Request, name string) string {
	value := chi.URLParam(r, name)
	if r.URL.RawPath != "" { // chi matched the escaped path
		if plain, err := url.PathUnescape(value); err == nil {
			return plain
		}
	}
	return value
}

// model is a model as OpenAI lists them.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	// Default is ours, for a page that offers a choice; clients of this shape pass over what they do not know.
	Default bool `json:"default,omitempty"`
}

// models are the models that can be used: those that are configured, the default, and what the workflows name at this moment; and
// behind them the agents and workflows, which take a model's place for OpenAI's clients. It has what somebody may use.
func (s *Server) models(p access.Principal) (list []model) {
	standard := cmp.Or(s.o.Bot.Model, s.o.Models.Default)
	first := adapter.Links(standard)[0]
	add := func(name, owner string, first bool) {
		// Nobody knows when a model was made; clients of this shape want a number.
		list = append(list, model{name, "model", s.began.Unix(), owner, first})
	}
	for _, name := range s.o.Models.Usable(append(s.o.Workflows.Models(), standard)...) {
		if !p.Runs("") {
			break
		}
		provider, _, _ := strings.Cut(name, ":")
		add(name, provider, name == first)
	}
	agents, workflows := s.targets(p)
	for _, name := range agents {
		add(name, "agent", false)
	}
	for _, name := range workflows {
		add(name, "workflow", false)
	}
	return list
}

// getModels lists the models in the shape of OpenAI's list.
func (s *Server) getModels(w http.ResponseWriter, r *http.Request) {
	s.sendJSON(w, r, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", append([]model{}, s.models(who(r))...)})
}

// getModel describes one of them. Its name may have slashes, escaped or not.
func (s *Server) getModel(w http.ResponseWriter, r *http.Request) {
	name := pathValue(r, "*")
	target, _ := s.target(who(r), name)
	for _, m := range s.models(who(r)) {
		if of, ok := s.target(who(r), m.ID); m.ID == name || ok && of.Agent == target.Agent && of.Workflow == target.Workflow {
			m.ID = name // it may have a prefix that it does not need
			s.sendJSON(w, r, http.StatusOK, m)
			return
		}
	}
	writeOpenAI(w, s.noModel(name))
}

type health struct {
	Status  string `json:"status"`
	Version string `json:"version"`

	Channels   map[string]string `json:"channels,omitempty"`   // that do not work, and why
	Overloaded []string          `json:"overloaded,omitempty"` // what there is too much of
	Engine     string            `json:"engine,omitempty"`     // "away"
	Sessions   string            `json:"sessions,omitempty"`   // "away": the database that they are in
}

// getHealth says that the process lives.
func (s *Server) getHealth(w http.ResponseWriter, r *http.Request) {
	s.sendJSON(w, r, http.StatusOK, health{Status: "ok", Version: s.o.Version})
}

// getReady says whether new runs are taken. That a channel does not work is told too, but makes the server no less ready: its runs
// and the other channels have nothing to do with it.
//
// Neither does overload: what watches the server would send nobody to it any more, those neither who come back to their runs, and all
// who are new to the other servers, which have as much to do and would be next. Whoever is refused here is told when to come back.
//
// That the engine or the database of the sessions is away does: another server may reach it, and those who come back to their runs are served better there.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request) {
	if s.runs.Draining() {
		w.Header().Set("Retry-After", "5")
		s.sendJSON(w, r, http.StatusServiceUnavailable, health{Status: "draining", Version: s.o.Version})
		return
	}
	h := health{Status: "ready", Version: s.o.Version, Overloaded: s.overloaded()}
	if s.o.Channels != nil {
		h.Channels = s.o.Channels.Broken()
	}
	status := http.StatusOK
	if s.engineAway() {
		h.Status, h.Engine, status = "away", "away", http.StatusServiceUnavailable
		w.Header().Set("Retry-After", itoa(int(engineRetry/time.Second)))
	}
	if r, ok := s.o.Tapes.(tape.Remote); ok && r.Away() {
		h.Status, h.Sessions, status = "away", "away", http.StatusServiceUnavailable
		w.Header().Set("Retry-After", itoa(int(engineRetry/time.Second)))
	}
	s.sendJSON(w, r, status, h)
}

// contractTag changes with the contract.
var contractTag = func() string {
	sum := sha256.Sum256(api.Contract)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}()

// getContract serves the OpenAPI description.
func (s *Server) getContract(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", contractTag)
	if r.Header.Get("If-None-Match") == contractTag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.send(w, r, http.StatusOK, "application/yaml", api.Contract)
}
