package channel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/turn"
)

// Keys of the settings, as they stand below a channel. [AccessFacts.Sources] and [Policy.Sources] have them as keys, too.
const (
	keyDMPolicy       = "dm.policy"
	keyDMAllowFrom    = "dm.allow_from"
	keyGroupPolicy    = "groups.policy"
	keyGroupAllowFrom = "groups.allow_from"
	keyOnly           = "groups.only"
	keyEnabled        = "groups.enabled"
	keyRequireMention = "groups.require_mention"
	keyUnmentioned    = "unmentioned"
	keyPatterns       = "mentions.patterns"
	keyImplicit       = "implicit_mentions"
	keyMatchMutable   = "match_mutable"
	keyAllowBots      = "allow_bots"
	keyVisibility     = "context_visibility"
	keyCommandMode    = "commands.mode"
	keyUsers          = "commands.users"
	keyOperators      = "commands.operators"
	keyAdmins         = "commands.admins"
	keyDebounce       = "debounce"
	keyErrorNotice    = "error_notice"
	keyOnBusy         = "on_busy"
	keyAgent          = "agent"
	keySystemPrompt   = "system_prompt"
	keySenderIDs      = "log.sender_ids"
	keyPreviews       = "log.previews"
	keyTimezone       = "timezone"
	keyGreeting       = "greeting"
	KeySenderRate     = "limits.sender_rate"
	keySenderBurst    = "limits.sender_burst"
	KeyChatRate       = "limits.chat_rate"
)

// builtIn begins the path of a value that no configuration supplied.
const builtIn = "default:"

// source is the path of the setting that supplied a value.
func source(a *AccessFacts, key string) string {
	if path, ok := a.Sources[key]; ok {
		return path
	}
	if path, ok := builtInPaths[key]; ok {
		return path
	}
	return builtIn + key
}

// builtInPaths keeps verdicts, of which every event has six, from being put together each time.
var builtInPaths = func() map[string]string {
	paths := make(map[string]string, len(settingsTable))
	for _, s := range settingsTable {
		paths[s.Key] = builtIn + s.Key
	}
	return paths
}()

// Level is where in a configuration a setting may stand.
type Level uint8

// The levels, the most specific last. Levels of one setting are added.
const (
	OfChannel Level = 1 << iota // channels.telegram.…
	OfAccount                   // channels.telegram.accounts.work.…
	OfDirect                    // channels.telegram.dm.42.…
	OfGroup                     // channels.telegram.groups.-100.…
	OfThread                    // channels.telegram.groups.-100.threads.7.…
)

const (
	everywhere  = OfChannel | OfAccount | OfDirect | OfGroup | OfThread
	ofAccounts  = OfChannel | OfAccount
	aboutGroups = OfChannel | OfAccount | OfGroup | OfThread
)

// Place is what the configuration says at one level. What is zero there says nothing, and the next level counts; a list that is empty
// and not nil says that nobody is on it.
type Place struct {
	DMPolicy       PolicyKind
	DMAllowFrom    []string
	GroupPolicy    PolicyKind
	GroupAllowFrom []string
	Only           []string // conversations that the agent talks in
	Enabled        *bool    // of one conversation or thread
	RequireMention *bool
	Unmentioned    UnmentionedMode
	Patterns       []string
	Implicit       []MentionKind
	MatchMutable   *bool
	AllowBots      AllowBots
	Visibility     Visibility
	CommandMode    CommandMode
	Users          []string
	Operators      []string
	Admins         []string
	Debounce       *time.Duration
	ErrorNotice    *bool
	OnBusy         string
	Agent          string
	SystemPrompt   *string
	Timezone       string
	Greeting       *string
	SenderRate     *int // messages a minute; 0 is no limit
	SenderBurst    *int
	ChatRate       *int
	SenderIDs      string
	Previews       *bool
}

// Setting is a setting that every channel has.
type Setting struct {
	Key     string // below the channel: "dm.policy"
	Help    string // one sentence without a full stop
	Default string // as it would be written; "" is nothing
	OneOf   []string
	Levels  Level

	kind string
	set  func(*Place, string) error   // nil for a list
	list func(*Place, []string) error // nil for what is none
	has  func(*Place) bool            // says whether the place says something
	into func(*Policy, *Place)        // what it says
}

// SettingsTable returns all settings that every channel has, in the order in which they are shown.
func SettingsTable() []Setting { return slices.Clone(settingsTable) }

// Kind names what is expected of the value, for people: "text", "list", "true or false", "duration", or the values that there are.
func (s Setting) Kind() string {
	if len(s.OneOf) > 0 && !s.IsList() {
		return strings.Join(s.OneOf, ", ")
	}
	return s.kind
}

// IsList says that the value is a list.
func (s Setting) IsList() bool { return s.list != nil }

// At is the key of the setting at one level: what is about groups stands without "groups." in one of them. ok is false where the
// setting may not stand there.
func (s Setting) At(l Level) (key string, ok bool) {
	if l&(OfGroup|OfThread) != 0 {
		return strings.TrimPrefix(s.Key, "groups."), s.Levels&l != 0
	}
	return s.Key, s.Levels&l != 0
}

// Set understands a value and puts it into the place. An error says what was expected; where it stands, the caller knows.
func (s Setting) Set(p *Place, value string) error {
	if s.set == nil {
		return s.SetList(p, []string{value})
	}
	if len(s.OneOf) > 0 && !slices.Contains(s.OneOf, value) {
		if s.Key == keyGroupPolicy && value == string(PolicyPairing) {
			return errGroupPairing
		}
		return fmt.Errorf("%q is invalid; expected one of %s", value, strings.Join(s.OneOf, ", "))
	}
	return s.set(p, value)
}

// SetList understands the entries of a list and puts them into the place. No entries at all are a list that nobody is on.
func (s Setting) SetList(p *Place, entries []string) error {
	if s.list == nil {
		return fmt.Errorf("expected %s, got a list", s.Kind())
	}
	for _, entry := range entries {
		if len(s.OneOf) > 0 && !slices.Contains(s.OneOf, entry) {
			return fmt.Errorf("%q is invalid; expected one of %s", entry, strings.Join(s.OneOf, ", "))
		}
	}
	if err := checkList(s.Key, entries); err != nil {
		return err
	}
	return s.list(p, entries)
}

var settingsTable = []Setting{
	setting(keyDMPolicy, ofAccounts, "", "who may talk in direct conversations; unset: no one",
		enumOf(func(p *Place) *PolicyKind { return &p.DMPolicy }, func(p *Policy) *PolicyKind { return &p.DM },
			PolicyDisabled, PolicyOpen, PolicyAllowlist, PolicyPairing)),
	setting(keyDMAllowFrom, ofAccounts, "", "ids of people, or role:… for a role of the platform",
		listOf(func(p *Place) *[]string { return &p.DMAllowFrom }, func(p *Policy) *[]string { return &p.DMAllowFrom })),
	setting(keyGroupPolicy, aboutGroups, "", "who may talk in groups; unset: no one",
		enumOf(func(p *Place) *PolicyKind { return &p.GroupPolicy }, func(p *Policy) *PolicyKind { return &p.Group },
			PolicyDisabled, PolicyOpen, PolicyAllowlist)),
	setting(keyGroupAllowFrom, aboutGroups, "", "ids of people; inherit: dm.allow_from",
		listOf(func(p *Place) *[]string { return &p.GroupAllowFrom }, func(p *Policy) *[]string { return &p.GroupAllowFrom })),
	setting(keyOnly, ofAccounts, "", "ids of the groups where the agent talks; unset: all",
		listOf(func(p *Place) *[]string { return &p.Only }, nil)),
	setting(keyEnabled, OfGroup|OfThread, "true", "the agent talks in this group or thread",
		flagOf(func(p *Place) **bool { return &p.Enabled }, func(p *Policy) *bool { return &p.RouteAllowed })),
	setting(keyRequireMention, aboutGroups, "true", "the agent answers only messages that address it",
		flagOf(func(p *Place) **bool { return &p.RequireMention }, func(p *Policy) *bool { return &p.RequireMention })),
	setting(keyUnmentioned, aboutGroups, "history", "other messages: kept for the next mention, dropped, or read without an answer",
		enumOf(func(p *Place) *UnmentionedMode { return &p.Unmentioned }, func(p *Policy) *UnmentionedMode { return &p.Unmentioned },
			UnmentionedHistory, UnmentionedDrop, UnmentionedObserve)),
	setting(keyPatterns, aboutGroups, "", "names that address the agent anywhere in a text",
		listOf(func(p *Place) *[]string { return &p.Patterns }, func(p *Policy) *[]string { return &p.Patterns })),
	setting(keyImplicit, aboutGroups, "reply_to_bot, quoted_bot, bot_thread, native", "what else addresses the agent",
		enumsOf(func(p *Place) *[]MentionKind { return &p.Implicit }, func(p *Policy) *[]MentionKind { return &p.Implicit },
			ReplyToBot, QuotedBot, BotThread, Native)),
	setting(keyMatchMutable, everywhere, "false", "lists also match names and handles, which people can change",
		flagOf(func(p *Place) **bool { return &p.MatchMutable }, func(p *Policy) *bool { return &p.MatchMutable })),
	setting(keyAllowBots, everywhere, "none", "other bots that may talk; mentions: if they mention the agent",
		enumOf(func(p *Place) *AllowBots { return &p.AllowBots }, func(p *Policy) *AllowBots { return &p.AllowBots },
			BotsNone, BotsMentions, BotsAll)),
	setting(keyVisibility, everywhere, "allowlist_quote", "what the agent sees of people who may not talk: all, nothing, or replied-to messages",
		enumOf(func(p *Place) *Visibility { return &p.Visibility }, func(p *Policy) *Visibility { return &p.Visibility },
			VisibleAll, VisibleAllowlist, VisibleAllowlistQuote)),
	setting(keyCommandMode, everywhere, "authorizers", "who may give commands: people on the lists, all senders, or no one",
		enumOf(func(p *Place) *CommandMode { return &p.CommandMode }, func(p *Policy) *CommandMode { return &p.CommandMode },
			CommandsAuthorizers, CommandsSenders, CommandsOff)),
	setting(keyUsers, everywhere, "", "ids of people who may give commands of users",
		listOf(func(p *Place) *[]string { return &p.Users }, func(p *Policy) *[]string { return &p.Users })),
	setting(keyOperators, everywhere, "", "the same of operators, who also approve tools",
		listOf(func(p *Place) *[]string { return &p.Operators }, func(p *Policy) *[]string { return &p.Operators })),
	setting(keyAdmins, everywhere, "", "the same for all commands",
		listOf(func(p *Place) *[]string { return &p.Admins }, func(p *Policy) *[]string { return &p.Admins })),
	setting(keyDebounce, everywhere, "0s", "messages of one sender within this time count as one",
		durationOf(func(p *Place) **time.Duration { return &p.Debounce }, func(p *Policy) *time.Duration { return &p.Debounce })),
	setting(keyErrorNotice, everywhere, "true", "tell people why there is no answer",
		flagOf(func(p *Place) **bool { return &p.ErrorNotice }, func(p *Policy) *bool { return &p.ErrorNotice })),
	setting(keyOnBusy, everywhere, "queue", "what a message does while its session is busy",
		oneOf(textOf(func(p *Place) *string { return &p.OnBusy }, func(p *Policy) *string { return &p.OnBusy }),
			string(turn.Queue), string(turn.Reject), string(turn.Interrupt), string(turn.Steer))),
	setting(keyAgent, everywhere, "", "agent that answers",
		textOf(func(p *Place) *string { return &p.Agent }, func(p *Policy) *string { return &p.Agent })),
	setting(keySystemPrompt, everywhere, "", "instructions added to those of the agent",
		optionalOf(func(p *Place) **string { return &p.SystemPrompt }, func(p *Policy) *string { return &p.SystemPrompt })),
	setting(keyTimezone, everywhere, "", "time zone of dates, such as Europe/Berlin; unset: the agent's",
		zoneOf(func(p *Place) *string { return &p.Timezone }, func(p *Policy) *string { return &p.Timezone })),
	setting(keyGreeting, everywhere, "Hello! Write me a message, and I will answer.", "answer to /start; with \"\" the agent answers",
		optionalOf(func(p *Place) **string { return &p.Greeting }, func(p *Policy) *string { return &p.Greeting })),
	setting(KeySenderRate, ofAccounts, strconv.Itoa(DefaultSenderRate), "messages a minute of one sender; 0: unlimited",
		countOf(func(p *Place) **int { return &p.SenderRate }, func(p *Policy) *int { return &p.Limits.SenderRate.PerMinute })),
	setting(keySenderBurst, ofAccounts, strconv.Itoa(DefaultSenderBurst), "messages of one sender at once",
		countOf(func(p *Place) **int { return &p.SenderBurst }, func(p *Policy) *int { return &p.Limits.SenderRate.Burst })),
	setting(KeyChatRate, ofAccounts, strconv.Itoa(DefaultChatRate), "messages a minute of one conversation; 0: unlimited",
		countOf(func(p *Place) **int { return &p.ChatRate }, func(p *Policy) *int { return &p.Limits.ChatRate.PerMinute })),
	setting(keySenderIDs, ofAccounts, "plain", "ids of senders in the log",
		oneOf(textOf(func(p *Place) *string { return &p.SenderIDs }, func(p *Policy) *string { return &p.SenderIDs }),
			"plain", "hash", "none")),
	setting(keyPreviews, ofAccounts, "false", "first words of messages in the log (debug)",
		flagOf(func(p *Place) **bool { return &p.Previews }, func(p *Policy) *bool { return &p.Previews })),
}

func setting(key string, levels Level, def, help string, s Setting) Setting {
	s.Key, s.Levels, s.Default, s.Help = key, levels, def, help
	return s
}

func textOf[T ~string](place func(*Place) *T, policy func(*Policy) *T) Setting {
	return Setting{
		kind: "text",
		set:  func(p *Place, v string) error { *place(p) = T(v); return nil },
		has:  func(p *Place) bool { return *place(p) != "" },
		into: func(to *Policy, p *Place) { *policy(to) = *place(p) },
	}
}

func enumOf[T ~string](place func(*Place) *T, policy func(*Policy) *T, values ...T) Setting {
	return oneOf(textOf(place, policy), values...)
}

func oneOf[T ~string](s Setting, values ...T) Setting {
	for _, v := range values {
		s.OneOf = append(s.OneOf, string(v))
	}
	return s
}

// zoneOf is the name of a time zone.
func zoneOf(place func(*Place) *string, policy func(*Policy) *string) Setting {
	s := textOf(place, policy)
	s.kind = "time zone"
	s.set = func(p *Place, v string) error {
		if err := CheckTimezone(v); err != nil {
			return err
		}
		*place(p) = v
		return nil
	}
	return s
}

// CheckTimezone returns an error that says what was expected where there is no time zone of this name.
func CheckTimezone(name string) error {
	if _, err := time.LoadLocation(name); err != nil || name == "" {
		return fmt.Errorf("%q is not a time zone; expected a name such as Europe/Berlin, UTC, or Local for the server's", name)
	}
	return nil
}

// optionalOf is a text that may be set to nothing.
func optionalOf(place func(*Place) **string, policy func(*Policy) *string) Setting {
	return Setting{
		kind: "text",
		set:  func(p *Place, v string) error { *place(p) = &v; return nil },
		has:  func(p *Place) bool { return *place(p) != nil },
		into: func(to *Policy, p *Place) { *policy(to) = **place(p) },
	}
}

func flagOf(place func(*Place) **bool, policy func(*Policy) *bool) Setting {
	return Setting{
		kind: "true or false",
		set: func(p *Place, v string) error {
			b, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("%q is invalid; expected true or false", v)
			}
			*place(p) = &b
			return nil
		},
		has:  func(p *Place) bool { return *place(p) != nil },
		into: func(to *Policy, p *Place) { *policy(to) = **place(p) },
	}
}

func durationOf(place func(*Place) **time.Duration, policy func(*Policy) *time.Duration) Setting {
	return Setting{
		kind: "duration",
		set: func(p *Place, v string) error {
			d, err := time.ParseDuration(v)
			if err != nil || d < 0 {
				return fmt.Errorf("%q is invalid; expected a duration, such as 2s or 500ms", v)
			}
			*place(p) = &d
			return nil
		},
		has:  func(p *Place) bool { return *place(p) != nil },
		into: func(to *Policy, p *Place) { *policy(to) = **place(p) },
	}
}

// maxCount bounds what is counted by the minute.
const maxCount = 1_000_000

// countOf is a number. In a policy, 0 says nothing, so that no limit is negative there.
func countOf(place func(*Place) **int, policy func(*Policy) *int) Setting {
	return Setting{
		kind: "number",
		set: func(p *Place, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 || n > maxCount {
				return fmt.Errorf("%q is invalid; expected a whole number from 0 to %d", v, maxCount)
			}
			*place(p) = &n
			return nil
		},
		has: func(p *Place) bool { return *place(p) != nil },
		into: func(to *Policy, p *Place) {
			n := **place(p)
			if n == 0 {
				n = -1
			}
			*policy(to) = n
		},
	}
}

// listOf is one whose entries have no values of their own. Without policy it is read otherwise.
func listOf(place func(*Place) *[]string, policy func(*Policy) *[]string) Setting {
	return enumsOf(place, policy)
}

func enumsOf[T ~string](place func(*Place) *[]T, policy func(*Policy) *[]T, values ...T) Setting {
	return oneOf(Setting{
		kind: "list",
		list: func(p *Place, entries []string) error {
			l := make([]T, len(entries))
			for i, entry := range entries {
				l[i] = T(entry)
			}
			*place(p) = l
			return nil
		},
		has: func(p *Place) bool { return *place(p) != nil },
		into: func(to *Policy, p *Place) {
			if policy != nil {
				*policy(to) = *place(p)
			}
		},
	}, values...)
}

// builtInPlace is the place that all others stand in.
var builtInPlace = func() *Place {
	p := new(Place)
	for _, s := range settingsTable {
		if s.Default == "" {
			continue
		}
		var err error
		if s.IsList() {
			err = s.SetList(p, strings.Split(s.Default, ", "))
		} else {
			err = s.Set(p, s.Default)
		}
		if err != nil {
			panic("channel: the default of " + s.Key + ": " + err.Error())
		}
	}
	return p
}()
