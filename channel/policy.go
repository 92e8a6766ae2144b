package channel

import (
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/tool"
)

// Policy is the settings of one place, and where each came from. The zero value admits no one. Its lists and its map are shared: they
// are read, never changed.
type Policy struct {
	DM             PolicyKind
	DMAllowFrom    []string // nil is no list
	Group          PolicyKind
	GroupAllowFrom []string
	Only           []string // the groups where the agent talks, if they have no setting; nil: all
	RouteAllowed   bool     // the conversation, or the thread, is among those that the agent talks in
	RequireMention bool
	Unmentioned    UnmentionedMode
	Patterns       []string // names of the agent in texts
	AllowBots      AllowBots
	Implicit       []MentionKind // that are allowed
	Visibility     Visibility
	CommandMode    CommandMode
	Users          []string // nil is not configured
	Operators      []string
	Admins         []string
	MatchMutable   bool
	ErrorNotice    bool
	OnBusy         string
	SystemPrompt   string
	Timezone       string        // of the dates that the agent reads; "" is the agent's
	Greeting       string        // the answer to /start; "" gives it to the agent
	SenderRate     int           // messages of a sender that are answered in a minute; 0 is no limit
	SenderBurst    int           // and at once
	ChatRate       int           // messages of a conversation that are answered in a minute; 0 is no limit
	Agent          string        // "" is left to the routes
	Debounce       time.Duration // 0 is off
	SenderIDs      string        // in logs: plain or none
	Previews       bool          // of messages, in logs

	// Commands reports whether the agents have the command that a text begins with; exact excludes names that are only close to one. nil:
	// they have all.
	Commands func(text string, exact bool) bool

	Sources map[string]string // of a setting, named by its key in [SettingsTable]: the path it was found at
}

// Anyone is the entry of a list that stands for everybody. It counts under the policy open alone.
const Anyone = "*"

// Inherit is the one entry of a group's list that says: the list of direct conversations.
const Inherit = "inherit"

// rolePrefix begins an entry that names a role of the platform instead of someone.
const rolePrefix = "role:"

// Access compares who writes with the settings. m is what the channel knows of mentions; which implicit kinds are allowed, the
// settings say.
func (p Policy) Access(who SenderFacts, m MentionFacts) AccessFacts {
	m.AllowedImplicit = p.Implicit
	return AccessFacts{
		DM: DMFacts{
			Policy: p.DM, Sender: p.listed(p.DMAllowFrom, who), Paired: who.Paired, AllowFrom: p.DMAllowFrom,
		},
		Group: GroupFacts{
			Policy: p.Group, RouteAllowed: p.RouteAllowed, Sender: p.listed(p.GroupAllowFrom, who), AllowFrom: p.GroupAllowFrom,
			RequireMention: p.RequireMention, Unmentioned: p.Unmentioned,
		},
		Commands: CommandFacts{Mode: p.CommandMode, Known: p.Commands, Authorizers: []Authorizer{
			{Name: "users", Role: tool.User, Configured: len(p.Users) > 0, Allowed: p.listed(p.Users, who)},
			{Name: "operators", Role: tool.Operator, Configured: len(p.Operators) > 0, Allowed: p.listed(p.Operators, who)},
			{Name: "admins", Role: tool.Admin, Configured: len(p.Admins) > 0, Allowed: p.listed(p.Admins, who)},
		}},
		Mentions:   m,
		AllowBots:  p.AllowBots,
		Visibility: p.Visibility,
		Sources:    p.Sources,
	}
}

// Sees says whether words of who would be let in as a message in a conversation of this kind: what SenderAllowed of a quote, a
// forward and a thread is. Of someone without an id it is not known.
func (p Policy) Sees(kind ChatType, who SenderFacts) Tri {
	if who.ID == "" {
		return Unknown
	}
	if _, reason := senderGate(kind, p.Access(who, MentionFacts{})); reason != "" {
		return No
	}
	return Yes
}

// listed says whether an entry is who. [Anyone] is no one here: it has its meaning from the policy. Anybody may take a name or a handle, so that they
// count only with match_mutable.
func (p Policy) listed(list []string, who SenderFacts) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		role, isRole := strings.CutPrefix(entry, rolePrefix)
		handle := strings.TrimPrefix(entry, "@")
		isHandle := func(name string) bool { return strings.EqualFold(strings.TrimPrefix(name, "@"), handle) }
		switch {
		case entry == "" || entry == Anyone:
			return false
		case entry == who.ID || isRole && slices.Contains(who.Roles, role):
			return true
		}
		return p.MatchMutable && handle != "" && (isHandle(who.Username) || isHandle(who.Name))
	})
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
