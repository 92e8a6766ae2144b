package coze

import "github.com/lingserve/lingserve/adapter"

// maxWaiting is how many calls are remembered whose outputs chats wait for. Nearly all outputs come within seconds; those of a chat that has been
// forgotten are sent as history.
const maxWaiting = 4096

// chat is a chat that waits for the outputs of tools.
type chat struct {
	bot              string
	conversation, id string
	calls            []string // ids
}

// addWaiting remembers a chat.
func (p *provider) addWaiting(c *chat) {
	for _, id := range c.calls {
		p.waiting.Add(id, c)
	}
}

// forgetWaiting forgets a chat.
func (p *provider) forgetWaiting(c *chat) {
	for _, id := range c.calls {
		p.waiting.Remove(id)
	}
}

// findWaiting returns the chat that waits for the results at the end of these messages, and those results as its outputs; nil where none is known
// to wait for just them. Results of calls that Coze has made itself may be among them.
func (p *provider) findWaiting(bot string, messages []adapter.Message) (found *chat, outputs []output) {
	for i := len(messages) - 1; i >= 0 && messages[i].Role == adapter.ToolRole; i-- {
		c, ok := p.waiting.Get(messages[i].ToolCallID)
		if !ok || c.bot != bot || found != nil && found != c {
			continue
		}
		found = c
		outputs = append([]output{{CallID: messages[i].ToolCallID, Output: textOf(messages[i])}}, outputs...)
	}
	if found == nil || len(outputs) != len(found.calls) {
		return nil, nil
	}
	return found, outputs
}
