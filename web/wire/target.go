package wire

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/request"
)

// Prefixes tell an agent from a workflow of the same name, in protocols that have one field for both.
const (
	agentPrefix    = "agent/"
	workflowPrefix = "workflow/"
)

// Target is the subject that a name means on a wire that has one field for it: an agent, or else a workflow, with a prefix or without.
// ok is false if there is neither, or the caller may not use it.
func (s *Server) Target(p access.Principal, name string) (of run.Subject, ok bool) {
	plain, isAgent := strings.CutPrefix(name, agentPrefix)
	if isAgent || !strings.HasPrefix(name, workflowPrefix) {
		if slices.Contains(s.Runs.Agents(p), plain) {
			return run.Subject{Agent: plain}, true
		}
	}
	if plain, isWorkflow := strings.CutPrefix(name, workflowPrefix); isWorkflow || !isAgent {
		if _, ok := s.Workflows.Get(plain); ok && p.Runs(plain) {
			return run.Subject{Workflow: plain}, true
		}
	}
	return run.Subject{}, false
}

// Targets are the names that Target knows for a caller, with prefixes only where they are needed.
func (s *Server) Targets(p access.Principal) (agents, workflows []string) {
	agents = slices.Clone(s.Runs.Agents(p))
	for _, w := range s.Workflows.All() {
		name := w.Info().Name
		if !p.Runs(name) {
			continue
		}
		if i := slices.Index(agents, name); i >= 0 {
			agents[i], name = agentPrefix+name, workflowPrefix+name
		}
		workflows = append(workflows, name)
	}
	return agents, workflows
}

// PathTarget is the subject that a path names where routes have {agent}. The problem lists those that the caller may use.
func (s *Server) PathTarget(r *http.Request) (run.Subject, *Problem) {
	name := PathValue(r, "agent")
	of, ok := s.Target(Who(r), name)
	if !ok {
		agents, workflows := s.Targets(Who(r))
		return of, NewProblem(CodeNotFound, "unknown agent or workflow "+wording.Quote(name)+"; "+wording.Expected(name, append(agents, workflows...)))
	}
	return of, nil
}

// ByWorkflow is the workflow that answers for an agent; "" where the agent does.
func (s *Server) ByWorkflow(agent string) string {
	if s.Agents == nil || agent == "" {
		return ""
	}
	return s.Agents.Workflow(agent)
}

var templateSegment = regexp.MustCompile(`[^/]*\{\{.*?\}\}[^/]*`)

// RootPattern is the pattern of the roots that a template makes: "*" for each segment with an expression.
func RootPattern(template string) string { return templateSegment.ReplaceAllString(template, "*") }

// Roots are the places of a workflow's document where its bots write; nil where they are not known. Bots that only repair what another
// bot failed at are left out.
func (s *Server) Roots(of run.Subject) (roots []string) {
	wf, ok := s.Workflows.Get(cmp.Or(of.Workflow, s.ByWorkflow(of.Agent)))
	if !ok || wf.Info().Graph == nil {
		return nil
	}
	for _, b := range wf.Info().Graph.Bots {
		if len(b.On) == 0 || slices.ContainsFunc(b.On, func(t flow.Trigger) bool { return t.Error == "" }) {
			roots = append(roots, RootPattern(b.Root))
		}
	}
	return roots
}

// Remembers reports whether a caller's chats are sessions. A caller without sessions sends the whole conversation each time.
func (s *Server) Remembers(p access.Principal) bool { return s.Turns != nil && p.Remembers() }

// Input is the input of a run for a text beside its files: the text itself, or the object that it is where it names properties of the
// workflow's input.
func (s *Server) Input(q *run.Request, text string) json.RawMessage {
	if len(q.Files) > 0 {
		text = cmp.Or(text, request.AboutFiles)
	}
	quoted, _ := json.Marshal(text)
	trimmed := strings.TrimSpace(text)
	wf, ok := s.Workflows.Get(q.Workflow)
	if !ok || !strings.HasPrefix(trimmed, "{") || request.Check([]byte(trimmed)) != nil {
		return quoted
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(wf.Info().Input, &schema) // a workflow without one has no properties
	_ = json.Unmarshal([]byte(trimmed), &object) // it is JSON
	for name := range object {
		if _, ok := schema.Properties[name]; ok {
			return json.RawMessage(trimmed)
		}
	}
	if _, err := flow.Prepare(wf, quoted); err != nil {
		return json.RawMessage(trimmed)
	}
	return quoted
}
