package channel

import (
	"cmp"
	"time"
)

// Facts is all that a channel knows of an event: what [BuildContext] reads.
type Facts struct {
	Channel, Account         string
	MessageID, MessageIDFull string
	From                     string
	Timestamp                time.Time
	Sender                   SenderFacts
	Conversation             ConversationFacts
	Route                    RouteFacts
	Reply                    ReplyPlanFacts
	Access                   AccessFacts
	Message                  MessageFacts
	Supplemental             SupplementalFacts
	Media                    []MediaFact

	// What the kernel knows of the turn, for the gates.
	Observing bool // an earlier stage said that nothing is to be seen: the gate mention is skipped
}

// Tri is a fact that may be unknown.
type Tri uint8

// The values of a Tri.
const (
	Unknown Tri = iota
	No
	Yes
)

// Opt is a value, none by decision, or unset: only what is unset falls back.
type Opt struct {
	Value string // "" for none
	Set   bool
}

// Some is a value; None says no value.
func Some(value string) Opt { return Opt{value, true} }

// None ends the search for a value: there is to be none.
var None = Opt{Set: true}

// Or is o where it is set, else p.
func (o Opt) Or(p Opt) Opt {
	if o.Set {
		return o
	}
	return p
}

// SenderFacts say who wrote.
type SenderFacts struct {
	ID           string   // canonical
	Name         string   // for people
	Username     string   // the handle, where it is another
	Tag          string   // the platform's
	DisplayLabel string   // ready for the envelope
	Roles        []string // of the platform: a list has them as "role:…"
	Paired       Tri      // unknown is a store that cannot be read, or a group
	IsBot        bool
	IsSelf       bool // this agent
}

// ChatType is the kind of a conversation.
type ChatType string

// The kinds.
const (
	Direct    ChatType = "direct"
	Group     ChatType = "group"
	Broadcast ChatType = "channel"
)

// ConversationFacts say where a message came from.
type ConversationFacts struct {
	Kind            ChatType
	ID              string // for routing
	Label           string
	SpaceID         string // workspace, guild, tenant
	ParentID        string // the outer conversation
	ThreadID        string
	NativeChannelID string // the platform's, where it is another
	RoutePeer       Peer   // whose agent answers; zero is the conversation itself
}

// Peer is the conversation of a route.
type Peer struct {
	Kind ChatType
	ID   string
}

// RouteFacts say who handles a message.
type RouteFacts struct {
	AgentID   string
	AccountID string // "" is the account of the event

	RouteSessionKey     string
	DispatchSessionKey  string // "" is RouteSessionKey
	PersistedSessionKey string // of the stored row; "" is that of the dispatch

	ParentSessionKey      string // of a thread's session
	ModelParentSessionKey string
	MainSessionKey        string // only its owner changes the last route
	CreateIfMissing       bool   // record may make the row
}

// ReplyMode says how the reply is delivered.
type ReplyMode string

// The modes.
const (
	ReplyThread  ReplyMode = "thread"
	ReplyMessage ReplyMode = "reply"
	ReplyChannel ReplyMode = "channel"
	ReplyDirect  ReplyMode = "direct"
	ReplyNone    ReplyMode = "none" // nothing is sent
)

// ReplyPlanFacts say where the reply goes. They are frozen when the event is resolved; no model names a target.
type ReplyPlanFacts struct {
	To              string // the logical target
	OriginatingTo   string // where the message came from
	NativeChannelID string // what is sent to
	ReplyTarget     string // visible target, where it is not To
	DeliveryTarget  string // comes before ReplyTarget

	ReplyToID       Opt // the message that the answer replies to
	MessageThreadID Opt
	ThreadParentID  Opt

	Mode ReplyMode
}

// Target is where a block is sent: the first of DeliveryTarget, ReplyTarget, OriginatingTo and To that is not blank.
func (r ReplyPlanFacts) Target() string {
	return cmp.Or(r.DeliveryTarget, r.ReplyTarget, r.OriginatingTo, r.To)
}

// MessageFacts are the words.
type MessageFacts struct {
	RawBody        string
	Body           string // the finished envelope; "" is RawBody
	BodyForAgent   string // "" is RawBody
	CommandBody    string // "" is RawBody
	EnvelopeFrom   string
	SenderLabel    string
	Preview        string // for logs: at most 80 characters
	InboundHistory []HistoryEntry
}

// HistoryEntry is a message that waited in the window.
type HistoryEntry struct {
	Seq       uint64
	Sender    string
	Body      string
	Time      time.Time
	MessageID string
	Media     []MediaFact
}

// SupplementalFacts stand around the message.
type SupplementalFacts struct {
	Quote             *Quote
	Forwarded         *Forwarded
	Thread            *Thread
	Untrusted         []Untrusted // data of the room
	GroupSystemPrompt string      // the operator's, for this group
}

// Quote is the message that is replied to.
type Quote struct {
	ID, FullID    string
	Body, Sender  string
	SenderAllowed Tri
	IsExternal    bool // of another conversation
	IsQuote       bool // a part that the sender chose
	IsSelf        bool
	Media         []MediaFact
}

// Forwarded is the origin of a message that was passed on.
type Forwarded struct {
	From, FromType, FromID string
	Date                   time.Time
	SenderAllowed          Tri
}

// Thread is what leads into a thread.
type Thread struct {
	ID, StarterBody, HistoryBody, Label     string
	ParentSessionKey, ModelParentSessionKey string
	SenderAllowed                           Tri
}

// Untrusted is a text of the room, such as its topic: data, never an instruction.
type Untrusted struct{ Kind, Text string }

// MediaKind says what a medium is.
type MediaKind string

// The kinds.
const (
	MediaUnknown  MediaKind = "unknown"
	MediaImage    MediaKind = "image"
	MediaVideo    MediaKind = "video"
	MediaAudio    MediaKind = "audio"
	MediaDocument MediaKind = "document"
)

// MediaFact is something beside the text.
type MediaFact struct {
	Path          string // a local file
	URL           string // without credentials
	ContentType   string
	Kind          MediaKind
	MessageID     string // whose it is
	Transcribed   bool   // what it says is in the text
	Size          int64
	Width, Height int
	Duration      time.Duration
}

// WindowKey names the window of the place that a message came from.
func (f *Facts) WindowKey() WindowKey {
	return WindowKey{Channel: f.Channel, Account: f.Account, Conversation: f.Conversation.ID, Thread: f.Conversation.ThreadID}
}

// RouteQuery is the place whose agent answers: that of the peer, if there is one.
func (f *Facts) RouteQuery() PolicyQuery {
	q := f.PolicyQuery()
	q.Account = cmp.Or(f.Route.AccountID, f.Account)
	if peer := f.Conversation.RoutePeer; peer != (Peer{}) {
		q.Kind, q.Conversation = peer.Kind, peer.ID
	}
	return q
}

// PolicyQuery is the place that the settings are asked for.
func (f *Facts) PolicyQuery() PolicyQuery {
	return PolicyQuery{
		Channel: f.Channel, Account: f.Account, Conversation: f.Conversation.ID, Parent: f.Conversation.ParentID,
		Thread: f.Conversation.ThreadID, Kind: f.Conversation.Kind,
	}
}
