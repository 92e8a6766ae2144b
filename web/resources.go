package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/lingserve/lingserve/api"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// getWorkflows lists what can be run.
func (s *Server) getWorkflows(w http.ResponseWriter, r *http.Request) {
	list := struct {
		Workflows []flow.Info `json:"workflows"`
	}{Workflows: []flow.Info{}}
	for _, wf := range s.o.Workflows.All() {
		info := wf.Info()
		if !wire.Who(r).Runs(info.Name) {
			continue
		}
		info.Graph = nil // one workflow has it; a list need not
		list.Workflows = append(list.Workflows, info)
	}
	s.wire.SendJSON(w, r, http.StatusOK, list)
}

// getWorkflow describes one workflow: its input and its graph.
func (s *Server) getWorkflow(w http.ResponseWriter, r *http.Request) *wire.Problem {
	name := wire.PathValue(r, "name")
	if err := run.MayStart(wire.Who(r), &run.Request{Subject: run.Subject{Workflow: name}}); err != nil {
		return s.wire.Problem(r.Context(), err)
	}
	wf, err := s.runs.Workflow(wire.Who(r), name)
	if err != nil {
		return s.wire.Problem(r.Context(), err)
	}
	s.wire.SendJSON(w, r, http.StatusOK, wf.Info())
	return nil
}

// getAgents lists the agents. Upload-Limit says how large a file of a message may be, in the words of the IETF's draft of resumable uploads.
func (s *Server) getAgents(w http.ResponseWriter, r *http.Request) {
	type one struct {
		Name     string `json:"name"`
		Default  bool   `json:"default,omitempty"`
		Workflow string `json:"workflow,omitempty"` // that answers for it
	}
	list := struct {
		Agents []one `json:"agents"`
	}{[]one{}}
	for _, name := range s.runs.Agents(wire.Who(r)) {
		list.Agents = append(list.Agents, one{name, name == s.o.Agents.Names()[0], s.wire.ByWorkflow(name)})
	}
	if s.o.Tapes != nil {
		w.Header().Set("Upload-Limit", "max-size="+strconv.FormatInt(s.o.Files.MaxSize, 10))
	}
	s.wire.SendJSON(w, r, http.StatusOK, list)
}

type health struct {
	Status  string `json:"status"`
	Version string `json:"version"`

	Channels   map[string]string `json:"channels,omitempty"`   // that do not work, and why
	Servers    map[string]string `json:"servers,omitempty"`    // of MCP that are not ready, and why
	Overloaded []string          `json:"overloaded,omitempty"` // what there is too much of
	Database   string            `json:"database,omitempty"`   // "away"
}

// getHealth says that the process lives.
func (s *Server) getHealth(w http.ResponseWriter, r *http.Request) {
	s.wire.SendJSON(w, r, http.StatusOK, health{Status: "ok", Version: s.o.Version})
}

// getReady reports whether the server accepts new runs. The answer also has the channels that do not work, but the server is ready without them.
//
// An overloaded server is ready, too: otherwise a load balancer would send all clients to the other servers, which have as much to do, and those
// that come back to their runs could not reach them. Refused clients get a Retry-After.
//
// Without its database a server is not ready: another one may reach the database, and serve those that come back to their runs.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request) {
	if s.runs.Draining() {
		w.Header().Set("Retry-After", "5")
		s.wire.SendJSON(w, r, http.StatusServiceUnavailable, health{Status: "draining", Version: s.o.Version})
		return
	}
	h := health{Status: "ready", Version: s.o.Version, Overloaded: s.overloaded()}
	if s.o.Channels != nil {
		h.Channels = s.o.Channels.Broken()
	}
	if s.o.Servers != nil {
		h.Servers = s.o.Servers()
	}
	status := http.StatusOK
	if s.o.Away != nil && s.o.Away() {
		h.Status, h.Database, status = "away", "away", http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "2")
	}
	s.wire.SendJSON(w, r, status, h)
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
	h.Set("Content-Type", "application/yaml")
	h.Set("ETag", contractTag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(api.Contract))
}
