package web

import (
	"net/http"
	"slices"
	"strings"
)

// Prefixes tell an agent from a workflow of the same name, where there is one field for both.
const (
	agentPrefix    = "agent/"
	workflowPrefix = "workflow/"
)

// agents are the names of those that can be asked, the default one first.
func (s *Server) agents() []string {
	if s.o.Turns == nil {
		return nil
	}
	return s.o.Agents.Names()
}

// target is what a name means to a client of another server, which has one field for it: an agent, or else a workflow, with a
// prefix or without. The ask has nothing else; false where there is neither.
func (s *Server) target(name string) (ask, bool) {
	plain, isAgent := strings.CutPrefix(name, agentPrefix)
	if isAgent || !strings.HasPrefix(name, workflowPrefix) {
		if slices.Contains(s.agents(), plain) {
			return ask{Agent: plain}, true
		}
	}
	if plain, isWorkflow := strings.CutPrefix(name, workflowPrefix); isWorkflow || !isAgent {
		if _, ok := s.o.Workflows.Get(plain); ok {
			return ask{Workflow: plain}, true
		}
	}
	return ask{}, false
}

// targets are the names that target knows, without prefixes where they are not needed: agents, then workflows.
func (s *Server) targets() (agents, workflows []string) {
	var both []string
	for _, w := range s.o.Workflows.All() {
		name := w.Info().Name
		if slices.Contains(s.agents(), name) {
			both = append(both, name)
			name = workflowPrefix + name
		}
		workflows = append(workflows, name)
	}
	for _, name := range s.agents() {
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
	by, _ := s.o.Agents.(ByWorkflow)
	for i, name := range s.agents() {
		a := one{Name: name, Default: i == 0}
		if by != nil {
			a.Workflow = by.Workflow(name)
		}
		list.Agents = append(list.Agents, a)
	}
	s.sendJSON(w, r, http.StatusOK, list)
}
