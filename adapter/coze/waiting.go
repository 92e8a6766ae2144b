package coze

import (
	"slices"
	"sync"

	"github.com/lingserve/lingserve/adapter"
)

// maxWaiting is how many chats are remembered that wait for the outputs of tools. Nearly all are asked for within seconds; one that
// has been forgotten is sent as history.
const maxWaiting = 1024

// chat is a chat that waits for the outputs of tools.
type chat struct {
	bot              string
	conversation, id string
	calls            map[string]bool // ids
}

// waiting remembers the chats that wait. Its zero value is ready.
type waiting struct {
	mu    sync.Mutex
	chats []*chat // oldest first
}

func (w *waiting) add(c *chat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.chats) == maxWaiting {
		w.chats = slices.Delete(w.chats, 0, 1)
	}
	w.chats = append(w.chats, c)
}

func (w *waiting) forget(c *chat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chats = slices.DeleteFunc(w.chats, func(other *chat) bool { return other == c })
}

// find returns the chat that waits for the results at the end of these messages, and those results as its outputs; nil where none
// is known to wait for just them.
func (w *waiting) find(bot string, messages []adapter.Message) (*chat, []output) {
	first := len(messages)
	for first > 0 && messages[first-1].Role == adapter.ToolRole {
		first--
	}
	results := messages[first:]
	if len(results) == 0 {
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range slices.Backward(w.chats) {
		if c.bot != bot {
			continue
		}
		var given []output
		for _, r := range results {
			// Results of calls that Coze has made itself may be among them.
			if c.calls[r.ToolCallID] {
				given = append(given, output{CallID: r.ToolCallID, Output: textOf(r)})
			}
		}
		if len(given) == len(c.calls) {
			return c, given
		}
	}
	return nil, nil
}
