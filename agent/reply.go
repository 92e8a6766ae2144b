package agent

import (
	"slices"

	"github.com/lingserve/lingserve/adapter"
)

// maxCalls is how many tools one reply may call: a model that asks for more goes round in circles.
const maxCalls = 128

// maxReply is how much a reply may be, in bytes, calls and reasoning included: with everything in it escaped, it fits an entry.
const maxReply = 1 << 20

// reply is what a model has said so far in one step.
type reply struct {
	text, reasoning []byte
	calls           []*replyCall
	open            *replyCall // whose arguments are coming
	citations       []adapter.Citation
	media           []keptMedia
	usage           *adapter.Usage
	finish          string
	model           string
	size            int
}

// replyCall is a call as its pieces come.
type replyCall struct {
	index     int
	id, name  string
	arguments []byte
	told      bool    // the caller has its event
	made      *string // the result, of a call that the provider has made itself
	failed    bool
	answered  bool // the caller has that result
}

// is says whether a piece is one of this call. There are servers that give all calls the same index.
func (c *replyCall) is(index int, id string) bool {
	return c.index == index && (id == "" || c.id == "" || c.id == id)
}

func (r *reply) find(index int, id string) *replyCall {
	for _, c := range slices.Backward(r.calls) {
		if c.is(index, id) {
			return c
		}
	}
	return nil
}

// take adds a chunk. It returns the call that is complete now because another one has begun, if any.
func (r *reply) take(c *adapter.Chunk) (complete *replyCall, err error) {
	r.text = append(r.text, c.Text...)
	r.reasoning = append(r.reasoning, c.Reasoning...)
	r.size += len(c.Text) + len(c.Reasoning)
	if c.Usage != nil {
		r.usage = c.Usage
	}
	if c.Finish != "" {
		r.finish = c.Finish
	}
	if c.Model != "" {
		r.model = c.Model
	}
	if p := c.ToolCall; p != nil {
		r.size += len(p.ID) + len(p.Name) + len(p.Arguments)
		call := r.open
		if call == nil || !call.is(p.Index, p.ID) {
			complete = r.open
			if call = r.find(p.Index, p.ID); call == nil {
				if len(r.calls) == maxCalls {
					return nil, &adapter.Error{Code: adapter.CodeProtocol, Message: "the model asked for too many tools at once"}
				}
				call = &replyCall{index: p.Index}
				r.calls = append(r.calls, call)
			}
			r.open = call
		}
		if call.id == "" {
			call.id = p.ID
		}
		if call.name == "" {
			call.name = p.Name
		}
		call.arguments = append(call.arguments, p.Arguments...)
	}
	if t := c.ToolResult; t != nil {
		r.size += len(t.Content)
		call := r.find(t.Index, t.ID)
		if t.ID != "" {
			for _, c := range r.calls {
				if c.id == t.ID {
					call = c
				}
			}
		}
		if call != nil {
			text := t.Content
			call.made, call.failed = &text, t.Failed
		}
	}
	if r.size > maxReply {
		return nil, &adapter.Error{Code: adapter.CodeProtocol, Message: "the model's answer is longer than 1 MiB"}
	}
	return complete, nil
}
