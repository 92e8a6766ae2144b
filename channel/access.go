package channel

import "github.com/lingserve/lingserve/tool"

// AccessFacts are what the gates decide by. [Policy.Access] fills them.
type AccessFacts struct {
	DM         DMFacts
	Group      GroupFacts
	Commands   CommandFacts
	Mentions   MentionFacts
	AllowBots  AllowBots
	Visibility Visibility
	Sources    map[string]string // of a deciding value: the path of its setting
}

// PolicyKind is who may talk.
type PolicyKind string

// The policies; "" is none, which admits no one.
const (
	PolicyDisabled  PolicyKind = "disabled"
	PolicyOpen      PolicyKind = "open"
	PolicyAllowlist PolicyKind = "allowlist"
	PolicyPairing   PolicyKind = "pairing"
)

// DMFacts are about direct conversations. A nil list of senders is none that is configured.
type DMFacts struct {
	Policy    PolicyKind
	Sender    bool // stands on the list
	Paired    Tri
	AllowFrom []string
}

// GroupFacts are about groups and channels.
type GroupFacts struct {
	Policy         PolicyKind
	RouteAllowed   bool
	Sender         bool // stands on the list
	AllowFrom      []string
	RequireMention bool
	Unmentioned    UnmentionedMode
}

// UnmentionedMode says what becomes of a message that does not address the agent.
type UnmentionedMode string

// The modes.
const (
	UnmentionedHistory UnmentionedMode = "history"
	UnmentionedDrop    UnmentionedMode = "drop"
	UnmentionedObserve UnmentionedMode = "observe"
)

// CommandMode says who may give commands.
type CommandMode string

// The modes.
const (
	CommandsAuthorizers CommandMode = "authorizers"
	CommandsSenders     CommandMode = "senders"
	CommandsOff         CommandMode = "off"
)

// CommandFacts are about commands.
type CommandFacts struct {
	Mode        CommandMode
	Authorizers []Authorizer
	// Known is [Policy.Commands].
	Known func(text string, exact bool) bool
}

// Authorizer is one list of those who may give commands.
type Authorizer struct {
	Name                string // "users", "operators", "admins"
	Role                tool.Role
	Configured, Allowed bool // someone is on the list; the sender is
}

// MentionKind is how an agent is addressed without its name.
type MentionKind string

// The kinds.
const (
	ReplyToBot MentionKind = "reply_to_bot"
	QuotedBot  MentionKind = "quoted_bot"
	BotThread  MentionKind = "bot_thread"
	Native     MentionKind = "native"
)

// MentionFacts are about who is addressed.
type MentionFacts struct {
	CanDetect       bool
	WasMentioned    bool // this agent, by name
	HasAnyMention   bool // of anybody
	Implicit        []MentionKind
	AllowedImplicit []MentionKind
}

// AllowBots says which bots may talk.
type AllowBots string

// The values.
const (
	BotsNone     AllowBots = "none"
	BotsMentions AllowBots = "mentions"
	BotsAll      AllowBots = "all"
)

// Visibility says what an agent sees of quotes, forwards and threads.
type Visibility string

// The values.
const (
	VisibleAll            Visibility = "all"
	VisibleAllowlist      Visibility = "allowlist"
	VisibleAllowlistQuote Visibility = "allowlist_quote"
)
