package channel

// Row is what is recorded of a turn.
type Row struct {
	SessionKey      string
	CreateIfMissing bool
	Channel         string
	Account         string
	Route           RouteFacts
	Reply           ReplyPlanFacts
	Conversation    ConversationFacts
	Group           SessionGroup // zero of direct conversations
	Sender          string
}

// SessionGroup is the group of a session.
type SessionGroup struct {
	Kind  ChatType
	ID    string
	Label string
}

// Settings gives the policy for a place, and with it the agent that answers there. Fields are resolved one by one: thread, conversation, account, channel, default.
type Settings interface {
	Policy(PolicyQuery) Policy
}

// PolicyQuery is the place that a policy is for.
type PolicyQuery struct {
	Channel, Account, Conversation, Parent, Thread string
	Kind                                           ChatType
}
