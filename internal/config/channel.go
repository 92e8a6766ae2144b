package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/web"
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
	Telegram Telegram
	Webhook  Webhook
	Slack    Slack
	Feishu   Feishu
	Discord  Discord
}

// Where is what errors call the channel: "channels.telegram", "channels.telegram.accounts.work".
func (c Channel) Where() string { return yaml.Path(c.path()...) }

func (c Channel) path() []string {
	if c.Account == "" {
		return []string{"channels", c.Name}
	}
	return []string{"channels", c.Name, "accounts", c.Account}
}

// channels begins the keys of settings of channels.
const channels = "channels."

// channelType is a kind of channel.
type channelType struct {
	name    string
	shipped channel.Place // its own defaults
	always  bool          // it exists without a configuration, too
}

// channelTypes are the kinds of channels. A new one needs a line here, a struct in channel_types.go with a field of [Channel], and a line in
// channelMakers of cmd/server.
var channelTypes = []channelType{
	{name: "telegram"},
	{name: "webhook"},
	{name: "slack"},
	{name: "feishu"},
	{name: "discord"},
	{name: "web", always: true, shipped: web.Shipped()},
	{name: "cli", always: true, shipped: channel.Place{
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

// place returns the settings of a channel of this type that has none in the file.
func (t channelType) place() channel.ChannelPlace {
	shipped := t.shipped
	shipped.Agent = DefaultAgent
	return channel.ChannelPlace{Shipped: shipped}
}

// settings are those of a channel that only channels of its type have.
func (t channelType) settings(ch *Channel) []Setting {
	field := reflect.ValueOf(ch).Elem().FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, t.name) })
	if !field.IsValid() {
		return nil
	}
	return fileSettingsOf(ch.path(), field.Addr().Interface())
}

// shippedAccess returns the access rules without a configuration.
func shippedAccess() channel.Configuration {
	access := channel.Configuration{Channels: map[string]channel.ChannelPlace{}}
	for _, t := range channelTypes {
		if t.always {
			access.Channels[t.name] = t.place()
		}
	}
	return access
}

// channels reads the section.
func (l *loader) channels(n *yaml.Node) {
	for k, v := range l.members(n, []string{"channels"}, "names with settings, such as \"telegram: {token: …}\"") {
		l.channel(k, v)
	}
}

// channel reads one channel, or its accounts.
func (l *loader) channel(at, n *yaml.Node) {
	name := at.Text
	if !providerName.MatchString(name) {
		l.Errorf(at, channels+name, "invalid name; a channel's name has only lower-case letters, digits, - and _")
		return
	}
	ch := &Channel{Name: name, At: l.position(at)}
	kind, ok := l.channelType(at, n, ch)
	if !ok {
		return
	}
	place := kind.place()
	own := kind.settings(ch)
	l.applyElsewhere(own)
	l.login(n, kind, ch, own, &place.AccountPlace)
	accounts := n.Get("accounts")
	if accounts == nil || len(accounts.Items) == 0 {
		l.checkNeeded(at, n, own)
		l.c.Channels = append(l.c.Channels, *ch)
	} else {
		for at, n := range l.members(accounts, []string{"channels", name, "accounts"}, "names with settings, such as \"work: {agent: …}\"") {
			if !providerName.MatchString(at.Text) {
				l.Errorf(at, channels+name+".accounts."+at.Text, "invalid name; an account's name has only lower-case letters, digits, - and _")
				continue
			}
			account := *ch // what the account does not set is that of its channel
			account.Account, account.At = at.Text, l.position(at)
			ofAccount := kind.settings(&account)
			for i, s := range own {
				l.c.sources[ofAccount[i].Key] = l.c.sources[s.Key]
			}
			var accountPlace channel.AccountPlace
			l.login(n, kind, &account, ofAccount, &accountPlace)
			l.checkNeeded(at, n, ofAccount)
			put(&place.Accounts, at.Text, accountPlace)
			l.c.Channels = append(l.c.Channels, account)
		}
	}
	l.c.Access.Channels[name] = place
}

// login reads the settings of a channel, or of an account of it. own are those that only its type has.
func (l *loader) login(n *yaml.Node, kind channelType, ch *Channel, own []Setting, place *channel.AccountPlace) {
	level := channel.OfAccount
	if ch.Account == "" {
		level = channel.OfChannel
	}
	l.c.settings = append(l.c.settings, own...)
	(&scope{loader: l, kind: kind, level: level, path: ch.path(), to: &place.Place, own: own, account: place}).read(n)
}

// checkNeeded reports the required settings that are missing.
func (l *loader) checkNeeded(at, n *yaml.Node, own []Setting) {
	for _, s := range own {
		last := len(s.path) - 1
		name := s.path[last]
		if written := n.Get(name); !s.needed || s.text() != "" || written != nil && written.Text != "" || written != nil && written.Kind == yaml.Mapping {
			continue
		}
		expected := "it"
		if s.Secret {
			expected = name + ": {env: NAME} or {file: PATH}"
		}
		l.Errorf(at, yaml.Path(s.path[:last]...), "has no %s; expected %s", name, expected)
	}
}

// channelType sets the type of a channel: its name, or the value of type.
func (l *loader) channelType(at, n *yaml.Node, ch *Channel) (channelType, bool) {
	byName, reserved := typeOfChannel(ch.Name)
	written := n.Get("type")
	if written == nil {
		if !reserved {
			l.Errorf(at, channels+ch.Name, "has no type; expected one of %s%s", strings.Join(ChannelTypes(), ", "), didYouMean(ch.Name, ChannelTypes()))
		}
		ch.Type = ch.Name
		return byName, reserved
	}
	setting := fileSetting(append(ch.path(), "type"), "kind of the channel", &ch.Type)
	setting.OneOf = ChannelTypes()
	name, ok := l.oneOf(setting, written)
	if ok && reserved && name != ch.Name {
		l.Errorf(written, setting.Key, "the name %s is reserved for channels of type %s; choose another name", ch.Name, ch.Name)
		return byName, false
	}
	if ok && !reserved {
		l.c.settings = append(l.c.settings, setting)
		l.c.sources[setting.Key] = l.source(written)
	}
	ch.Type = name
	kind, _ := typeOfChannel(name)
	return kind, ok
}

// scope reads the settings at one level of a channel: of the channel, an account, a conversation or a thread.
type scope struct {
	*loader
	kind    channelType
	level   channel.Level
	path    []string
	to      *channel.Place
	own     []Setting             // those that only channels of the type have
	account *channel.AccountPlace // of a channel or an account: conversations are below it
	group   *channel.GroupPlace   // of a group: threads are below it
}

// levelNames are the places at the levels of a channel.
var levelNames = map[channel.Level]string{
	channel.OfChannel: "a channel", channel.OfAccount: "an account", channel.OfDirect: "a direct conversation", channel.OfGroup: "a group", channel.OfThread: "a thread",
}

// read reads the settings in n, and those of the levels below.
func (p *scope) read(n *yaml.Node) {
	known := slices.Concat(p.own, p.policies())
	p.readSettings(n, p.path, known, func(k, v *yaml.Node, path []string) {
		at := append(slices.Clip(path), k.Text)
		below := at[len(p.path):]
		switch {
		case p.level == channel.OfChannel && len(below) == 1 && (k.Text == "type" || k.Text == "accounts"): // read already
		case p.account != nil && len(below) == 2 && below[0] == "dm" && v.Kind == yaml.Mapping:
			var direct channel.Place
			(&scope{loader: p.loader, kind: p.kind, level: channel.OfDirect, path: at, to: &direct}).read(v)
			put(&p.account.Directs, k.Text, direct)
		case p.account != nil && len(below) == 2 && below[0] == "groups" && v.Kind == yaml.Mapping:
			var group channel.GroupPlace
			(&scope{loader: p.loader, kind: p.kind, level: channel.OfGroup, path: at, to: &group.Place, group: &group}).read(v)
			put(&p.account.Groups, k.Text, group)
		case p.group != nil && len(below) == 1 && k.Text == "threads":
			for id, n := range p.members(v, at, "threads by id, such as \"\\\"7\\\": {enabled: false}\"") {
				var thread channel.Place
				(&scope{loader: p.loader, kind: p.kind, level: channel.OfThread, path: append(slices.Clip(at), id.Text), to: &thread}).read(n)
				put(&p.group.Threads, id.Text, thread)
			}
		default:
			p.unknownOf(fmt.Sprintf("%s of type %s", levelNames[p.level], p.kind.name), k, path, len(p.path), known)
		}
	})
}

// policies returns the settings that every channel has, at the level of p. A channel shows the defaults too, the other levels what is set.
func (p *scope) policies() (all []Setting) {
	fields := settingsOf(nil, p.to)
	for i, policy := range channel.SettingsTable() {
		key, ok := policy.At(p.level)
		if !ok {
			continue
		}
		s := fields[i]
		s.path = slices.Concat(p.path, strings.Split(key, "."))
		s.Key, s.fileOnly = yaml.Path(s.path...), true
		s.Default = policy.Default
		if shipped, ok := policy.Text(&p.kind.shipped); ok {
			s.Default = shipped
		} else if policy.Key == "agent" {
			s.Default = DefaultAgent
		}
		s.store = func(v value) error {
			if p.level != channel.OfChannel || s.Default == "" {
				p.c.settings = append(p.c.settings, s)
			}
			if err := s.parse(v); err != nil {
				return err
			}
			return policy.Check(p.to)
		}
		all = append(all, s)
		if p.level == channel.OfChannel && s.Default != "" {
			p.c.settings = append(p.c.settings, s)
		}
	}
	return all
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// finishChannels checks the access rules of all channels together.
func (l *loader) finishChannels() {
	var names []string
	for _, a := range l.c.Agents {
		names = append(names, a.Name)
	}
	for _, s := range l.c.settings {
		if name := s.text(); s.path[0] == "channels" && s.path[len(s.path)-1] == "agent" && !slices.Contains(names, name) {
			l.errs = append(l.errs, &Error{Where: l.c.sources[s.Key].at, Key: s.Key, Message: noneOf(name, names).Error()})
		}
	}
	if len(l.errs) > 0 {
		return
	}
	err := l.c.Access.Check()
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range many.Unwrap() {
			e := &Error{Where: l.File, Message: err.Error()}
			if s, ok := errors.AsType[*channel.SettingError](err); ok {
				e.Key, e.Message = s.Path, s.Message
				e.Where = cmp.Or(l.c.sources[s.Path].at, l.File)
			}
			l.errs = append(l.errs, e)
		}
	} else if err != nil {
		l.errs = append(l.errs, err)
	}
}
