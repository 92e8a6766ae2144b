package web

import (
	"context"
	"encoding/json"

	"github.com/lingserve/lingserve/agent/workflow"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/turn"
)

// inSession makes a run of a workflow a turn of a session: its bots know what was said before, and what is said now is kept.
func (s *Server) inSession(sp *spec, session string, policy turn.Policy, input json.RawMessage) {
	text := string(input)
	var plain string
	if json.Unmarshal(input, &plain) == nil {
		text = plain
	}
	a := &agentRun{
		s: s, name: sp.workflow.Info().Name, id: newRunID(), policy: policy,
		placed: make(chan struct{}), begun: make(chan struct{}), ruled: make(chan struct{}), ready: make(chan struct{}),
	}
	a.answer = &workflow.Answer{Workflow: sp.workflow, Input: sp.input, Stop: func(cause error) {
		if !a.stop(cause) { // by a later message, or by who erases the session
			a.own.Stop(cause)
		}
	}}
	a.envelope = &turn.Envelope{
		ID: a.id, Channel: Channel, Content: text, Life: a,
		Sender: turn.Sender{NoCommands: true}, // a workflow's input is what its schema says, commas included
		Extra:  map[string]any{extraRun: a},
	}
	sp.agent, sp.session = a, session
	sp.workflow = flow.Func(a.name, "", nil, func(ctx context.Context, m *ling.Manager, _ map[string]any) error { return a.run(ctx, m) })
}

// RunModelStream is the model stage of a workflow's turn; agents have their own.
func (door) RunModelStream(ctx context.Context, _ turn.Prompt, _ turn.SessionID, state turn.State) (turn.Stream, bool, error) {
	t := turn.FromContext(ctx)
	if t == nil {
		return nil, false, nil
	}
	a, ok := t.Envelope().Extra[extraRun].(*agentRun)
	if !ok {
		return nil, false, nil
	}
	a.silent, a.answer.Manager = true, a.m
	return a.answer.Stream(ctx, state), true, nil
}
