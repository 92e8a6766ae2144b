package run

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run/hooks"
	"github.com/lingserve/lingserve/turn"
)

// prepareAgent checks a run of an agent against what there is.
func (s *Service) prepareAgent(p access.Principal, a *Request, files []adapter.Part) (*spec, error) {
	sp := &spec{owner: p.Owner(), role: p.Role}
	if s.o.Turns == nil {
		return sp, refuse(ErrUnknown, "unknown agent "+wording.Quote(a.Agent)+"; this server has no agents")
	}
	if names := s.Agents(p); !slices.Contains(names, a.Agent) {
		return sp, refuse(ErrUnknown, "unknown agent "+wording.Quote(a.Agent)+"; "+wording.Expected(a.Agent, names))
	}
	var misfits []Field
	fail := func(pointer, detail string) { misfits = append(misfits, Field{Pointer: pointer, Detail: detail}) }
	if a.Model != "" {
		fail("/model", "an agent chooses its own model; send the input ,model NAME to change it for the session")
	}
	if a.Params != nil {
		fail("/params", "an agent takes no params")
	}
	if a.Session != "" {
		if why := s.CheckSession(p, a.Session); why != "" {
			fail("/session", why)
		}
	}
	if by, ok := s.o.Agents.(ByWorkflow); ok && len(misfits) == 0 {
		if workflow := by.Workflow(a.Agent); workflow != "" {
			return s.prepareByWorkflow(p, a, workflow)
		}
	}
	var text string
	switch {
	case len(a.Properties) > 0:
		fail("/input", "an agent's input is text without properties")
	case a.Input == nil || a.Input[0] != '"' || json.Unmarshal(a.Input, &text) != nil:
		found := "nothing"
		if a.Input != nil {
			found = rawjson.Kind(a.Input)
		}
		fail("/input", "expected a string, found "+found)
	case text == "" && len(files) == 0:
		fail("/input", "is empty; expected a message to the agent")
	}
	if len(misfits) > 0 {
		return sp, misfitting(misfits...)
	}
	sp.agent = s.newAgentRun(a.Agent, turn.Policy(a.OnBusy))
	sp.agent.done = a.Done
	sp.session = cmp.Or(a.Session, sp.agent.id) // one of its own, in which the conversation can go on
	sp.agent.envelope = &turn.Envelope{
		ID: sp.agent.id, Channel: Channel, Content: text, Media: mediaOf(files), Life: sp.agent,
		Extra: map[string]any{
			ExtraAgent: a.Agent, turn.ExtraRun: sp.agent.id, hooks.Options: a.Options, hooks.Instructions: a.Instructions,
			hooks.History: messages(a.History), turn.ExtraTimezone: s.o.Timezones[a.Agent],
		},
	}
	sp.workflow, sp.request = turnWork{sp.agent}, a
	sp.config, sp.filters = s.o.Bot, a.filters()
	return sp, nil
}

// prepareByWorkflow checks a run of an agent that a workflow answers for.
func (s *Service) prepareByWorkflow(by access.Principal, a *Request, workflow string) (*spec, error) {
	if _, ok := s.o.Workflows.Get(workflow); !ok {
		e := internal("this agent's workflow is missing; find the cause in the server's log under this id")
		s.log.Error("agent's workflow is missing", "id", e.ID, "agent", a.Agent, "workflow", workflow)
		return nil, e
	}
	if a.OnBusy == string(turn.Steer) {
		return nil, misfitting(Field{
			Pointer: "/on_busy", Detail: "this agent does not support steer, because it is a workflow; expected queue, reject or interrupt",
		})
	}
	as := *a
	as.Agent, as.Workflow = "", workflow
	as.Session = cmp.Or(as.Session, NewID()) // one of its own, in which the conversation can go on
	sp, p := s.prepare(by, &as)
	if p == nil {
		if sp.agent.as = a.Agent; sp.request != nil {
			sp.request = a
		}
	}
	return sp, p
}

// makeTurn makes a run of a workflow a turn of a session: its bots know what was said before, and what is said now is kept.
func (s *Service) makeTurn(sp *spec, session string, policy turn.Policy, input json.RawMessage) {
	text := string(input)
	var plain string
	if json.Unmarshal(input, &plain) == nil {
		text = plain
	}
	a := s.newAgentRun(sp.workflow.Info().Name, policy)
	a.answer = &workflow.Answer{Workflow: sp.workflow, Input: sp.input, Stop: func(cause error) {
		if !a.stop(cause) { // by a later message, or by who erases the session
			a.own.Stop(cause)
		}
	}}
	a.envelope = &turn.Envelope{
		ID: a.id, Channel: Channel, Content: text, Life: a,
		Sender: turn.Sender{NoCommands: true}, // a workflow's input is what its schema says, commas included
		Extra:  map[string]any{hooks.Run: a},
	}
	sp.agent, sp.session = a, session
	sp.workflow = turnWork{a}
}
