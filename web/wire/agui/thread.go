package agui

import (
	"context"
	"strconv"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/web/wire"
)

// conversation returns the messages on the tape of a session, without those of a run that the client gets as events. partial says that
// the last answer was cut off.
func (h Handlers) conversation(ctx context.Context, session string, of *run.Run) (list []Message, partial bool, p *wire.Problem) {
	entries, p := h.Newest(ctx, session, tape.KindMessage, tape.KindReasoning, tape.KindToolCall, tape.KindToolResult)
	if p != nil {
		return nil, false, p
	}
	c, last := conversation{list: []Message{}, calls: map[string]string{}}, ""
	for _, e := range entries {
		c.add(e, of)
		m := tape.MetaOf(e)
		partial = m.Partial || partial && m.Turn == last
		last = m.Turn
	}
	return c.list, partial, nil
}

// conversation makes messages of entries, oldest first.
type conversation struct {
	list  []Message
	calls map[string]string // ids of calls as the client has them, by the model's
}

func (c *conversation) add(e tape.Entry, of *run.Run) {
	id := "e" + strconv.Itoa(int(e.ID))
	p := tape.PayloadOf(e)
	if of != nil && tape.MetaOf(e).Turn == of.ID && (e.Kind != tape.KindMessage || p.Role != User) {
		return
	}
	switch e.Kind {
	case tape.KindMessage:
		if p.Role == User || p.Role == Assistant {
			c.list = append(c.list, Message{ID: id, Role: p.Role, Text: tape.TextOf(p.Content)})
		}
	case tape.KindReasoning:
		c.list = append(c.list, Message{ID: id, Role: Reasoning, Text: tape.TextOf(p.Content)})
	case tape.KindToolCall:
		m := Message{ID: id, Role: Assistant, Text: tape.TextOf(p.Content)}
		for _, call := range p.ToolCalls() {
			// A model may use an id again, and a client takes calls with one id for one call.
			c.calls[call.ID] = id + ":" + call.ID
			m.Calls = append(m.Calls, Call{c.calls[call.ID], "function", Function{call.Function.Name, call.Function.Arguments}})
		}
		c.list = append(c.list, m)
	case tape.KindToolResult:
		for i, result := range p.Results {
			if i >= len(p.IDs) || c.calls[p.IDs[i]] == "" {
				continue // of a call that is older than these entries
			}
			c.list = append(c.list, Message{
				ID: id + ":" + strconv.Itoa(i), Role: Tool, Call: c.calls[p.IDs[i]], Text: plainText(result),
			})
		}
	}
}
