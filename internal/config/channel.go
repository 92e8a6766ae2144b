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

// settings are those that only channels of this type have.
func (t channelType) settings(path []string, name, account string) []Setting {
	field, ok := reflect.TypeFor[Channel]().FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, t.name) })
	if !ok {
		return nil
	}
	return inFile(settingsOfType(field.Type, path, func(c *Config) reflect.Value {
		return reflect.ValueOf(c.channel(name, account)).Elem().FieldByIndex(field.Index)
	}))
}

// channel is where the settings of a channel are stored.
func (c *Config) channel(name, account string) *Channel {
	return element(&c.logins, func(ch *Channel) bool { return ch.Name == name && ch.Account == account }, Channel{Name: name, Account: account})
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
	kind, ok := l.channelType(at, n)
	if !ok {
		return
	}
	place := kind.place()
	own := l.login(at, n, kind, Channel{Name: name}, &place.AccountPlace)
	accounts := n.Get("accounts")
	if accounts == nil || len(accounts.Items) == 0 {
		l.checkNeeded(at, n, own)
		l.c.Channels = append(l.c.Channels, *l.c.channel(name, ""))
	} else {
		for at, n := range l.members(accounts, []string{"channels", name, "accounts"}, "names with settings, such as \"work: {agent: …}\"") {
			if !providerName.MatchString(at.Text) {
				l.Errorf(at, channels+name+".accounts."+at.Text, "invalid name; an account's name has only lower-case letters, digits, - and _")
				continue
			}
			account := *l.c.channel(name, "") // what the account does not set is that of its channel
			account.Account = at.Text
			l.c.logins = append(l.c.logins, account)
			for _, s := range own {
				key := yaml.Path(append(account.path(), s.path[2:]...)...)
				l.c.sources[key] = l.c.sources[s.Key]
			}
			var of channel.AccountPlace
			l.checkNeeded(at, n, l.login(at, n, kind, account, &of))
			put(&place.Accounts, at.Text, of)
			l.c.Channels = append(l.c.Channels, *l.c.channel(name, at.Text))
		}
	}
	l.c.Access.Channels[name] = place
}

// login reads the settings of a channel, or of an account of it. It returns those that only its type has.
func (l *loader) login(at, n *yaml.Node, kind channelType, login Channel, to *channel.AccountPlace) []Setting {
	ch := l.c.channel(login.Name, login.Account)
	ch.Type, ch.At = kind.name, l.place(at)
	own := kind.settings(login.path(), login.Name, login.Account)
	level := channel.OfAccount
	if login.Account == "" {
		level = channel.OfChannel
		l.applyDefaults(own)
	}
	l.c.settings = append(l.c.settings, own...)
	before := len(l.c.settings)
	p := &scope{loader: l, kind: kind, level: level, path: login.path(), to: &to.Place, own: own, account: to}
	p.read(n)
	if login.Account == "" { // the defaults that are in force are shown, too
		for _, s := range channel.SettingsTable() {
			key, ok := s.At(level)
			setting := p.policy(s, key)
			text, shipped := s.Text(&kind.shipped)
			switch {
			case !shipped && s.Key == "agent":
				text = DefaultAgent
			case !shipped:
				text = s.Default
			}
			if ok && text != "" && !slices.ContainsFunc(l.c.settings[before:], func(o Setting) bool { return o.Key == setting.Key }) {
				p.add(setting, text, strings.Split(text, ", "))
			}
		}
	}
	return own
}

// checkNeeded reports the required settings that are missing.
func (l *loader) checkNeeded(at, n *yaml.Node, own []Setting) {
	for _, s := range own {
		last := len(s.path) - 1
		name := s.path[last]
		if written := n.Get(name); !s.needed || s.text(l.c) != "" || written != nil && written.Text != "" || written != nil && written.Kind == yaml.Mapping {
			continue
		}
		expected := "it"
		if s.Secret {
			expected = name + ": {env: NAME} or {file: PATH}"
		}
		l.Errorf(at, yaml.Path(s.path[:last]...), "has no %s; expected %s", name, expected)
	}
}

// channelType returns the type of a channel: its name, or the value of type.
func (l *loader) channelType(at, ch *yaml.Node) (channelType, bool) {
	name := at.Text
	byName, ok := typeOfChannel(name)
	n := ch.Get("type")
	if n == nil {
		if !ok {
			l.Errorf(at, channels+name, "has no type; expected one of %s%s", strings.Join(ChannelTypes(), ", "), didYouMean(name, ChannelTypes()))
		}
		return byName, ok
	}
	path := []string{"channels", name, "type"}
	setting := Setting{
		Key: yaml.Path(path...), path: path, OneOf: ChannelTypes(), fileOnly: true, typ: reflect.TypeFor[string](), Help: "kind of the channel",
		field: func(c *Config) any { return &c.channel(name, "").Type },
	}
	written, valid := l.oneOf(setting, n)
	if valid && ok && written != name {
		l.Errorf(n, setting.Key, "the name %s is reserved for channels of type %s; choose another name", name, name)
		return byName, false
	}
	if valid && !ok {
		l.c.settings = append(l.c.settings, setting)
		l.c.sources[setting.Key] = l.source(n)
	}
	kind, _ := typeOfChannel(written)
	return kind, valid
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
	known := slices.Clone(p.own)
	for _, s := range channel.SettingsTable() {
		if key, ok := s.At(p.level); ok {
			known = append(known, p.policy(s, key))
		}
	}
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

// policy makes a setting that every channel has, at the level of p.
func (p *scope) policy(s channel.Setting, key string) Setting {
	path := slices.Concat(p.path, strings.Split(key, "."))
	out := Setting{Key: yaml.Path(path...), path: path, Help: s.Help, fileOnly: true, typ: reflect.TypeFor[string]()}
	switch {
	case s.IsList():
		out.typ = reflect.TypeFor[[]string]()
	case slices.Contains([]string{"true or false", "duration", "number"}, s.Kind()):
		out.typ = reflect.TypeFor[unquoted]()
	default:
		out.OneOf = s.OneOf
	}
	out.store = func(v value) error {
		var err error
		if s.IsList() {
			err = s.SetList(p.to, v.items())
		} else {
			err = s.Set(p.to, v.text)
		}
		if err != nil {
			return err
		}
		if s.Key == "agent" {
			p.agents = append(p.agents, agentName{v.at, out.Key, v.text})
		}
		p.policyAt[out.Key] = v.at
		p.add(out, v.text, v.items())
		return nil
	}
	return out
}

// add adds a setting with its value to those that are shown.
func (p *scope) add(setting Setting, text string, list []string) {
	value := any(&text)
	switch setting.typ {
	case reflect.TypeFor[[]string]():
		value = &list
	case reflect.TypeFor[unquoted]():
		value = new(unquoted(text))
	}
	setting.field = func(*Config) any { return value }
	p.c.settings = append(p.c.settings, setting)
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// agentName is the name of an agent in a setting of a channel.
type agentName struct{ at, key, name string }

// finishChannels checks the access rules of all channels together.
func (l *loader) finishChannels() {
	var names []string
	for _, a := range l.c.Agents {
		names = append(names, a.Name)
	}
	for _, a := range l.agents {
		if !slices.Contains(names, a.name) {
			l.errs = append(l.errs, &Error{Where: a.at, Key: a.key, Message: noneOf(a.name, names).Error()})
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
				e.Where = cmp.Or(l.policyAt[s.Path], l.File)
			}
			l.errs = append(l.errs, e)
		}
	} else if err != nil {
		l.errs = append(l.errs, err)
	}
}
