package agent

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
)

// maxCalls is how many tools one reply may call: a model that asks for more goes round in circles.
const maxCalls = 128

// defaultMaxReply is how many bytes a reply may have by default.
const defaultMaxReply = 1 << 20

// reply is what a model has said so far in one step.
type reply struct {
	text, reasoning []byte
	calls           []*replyCall
	open            *replyCall // whose arguments are coming
	citations       []adapter.Citation
	media           []keptMedia
	blobs           []tape.Spill // of media
	usage           *adapter.Usage
	finish          string
	model           string
	size, most      int // bytes; most is 0 for the default
	maker           adapter.Maker
}

// replyCall is a call as its pieces come.
type replyCall struct {
	index     int
	id, name  string
	arguments []byte
	announced bool    // the caller has its event
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

// shown reports whether the reader has got something of the reply.
func (r *reply) shown() bool {
	return len(r.text)+len(r.reasoning)+len(r.citations)+len(r.media) > 0 || slices.ContainsFunc(r.calls, func(c *replyCall) bool { return c.announced })
}

// add adds a chunk. It returns the call that is complete now because another one has begun, if any.
func (r *reply) add(c *adapter.Chunk) (complete *replyCall, err error) {
	if c.Restart {
		r.reasoning, r.text = append(r.reasoning, r.text...), nil
	}
	r.text = append(r.text, c.Text...)
	r.reasoning = append(r.reasoning, c.Reasoning...)
	r.size += len(c.Text) + len(c.Reasoning) + r.maker.Take(c)
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
					return nil, &adapter.Error{Code: adapter.CodeProtocol, Message: "the model called too many tools at once"}
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
	if most := cmp.Or(r.most, defaultMaxReply); r.size > most {
		return nil, &adapter.Error{
			Code: adapter.CodeTooLarge, Message: fmt.Sprintf("the model's answer is longer than %d bytes (turn.max_reply)", most),
			Notice: "The answer became too long and was cut off.",
		}
	}
	return complete, nil
}

// keep puts what the model's provider wants to have back beside the last of the entries that say what the model said.
func (r *reply) keep(entries []tape.Entry) []tape.Entry {
	if len(entries) == 0 || entries[len(entries)-1].Kind == tape.KindReasoning {
		return entries
	}
	made := r.maker.Made(r.model, func(index int) string {
		for _, c := range r.calls {
			if c.index == index && c.made == nil {
				return c.id
			}
		}
		return ""
	})
	if made == nil {
		return entries
	}
	last := &entries[len(entries)-1]
	*last = last.WithMade(made)
	return entries
}
