package channel

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Keys of settings below a channel. They are also the keys of [AccessFacts.Sources] and [Policy.Sources].
const (
	keyDMPolicy       = "dm.policy"
	keyDMAllowFrom    = "dm.allow_from"
	keyGroupPolicy    = "groups.policy"
	keyGroupAllowFrom = "groups.allow_from"
	keyOnly           = "groups.only"
	keyEnabled        = "groups.enabled"
	keyRequireMention = "groups.require_mention"
	keyUnmentioned    = "unmentioned"
	keyAllowBots      = "allow_bots"
	keyCommandMode    = "commands.mode"
	KeySenderRate     = "limits.sender_rate"
	KeyChatRate       = "limits.chat_rate"
)

// builtIn begins the path of a value that is not in the configuration.
const builtIn = "default:"

// Level is a level of the configuration that can have a setting.
type Level uint8

// The levels, the most specific last. A setting can have several of them.
const (
	OfChannel Level = 1 << iota // channels.telegram.…, and of an account, channels.telegram.accounts.work.…
	OfDirect                    // channels.telegram.dm.42.…
	OfGroup                     // channels.telegram.groups.-100.…
	OfThread                    // channels.telegram.groups.-100.threads.7.…
)

// Place is the settings at one level of the configuration. A zero field is not set, so the next level decides. An empty list that is not
// nil is set: it has no entries.
type Place struct {
	DMPolicy       PolicyKind      `key:"dm.policy" policy:"DM" levels:"accounts" oneof:"disabled open allowlist pairing" help:"who may talk in direct conversations; unset: no one"`
	DMAllowFrom    []string        `key:"dm.allow_from" levels:"accounts" help:"ids of people, or role:… for a role of the platform"`
	GroupPolicy    PolicyKind      `key:"groups.policy" policy:"Group" levels:"groups" oneof:"disabled open allowlist" help:"who may talk in groups; unset: no one"`
	GroupAllowFrom []string        `key:"groups.allow_from" levels:"groups" help:"ids of people; inherit: dm.allow_from"`
	Only           []string        `key:"groups.only" levels:"accounts" help:"ids of the groups where the agent talks; unset: all"`
	Enabled        *bool           `key:"groups.enabled" policy:"RouteAllowed" levels:"conversations" help:"the agent talks in this group or thread"`
	RequireMention *bool           `key:"groups.require_mention" levels:"groups" help:"the agent answers only messages that address it"`
	Unmentioned    UnmentionedMode `key:"unmentioned" levels:"groups" oneof:"history drop observe" help:"other messages: kept for the next mention, dropped, or read without an answer"`
	Patterns       []string        `key:"mentions.patterns" levels:"groups" help:"names that address the agent anywhere in a text"`
	Implicit       []MentionKind   `key:"implicit_mentions" levels:"groups" oneof:"reply_to_bot quoted_bot bot_thread native" help:"what else addresses the agent"`
	MatchMutable   *bool           `key:"match_mutable" help:"lists also match names and handles, which people can change"`
	AllowBots      AllowBots       `key:"allow_bots" oneof:"none mentions all" help:"other bots that may talk; mentions: if they mention the agent"`
	Visibility     Visibility      `key:"context_visibility" oneof:"all allowlist allowlist_quote" help:"what the agent sees of people who may not talk: all, nothing, or replied-to messages"`
	CommandMode    CommandMode     `key:"commands.mode" oneof:"authorizers senders off" help:"who may give commands: people on the lists, all senders, or no one"`
	Users          []string        `key:"commands.users" help:"ids of people who may give commands of users"`
	Operators      []string        `key:"commands.operators" help:"the same of operators, who also approve tools"`
	Admins         []string        `key:"commands.admins" help:"the same for all commands"`
	Debounce       *time.Duration  `key:"debounce" help:"messages of one sender within this time count as one"`
	ErrorNotice    *bool           `key:"error_notice" help:"tell people why there is no answer"`
	OnBusy         string          `key:"on_busy" oneof:"queue reject interrupt steer" help:"what a message does while its session is busy"`
	Agent          string          `key:"agent" help:"agent that answers"`
	SystemPrompt   *string         `key:"system_prompt" help:"instructions added to those of the agent"`
	Timezone       string          `key:"timezone" check:"timezone" help:"time zone of dates, such as Europe/Berlin; unset: the agent's"`
	Greeting       *string         `key:"greeting" help:"answer to /start; with \"\" the agent answers"`
	SenderRate     *int            `key:"limits.sender_rate" min:"0" max:"1000000" levels:"accounts" help:"messages a minute of one sender; 0: unlimited"`
	SenderBurst    *int            `key:"limits.sender_burst" min:"0" max:"1000000" levels:"accounts" help:"messages of one sender at once"`
	ChatRate       *int            `key:"limits.chat_rate" min:"0" max:"1000000" levels:"accounts" help:"messages a minute of one conversation; 0: unlimited"`
	SenderIDs      string          `key:"log.sender_ids" levels:"accounts" oneof:"plain none" help:"ids of senders in the log"`
	Previews       *bool           `key:"log.previews" levels:"accounts" help:"first words of messages in the log (debug)"`
}

// Setting is a setting that every channel has.
type Setting struct {
	Key     string // below the channel: "dm.policy"
	Help    string // one sentence without a full stop
	Default string // as written in a configuration; "" is none
	OneOf   []string
	Levels  Level

	field  string // of Place
	policy string // the field of Policy
}

// SettingsTable returns all settings that every channel has, in the order of the fields of [Place].
func SettingsTable() []Setting { return slices.Clone(settingsTable) }

// At returns the key of the setting at one level. In a group and a thread, the keys have no "groups.". ok is false if the level cannot have
// the setting.
func (s Setting) At(l Level) (key string, ok bool) {
	key = s.Key
	if l&(OfGroup|OfThread) != 0 {
		key = strings.TrimPrefix(s.Key, "groups.")
	}
	return key, s.Levels&l != 0
}

// in returns the setting's field of a place.
func (s Setting) in(p *Place) reflect.Value { return reflect.ValueOf(p).Elem().FieldByName(s.field) }

// Text returns the value of a place as it is written in a configuration; the entries of a list are joined with ", ". ok is false if the place
// has no value.
func (s Setting) Text(p *Place) (text string, ok bool) {
	v := s.in(p)
	switch {
	case v.IsZero():
		return "", false
	case v.Kind() == reflect.Slice:
		return strings.Join(entries(v), ", "), true
	}
	return fmt.Sprint(reflect.Indirect(v).Interface()), true
}

// entries returns the entries of a list.
func entries(list reflect.Value) (texts []string) {
	for i := range list.Len() {
		texts = append(texts, list.Index(i).String())
	}
	return texts
}

// Check returns an error if a list of a place has an entry that means nothing there. The error says what is expected, without the path of the
// setting.
func (s Setting) Check(p *Place) error {
	list := s.in(p)
	if list.Kind() != reflect.Slice {
		return nil
	}
	for _, entry := range entries(list) {
		switch {
		case len(s.OneOf) > 0 && !slices.Contains(s.OneOf, entry):
			return fmt.Errorf("%q is invalid; expected one of %s", entry, strings.Join(s.OneOf, ", "))
		case strings.TrimSpace(entry) != entry || entry == "":
			return fmt.Errorf("the entry %q is empty, or has spaces around it", entry)
		case entry == Anyone && strings.HasPrefix(s.Key, "commands."):
			return errors.New(`"*" would give commands to everybody; set commands.mode: senders to give them to all admitted senders`)
		case entry == Inherit && s.Key == keyGroupAllowFrom && list.Len() > 1:
			return errors.New("inherit must be the only entry, because it is the whole list of dm")
		case entry == Inherit && s.Key == keyDMAllowFrom:
			return errors.New("inherit works only in groups.allow_from")
		}
	}
	return nil
}

// CheckTimezone returns an error that says what is expected if there is no time zone of this name.
func CheckTimezone(name string) error {
	if _, err := time.LoadLocation(name); err != nil || name == "" {
		return fmt.Errorf("%q is not a time zone; expected a name such as Europe/Berlin, UTC, or Local for the server's", name)
	}
	return nil
}

// builtInPlace has the defaults of all settings.
var builtInPlace = &Place{
	Enabled:        new(true),
	RequireMention: new(true),
	Unmentioned:    UnmentionedHistory,
	Implicit:       []MentionKind{ReplyToBot, QuotedBot, BotThread, Native},
	MatchMutable:   new(false),
	AllowBots:      BotsNone,
	Visibility:     VisibleAllowlistQuote,
	CommandMode:    CommandsAuthorizers,
	Debounce:       new(time.Duration(0)),
	ErrorNotice:    new(true),
	OnBusy:         "queue",
	Greeting:       new("Hello! Write me a message, and I will answer."),
	SenderRate:     new(20),
	SenderBurst:    new(10),
	ChatRate:       new(60),
	SenderIDs:      "plain",
	Previews:       new(false),
}

// settingsTable has the fields of [Place]. Their tags are those of [Setting]; policy is the field of [Policy] if that has another name.
var settingsTable = func() (table []Setting) {
	levels := map[string]Level{
		"": OfChannel | OfDirect | OfGroup | OfThread, "accounts": OfChannel, "groups": OfChannel | OfGroup | OfThread, "conversations": OfGroup | OfThread,
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Place]()) {
		s := Setting{
			Key: f.Tag.Get("key"), Help: f.Tag.Get("help"), OneOf: strings.Fields(f.Tag.Get("oneof")), Levels: levels[f.Tag.Get("levels")],
			field: f.Name, policy: cmp.Or(f.Tag.Get("policy"), f.Name),
		}
		s.Default, _ = s.Text(builtInPlace)
		table = append(table, s)
	}
	return table
}()
