package config

import (
	"cmp"
	"errors"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/discord"
	"github.com/lingserve/lingserve/channel/feishu"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/channel/telegram"
	"github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/yaml"
)

// Channel is one login of a configured channel, with the settings of the channel itself. [Config.Access] has the access rules and the
// agents.
type Channel struct {
	Name    string // the key below "channels", also in addresses
	Type    string // one of [ChannelTypes]
	Account string // "" if there is one account
	At      string // its position: "lingserve.yaml:5:3"; "" if it is not in the file

	// The settings of its type; those of the others are zero. The fields are named after the types.
	Telegram telegram.Settings
	Webhook  webhook.Settings
	Slack    slack.Settings
	Feishu   feishu.Settings
	Discord  discord.Settings
}

// Where is what errors call the channel: "channels.telegram", "channels.telegram.accounts.work".
func (c Channel) Where() string { return yaml.Path(c.path()...) }

func (c Channel) path() []string { return c.place().Path() }

// place names the settings of the login that every channel has.
func (c Channel) place() channel.PlaceName {
	return channel.PlaceName{Level: channel.OfChannel, Channel: c.Name, Account: c.Account}
}

// channels begins the keys of settings of channels.
const channels = "channels."

// channelType is a kind of channel.
type channelType struct {
	name    string
	shipped *channel.Place // its own defaults
	always  bool           // it exists without a configuration, too
}

// channelTypes are the kinds of channels. A new one needs a line here, a field of [Channel], and a line in channelMakers of cmd/server.
var channelTypes = []channelType{
	{name: "telegram"},
	{name: "webhook"},
	{name: "slack"},
	{name: "feishu"},
	{name: "discord"},
	{name: "web", always: true, shipped: web.Shipped()},
	{name: "cli", always: true, shipped: &channel.Place{
		DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{"local"}, Admins: []string{"local"}, OnBusy: "steer", Greeting: new(""),
		SenderRate: new(0), ChatRate: new(0), // a pipe of a hundred lines expects a hundred answers
	}},
}

// ChannelTypes returns the names of the kinds of channels. A channel of such a name is of this kind; others have a setting type.
func ChannelTypes() []string {
	names := make([]string, len(channelTypes))
	for i, t := range channelTypes {
		names[i] = t.name
	}
	return names
}

func typeOfChannel(name string) (channelType, bool) {
	return lookup(channelTypes, func(t channelType) bool { return t.name == name })
}

// addDefaults adds the defaults of a channel of this type.
func (t channelType) addDefaults(name string, to channel.Configuration) {
	shipped := *cmp.Or(t.shipped, &channel.Place{})
	shipped.Agent = DefaultAgent
	to[channel.PlaceName{Channel: name}] = &shipped
}

// settings are those of a channel that only channels of its type have.
func (t channelType) settings(ch *Channel) []Setting {
	field := reflect.ValueOf(ch).Elem().FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, t.name) })
	if !field.IsValid() {
		return nil
	}
	return fileSettingsOf(ch.path(), field.Addr().Interface())
}

// shippedAccess returns the access rules that hold without a configuration.
func shippedAccess() channel.Configuration {
	access := channel.Configuration{}
	for _, t := range channelTypes {
		if t.always {
			t.addDefaults(t.name, access)
		}
	}
	return access
}

// addChannel adds a channel with its accounts.
func (l *loader) addChannel(at, n *yaml.Node) bool {
	ch := &Channel{Name: at.Text, At: l.position(at)}
	typeSetting := fileSetting(append(ch.path(), "type"), "kind of the channel", &ch.Type)
	kind, reserved := typeOfChannel(ch.Name)
	if reserved {
		typeSetting.OneOf, typeSetting.optional = []string{kind.name}, true
	} else {
		typeSetting.OneOf = ChannelTypes()
		written := n.Get("type")
		if written == nil {
			l.Errorf(at, channels+ch.Name, "has no type; expected one of %s%s", strings.Join(ChannelTypes(), ", "), edits.Suggest(ch.Name, ChannelTypes(), ""))
			return false
		}
		if kind, reserved = typeOfChannel(written.Text); !reserved {
			l.Errorf(written, typeSetting.Key, "%v", noneOf(written.Text, ChannelTypes()))
			return false
		}
	}
	ch.Type = kind.name
	own := kind.settings(ch)
	kind.addDefaults(ch.Name, l.c.Access)
	l.add(typeSetting)
	l.add(own...)
	l.addPlaces(kind, ch.place(), n)
	accounts := 0
	l.sections[yaml.Path(append(ch.path(), "accounts")...)] = true
	for at, n := range n.Get("accounts").Members() {
		if !providerName.MatchString(at.Text) {
			key := yaml.Path(append(ch.path(), "accounts", at.Text)...)
			l.Errorf(at, key, "invalid name; expected %s", nameRule)
			l.invalid[key] = true
			continue
		}
		l.addAccount(at, n, kind, *ch, own)
		accounts++
	}
	if accounts == 0 {
		l.later = append(l.later, func() { l.c.Channels = append(l.c.Channels, *ch) })
	}
	return true
}

// addAccount adds an account of a channel. What the account does not set is that of its channel.
func (l *loader) addAccount(at, n *yaml.Node, kind channelType, account Channel, ofChannel []Setting) {
	account.Account, account.At = at.Text, l.position(at)
	own := kind.settings(&account)
	for i := range own {
		own[i].inherits = &ofChannel[i]
	}
	l.add(own...)
	l.addPlaces(kind, account.place(), n)
	l.later = append(l.later, func() { l.c.Channels = append(l.c.Channels, account) })
}

// addPlaces adds the settings that every channel has, of a channel or an account, and of its conversations and threads.
func (l *loader) addPlaces(kind channelType, of channel.PlaceName, n *yaml.Node) {
	l.addPlace(kind, of)
	path := of.Path()
	for of.Conversation = range l.conversations(n, path, "dm") {
		of.Level = channel.OfDirect
		l.addPlace(kind, of)
	}
	for id, n := range l.conversations(n, path, "groups") {
		of.Level, of.Conversation, of.Thread = channel.OfGroup, id, ""
		l.addPlace(kind, of)
		l.sections[yaml.Path(append(of.Path(), "threads")...)] = true
		for k := range n.Get("threads").Members() {
			of.Level, of.Thread = channel.OfThread, k.Text
			l.addPlace(kind, of)
		}
	}
}

// conversations yields the conversations in a section of a channel. They are mappings beside the settings.
func (l *loader) conversations(n *yaml.Node, path []string, section string) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		for k, v := range n.Get(section).Members() {
			isSetting := l.known[yaml.Path(append(slices.Clip(path), section, k.Text)...)]
			if !isSetting && v.Kind == yaml.Mapping && !yield(k.Text, v) {
				return
			}
		}
	}
}

// addPlace adds the settings that every channel has, at one level. A channel shows the defaults too, the other levels what is set.
func (l *loader) addPlace(kind channelType, name channel.PlaceName) {
	to := &channel.Place{}
	l.c.Access[name] = to
	fields, path := settingsOf(nil, to), name.Path()
	for i, policy := range channel.SettingsTable() {
		key, ok := policy.At(name.Level)
		if !ok {
			continue
		}
		s := fields[i]
		s.path = slices.Concat(path, strings.Split(key, "."))
		s.Key, s.fileOnly = yaml.Path(s.path...), true
		s.Default = policy.Default
		if shipped, ok := policy.Text(l.c.Access[channel.PlaceName{Channel: name.Channel}]); ok {
			s.Default = shipped
		}
		if name.Level != channel.OfChannel || name.Account != "" {
			s.Default = ""
		}
		s.optional = s.Default == ""
		s.verify = func() error { return policy.Check(to) }
		l.add(s)
	}
}

// finishChannels checks the access rules of all channels together.
func (l *loader) finishChannels() {
	var names []string
	for _, a := range l.c.Agents {
		names = append(names, a.Name)
	}
	for _, s := range l.c.settings {
		if name := s.text(); s.path[0] == "channels" && s.path[len(s.path)-1] == "agent" && name != "" && !slices.Contains(names, name) {
			l.Add(settingError(l.c.sources[s.Key].at, s.Key, noneOf(name, names).Error()))
		}
	}
	if l.NumProblems() > 0 {
		return
	}
	many, ok := l.c.Access.Check().(interface{ Unwrap() []error })
	if !ok {
		return
	}
	for _, err := range many.Unwrap() {
		e := &yaml.Error{File: l.File, Message: err.Error()}
		if s, ok := errors.AsType[*channel.SettingError](err); ok {
			e.File, e.Path, e.Message = cmp.Or(l.c.sources[s.Path].at, l.File), s.Path, s.Message
		}
		l.Add(e)
	}
}
