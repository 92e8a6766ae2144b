package channel

import (
	"time"

	"github.com/lingserve/lingserve/tool"
)

// TurnContext is what the agent is told of an event. [BuildContext] makes it.
type TurnContext struct {
	Body, BodyForAgent, RawBody, BodyForCommands string
	InboundHistory                               []HistoryEntry
	Channel, Surface                             string
	Trigger                                      Trigger
	ObserveOnly                                  bool

	From, SenderID, SenderName, SenderUsername, SenderTag string
	MemberRoleIDs                                         []string

	To, OriginatingTo, OriginatingChannel string

	AgentID, AccountID                                  string
	SessionKey, ParentSessionKey, ModelParentSessionKey string

	MessageID, MessageIDFull string
	Timestamp                time.Time

	ReplyToID, ReplyToIDFull, ReplyToBody, ReplyToSender string
	ReplyToIsQuote                                       bool

	ForwardedFrom, ForwardedFromType, ForwardedFromID string
	ForwardedDate                                     time.Time

	ThreadStarterBody, ThreadHistoryBody, ThreadLabel string

	Media []MediaFact

	ChatType                                    ChatType
	ChatID, ConversationLabel                   string
	GroupSpace, GroupSubject, GroupSystemPrompt string
	Untrusted                                   []Untrusted

	WasMentioned, Addressed, CommandAuthorized bool
	Role                                       tool.Role

	MessageThreadID, NativeChannelID, ThreadParentID string
}
