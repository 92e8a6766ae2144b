package channel

// Policy is the settings of one place, and where each came from.
type Policy struct {
	DM             PolicyKind
	DMAllowFrom    []string // nil is no list
	Group          PolicyKind
	GroupAllowFrom []string
	RouteAllowed   bool
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
	Sources        map[string]string // of a field: the path of its setting
}

// Evaluate decides the gates self to mention: it is pure.
func Evaluate(f Facts) Decision { panic("not yet") }

// Decision is what the gates say.
type Decision struct {
	Admission         Admission
	Verdicts          []Verdict // of every gate, in order
	Addressed         bool
	CommandAuthorized bool
	Role              string
}

// BuildContext maps facts to what the agent is told: no I/O, no clock, no log.
func BuildContext(f Facts) (*TurnContext, error) { panic("not yet") }
