package web

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/lingserve/lingserve/access"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/agui"
)

// Bounds of what a client is given of a conversation that it comes back to.
const (
	maxTold      = 2000    // entries of the tape, the newest
	maxToldBytes = 2 << 20 // of their texts
)

// conversation is what stands on the tape of a session, without what the run has said: it tells that itself. broken says that the last
// answer is not all there.
func (s *Server) conversation(ctx context.Context, session string, run *run.Run) (list []agui.Message, broken bool, p *problem) {
	entries, p := s.newest(ctx, session, tape.KindMessage, tape.KindReasoning, tape.KindToolCall, tape.KindToolResult)
	if p != nil {
		return nil, false, p
	}
	c, last := conversation{calls: map[string]string{}}, ""
	for _, e := range entries {
		c.add(e, run)
		m := tape.MetaOf(e)
		broken = m.Partial || broken && m.Turn == last
		last = m.Turn
	}
	return c.list, broken, nil
}

// newest are the newest entries of a session, as many as a client is given, oldest first; none where there is no such session.
func (s *Server) newest(ctx context.Context, session string, kinds ...tape.Kind) (list []tape.Entry, p *problem) {
	if s.o.Tapes == nil {
		return nil, nil
	}
	by := access.From(ctx)
	if s.runs.ChannelOf(by, session) != "" {
		return nil, nil
	}
	t, err := tape.Lookup(ctx, s.o.Tapes, s.o.Workspace, webchannel.SessionKey(by.Owner(), session))
	if errors.Is(err, tape.ErrNotFound) || errors.Is(err, tape.ErrDeleted) {
		return nil, nil
	}
	if err != nil {
		return nil, s.tapeProblem(ctx, err)
	}
	size := 0
	for e, err := range t.Read(ctx, tape.Query{Kinds: kinds, Newest: true, Limit: maxTold}) {
		if err != nil {
			return nil, s.tapeProblem(ctx, err)
		}
		if size += len(e.Payload); size > maxToldBytes {
			break
		}
		list = append(list, e)
	}
	slices.Reverse(list)
	return list, nil
}

// conversation makes messages of entries, oldest first.
type conversation struct {
	list  []agui.Message
	calls map[string]string // ids of calls as they are told, by the model's
}

func (c *conversation) add(e tape.Entry, run *run.Run) {
	id := "e" + itoa(int(e.ID))
	var p struct {
		Role    string
		Content json.RawMessage
		Calls   []tape.Call
		IDs     []string
		Results []json.RawMessage
	}
	if json.Unmarshal(e.Payload, &p) != nil {
		return
	}
	if run != nil && tape.MetaOf(e).Turn == run.ID && (e.Kind != tape.KindMessage || p.Role != agui.User) {
		return
	}
	switch e.Kind {
	case tape.KindMessage:
		if p.Role == agui.User || p.Role == agui.Assistant {
			c.list = append(c.list, agui.Message{ID: id, Role: p.Role, Text: tape.TextOf(p.Content)})
		}
	case tape.KindReasoning:
		c.list = append(c.list, agui.Message{ID: id, Role: agui.Reasoning, Text: tape.TextOf(p.Content)})
	case tape.KindToolCall:
		m := agui.Message{ID: id, Role: agui.Assistant, Text: tape.TextOf(p.Content)}
		for _, call := range p.Calls {
			// A model may use an id again, and a client takes calls with one id for one call.
			c.calls[call.ID] = id + ":" + call.ID
			m.Calls = append(m.Calls, agui.Call{ID: c.calls[call.ID], Name: call.Function.Name, Arguments: call.Function.Arguments})
		}
		c.list = append(c.list, m)
	case tape.KindToolResult:
		for i, result := range p.Results {
			if i >= len(p.IDs) || c.calls[p.IDs[i]] == "" {
				continue // of a call that is not told any more
			}
			c.list = append(c.list, agui.Message{
				ID: id + ":" + itoa(i), Role: agui.Tool, Call: c.calls[p.IDs[i]], Text: resultOf(result),
			})
		}
	}
}

// resultOf is the result of a call as a text: a string itself, of anything else the JSON.
func resultOf(result json.RawMessage) string {
	var text string
	if len(result) > 0 && result[0] == '"' && json.Unmarshal(result, &text) == nil {
		return text
	}
	return string(result)
}
