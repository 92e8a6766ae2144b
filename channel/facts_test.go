package channel_test

import (
	"errors"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// open lets everybody talk in direct conversations.
var open = channel.AccessFacts{DM: channel.DMFacts{Policy: channel.PolicyOpen}}

// facts are those of a direct message.
func facts(id, text string) channel.Facts {
	return channel.Facts{
		Channel: "fake", MessageID: id, Sender: channel.SenderFacts{ID: "42"},
		Conversation: channel.ConversationFacts{Kind: channel.Direct, ID: "42"},
		Route:        channel.RouteFacts{AgentID: "assistant", RouteSessionKey: "fake:42"},
		Reply:        channel.ReplyPlanFacts{To: "42"},
		Access:       open,
		Message:      channel.MessageFacts{RawBody: text},
	}
}

var errTest = errors.New("it failed")
