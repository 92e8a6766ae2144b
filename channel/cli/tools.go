package cli

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/tool"
)

// Tools is a plugin of package turn that shows the calls of tools in the conversation, a row for each.
type Tools struct{}

var _ agent.BeforeTool = Tools{}

// maxCall bounds what is shown of a call, in characters.
const maxCall = 200

// BeforeTool implements [agent.BeforeTool]: it changes nothing.
func (Tools) BeforeTool(ctx context.Context, t *tool.Tool, call tool.Call) (agent.Verdict, error) {
	turn := channel.FromContext(ctx)
	if turn == nil || turn.Context.Channel != Name {
		return agent.Verdict{}, nil
	}
	text := t.Name
	var args bytes.Buffer
	if json.Compact(&args, call.Arguments) == nil && args.String() != "{}" {
		text += " " + oneLine(args.String(), maxCall)
	}
	// What cannot be shown is no reason for not doing it.
	_ = turn.Sink.Emit(ctx, channel.ReplyTool, channel.Payload{Text: text})
	return agent.Verdict{}, nil
}
