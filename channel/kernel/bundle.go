package kernel

import (
	"cmp"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// albumWait is how long the next part of an album is waited for.
const albumWait = time.Second

// Bundle returns what an event is a part of, for its [Arrival]: an album, or with the setting debounce the texts of one sender.
func (k *Kernel) Bundle(name, account string, in *channel.Input) (bundle string, wait time.Duration) {
	k.init()
	switch {
	case in.SenderID == "" || in.ConversationID == "":
		return "", 0
	case in.GroupID != "":
		return "album " + in.GroupID, albumWait
	}
	text := strings.TrimSpace(cmp.Or(in.TextForCommands, in.TextForAgent, in.RawText))
	if in.HasMedia || text == "" || strings.HasPrefix(text, ",") {
		return "", 0
	}
	wait = k.Settings.Policy(channel.PolicyQuery{Channel: name, Account: account, Conversation: in.ConversationID, Thread: in.ThreadID}).Debounce
	if wait <= 0 {
		return "", 0
	}
	return "sender " + in.SenderID, wait
}
