package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/run"
)

// Prefixes tell an agent from a workflow of the same name, where there is one field for both.
const (
	agentPrefix    = "agent/"
	workflowPrefix = "workflow/"
)

// target is what a name means to a client of another server, which has one field for it: an agent, or else a workflow, with a
// prefix or without. The ask has nothing else; false where there is neither, or it is not for who asks.
func (s *Server) target(p access.Principal, name string) (run.Request, bool) {
	plain, isAgent := strings.CutPrefix(name, agentPrefix)
	if isAgent || !strings.HasPrefix(name, workflowPrefix) {
		if slices.Contains(s.runs.Agents(p), plain) {
			return run.Request{Subject: run.Subject{Agent: plain}}, true
		}
	}
	if plain, isWorkflow := strings.CutPrefix(name, workflowPrefix); isWorkflow || !isAgent {
		if _, ok := s.o.Workflows.Get(plain); ok && p.Runs(plain) {
			return run.Request{Subject: run.Subject{Workflow: plain}}, true
		}
	}
	return run.Request{}, false
}

// targets are the names that target knows for somebody, without prefixes where they are not needed: agents, then workflows.
func (s *Server) targets(p access.Principal) (agents, workflows []string) {
	var both []string
	for _, w := range s.o.Workflows.All() {
		name := w.Info().Name
		if !p.Runs(name) {
			continue
		}
		if slices.Contains(s.runs.Agents(p), name) {
			both = append(both, name)
			name = workflowPrefix + name
		}
		workflows = append(workflows, name)
	}
	for _, name := range s.runs.Agents(p) {
		if slices.Contains(both, name) {
			name = agentPrefix + name
		}
		agents = append(agents, name)
	}
	return agents, workflows
}

// getAgents lists the agents.
func (s *Server) getAgents(w http.ResponseWriter, r *http.Request) {
	type one struct {
		Name     string `json:"name"`
		Default  bool   `json:"default,omitempty"`
		Workflow string `json:"workflow,omitempty"` // that answers for it
	}
	list := struct {
		Agents []one `json:"agents"`
	}{[]one{}}
	by, _ := s.o.Agents.(run.ByWorkflow)
	for _, name := range s.runs.Agents(who(r)) {
		a := one{Name: name, Default: name == s.o.Agents.Names()[0]}
		if by != nil {
			a.Workflow = by.Workflow(name)
		}
		list.Agents = append(list.Agents, a)
	}
	s.sendJSON(w, r, http.StatusOK, list)
}
