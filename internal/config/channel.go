package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/yaml"
)

// Channel is one login of a configured channel, with the settings of the channel itself. [Config.Access] has the access rules and the
// agents.
type Channel struct {
	Name    string // what stands under "channels", and in addresses
	Type    string // one of [ChannelTypes]
	Account string // "" where there is one
	At      string // where it stands: "lingserve.yaml:5:3"; "" where that is nowhere

	// The settings of its type; those of the others are zero.
	Telegram Telegram
	Webhook  Webhook
	Slack    Slack
	Feishu   Feishu
	Discord  Discord
}

// Where is what errors call the channel: "channels.telegram", "channels.telegram.accounts.work".
func (c Channel) Where() string {
	if c.Account == "" {
		return channels + c.Name
	}
	return channels + c.Name + ".accounts." + c.Account
}

// channelType is a kind of channel.
type channelType struct {
	name     string
	settings func(at string, of func(*Config) *Channel) []Setting // its own: at comes before their keys, of finds the channel
	needs    []string                                             // of its settings: those that have to be written
	shipped  channel.Place                                        // what it has for defaults of its own
	always   bool                                                 // it is there without a configuration, too
}

// channelTypes are the kinds of channels there are. A new one is a line here, with its settings in a file of its own, and a line in
// channelMakers of cmd/server.
var channelTypes = []channelType{
	{name: "telegram", settings: telegramSettings, needs: []string{"token"}},
	{name: "webhook", settings: webhookSettings, needs: []string{"secret"}},
	{name: "slack", settings: slackSettings, needs: []string{"token", "signing_secret"}},
	{name: "feishu", settings: feishuSettings, needs: []string{"app_id", "app_secret"}},
	{name: "discord", settings: discordSettings, needs: []string{"token"}},
	{name: "web", settings: noSettings, always: true, shipped: web.Shipped()},
	{name: "cli", settings: noSettings, always: true, shipped: channel.Place{
		DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{"local"}, Admins: []string{"local"}, OnBusy: "steer", Greeting: new(""),
		SenderRate: new(0), ChatRate: new(0), // who pipes in a hundred lines wants a hundred answers
	}},
}

// settingsIn binds a table to the part of a channel that has the settings of its type.
func settingsIn[T any](part func(*Channel) *T, rows []Setting) func(at string, of func(*Config) *Channel) []Setting {
	return func(at string, of func(*Config) *Channel) []Setting {
		return bindInFile(at, func(c *Config) *T { return part(of(c)) }, rows)
	}
}

// noSettings are those of a type that has none of its own.
func noSettings(string, func(*Config) *Channel) []Setting { return nil }

// ChannelTypes returns the names of the kinds of channels. A channel of such a name is of this kind; others say their type.
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

// channel is where the settings of a channel go.
func (c *Config) channel(name, account string) *Channel {
	is := func(ch *Channel) bool { return ch.Name == name && ch.Account == account }
	return element(&c.logins, is, Channel{Name: name, Account: account})
}

// channels is the section of channels, whose members may have any name.
const channels = "channels."

// spot is a place in the section of a channel that settings stand in: the channel, an account, a conversation or a thread.
type spot struct {
	kind            channelType
	channel         string
	account         string
	level           channel.Level
	conversation    string
	thread          string
	path            []string // of the configuration
	own             []Setting
	hasConversation bool // conversations can stand below it
}

// key is what its settings' keys begin with, as package channel names them too.
func (p *spot) key() string { return yaml.Path(p.path...) + "." }

// below is a spot further in.
func (p *spot) below(level channel.Level, path ...string) spot {
	q := *p
	q.level, q.own, q.hasConversation = level, nil, false
	q.path = slices.Concat(p.path, path)
	return q
}

// policySetting is a setting that every channel has, at one spot.
type policySetting struct {
	Setting
	of channel.Setting
	at spot
}

// policy makes the setting of a spot.
func (p *spot) policy(s channel.Setting, key string) policySetting {
	out := policySetting{of: s, at: *p}
	out.Setting = Setting{Key: p.key() + key, Help: s.Help, OneOf: s.OneOf, fileOnly: true, path: slices.Concat(p.path, strings.Split(key, "."))}
	full := out.Key
	switch s.Kind() {
	case "true or false":
		out.field = func(c *Config) any { return written[bool](c, full) }
	case "duration":
		out.field = func(c *Config) any { return written[time.Duration](c, full) }
	case "number":
		out.field = func(c *Config) any { return written[int](c, full) }
	case "list":
		out.OneOf = nil // of its elements: package channel looks at them
		out.field = func(c *Config) any { return written[[]string](c, full) }
	default:
		out.field = func(c *Config) any { return written[string](c, full) }
	}
	return out
}

// written is where a setting of a place goes until the place is put together.
func written[T any](c *Config, key string) *T {
	if v, ok := c.places[key].(*T); ok {
		return v
	}
	if c.places == nil {
		c.places = map[string]any{}
	}
	v := new(T)
	c.places[key] = v
	return v
}

// channels reads the section.
func (r *fileReader) channels(n *yaml.Node) {
	for k, v := range r.members(n, "channels", "names with settings, such as \"telegram: {token: …}\"") {
		r.channel(k, v)
	}
}

// channel reads one channel, or its logins.
func (r *fileReader) channel(at, n *yaml.Node) {
	name := at.Text
	key := channels + name
	if !providerName.MatchString(name) {
		r.Errorf(at, key, "invalid name; a channel's name has only lower-case letters, digits, - and _")
		return
	}
	kind, ok := r.channelType(at, n)
	if !ok {
		return
	}
	p := spot{kind: kind, channel: name, level: channel.OfChannel, path: []string{"channels", name}}
	if !r.login(at, &p, n) {
		return
	}
	accounts := n.Get("accounts")
	if accounts == nil || len(accounts.Items) == 0 {
		r.needs(at, &p, n)
		return
	}
	for at, n := range r.members(accounts, key+".accounts", "names with settings, such as \"work: {agent: …}\"") {
		if !providerName.MatchString(at.Text) {
			r.Errorf(at, key+".accounts."+at.Text, "invalid name; an account's name has only lower-case letters, digits, - and _")
			continue
		}
		a := p.below(channel.OfAccount, "accounts", at.Text)
		a.account = at.Text
		if !r.login(at, &a, n) {
			continue
		}
		for i, s := range a.own { // what an account does not say is that of its channel
			if _, ok := r.values[s.Key]; !ok && r.values[p.own[i].Key] != nil {
				r.values[s.Key] = r.values[p.own[i].Key]
			}
		}
		r.needs(at, &a, n)
	}
}

// login reads the settings of a channel, or of an account of it.
func (r *fileReader) login(at *yaml.Node, p *spot, n *yaml.Node) bool {
	name, account, kind := p.channel, p.account, p.kind.name
	p.own = p.kind.settings(p.key(), func(c *Config) *Channel {
		ch := c.channel(name, account)
		ch.Type = kind
		return ch
	})
	p.hasConversation = true
	if !r.readSpot(p, n) {
		return false
	}
	r.logins = append(r.logins, Channel{Name: name, Account: account, Type: kind, At: r.place(at)})
	all := slices.Clone(p.own)
	if kind != name && p.level == channel.OfChannel {
		all = slices.Insert(all, 0, typeSetting(name))
	}
	for _, policy := range p.policies() {
		one := policy.Setting
		if p.level == channel.OfChannel { // what is in force without being written is shown, too
			one.Default = shippedText(p.kind.shipped, policy.of)
		}
		if r.values[one.Key] != nil || one.Default != "" {
			all = append(all, one)
		}
	}
	for _, s := range r.policies {
		if s.at.channel == name && s.at.account == account && s.at.level != p.level {
			all = append(all, s.Setting)
		}
	}
	r.ofNames = append(r.ofNames, together(all, 0)...)
	return true
}

// together orders settings so that those of one section follow one another; else they stay as they are.
func together(all []Setting, depth int) []Setting {
	var names []string
	by := map[string][]Setting{}
	for _, s := range all {
		name := ""
		if path := s.parts(); len(path) > depth {
			name = path[depth]
		}
		if by[name] == nil {
			names = append(names, name)
		}
		by[name] = append(by[name], s)
	}
	var out []Setting
	for _, name := range names {
		if len(by[name]) > 1 {
			by[name] = together(by[name], depth+1)
		}
		out = append(out, by[name]...)
	}
	return out
}

// shippedText is the default of a setting in channels of a type, as it would be written.
func shippedText(shipped channel.Place, s channel.Setting) string {
	switch s.Key {
	case "dm.policy":
		return string(shipped.DMPolicy)
	case "dm.allow_from":
		return strings.Join(shipped.DMAllowFrom, ", ")
	case "commands.admins":
		return strings.Join(shipped.Admins, ", ")
	case "commands.mode":
		if shipped.CommandMode != "" {
			return string(shipped.CommandMode)
		}
	case "on_busy":
		if shipped.OnBusy != "" {
			return shipped.OnBusy
		}
	case "agent":
		return DefaultAgent
	case "greeting":
		if shipped.Greeting != nil {
			return *shipped.Greeting
		}
	case "limits.sender_rate":
		if shipped.SenderRate != nil {
			return strconv.Itoa(*shipped.SenderRate)
		}
	case "limits.chat_rate":
		if shipped.ChatRate != nil {
			return strconv.Itoa(*shipped.ChatRate)
		}
	}
	return s.Default
}

// needs reports the required settings that are missing.
func (r *fileReader) needs(at *yaml.Node, p *spot, n *yaml.Node) {
	for _, name := range p.kind.needs {
		key := p.key() + name
		i := slices.IndexFunc(p.own, func(s Setting) bool { return s.Key == key })
		if v := r.values[key]; v == nil && n.Get(name) == nil || v != nil && v.text == "" && len(v.list) == 0 {
			expected := "it"
			if i >= 0 && p.own[i].Secret {
				expected = name + ": {env: NAME} or {file: PATH}"
			}
			r.Errorf(at, strings.TrimSuffix(p.key(), "."), "has no %s; expected %s", name, expected)
		}
	}
}

// channelType returns the type of a channel: its name, or what type says.
func (r *fileReader) channelType(at, channel *yaml.Node) (channelType, bool) {
	name := at.Text
	known, is := typeOfChannel(name)
	n := channel.Get("type")
	if n == nil {
		if !is {
			r.Errorf(at, channels+name, "has no type; expected one of %s%s", strings.Join(ChannelTypes(), ", "), didYouMean(name, ChannelTypes()))
		}
		return known, is
	}
	said, ok := typeOfChannel(n.Text)
	switch key := channels + name + ".type"; {
	case n.Kind != yaml.Text:
		r.Errorf(n, key, "expected one of %s", strings.Join(ChannelTypes(), ", "))
	case !ok:
		r.Errorf(n, key, "%v", noneOf(n.Text, ChannelTypes()))
	case is && said.name != known.name:
		r.Errorf(n, key, "the name %s is reserved for channels of type %s; choose another name", name, name)
	default:
		r.setting(typeSetting(name), n)
		return said, true
	}
	return known, false
}

// typeSetting says of which kind a channel is whose name does not.
func typeSetting(name string) Setting {
	of := func(c *Config) *Channel { return c.channel(name, "") }
	return bindInFile(channels+name+".", of, []Setting{{Key: "type", OneOf: ChannelTypes(), Help: "kind of the channel"}})[0]
}

// readSpot reads the settings of a spot, and of the spots below it. It returns false if n is no mapping.
func (r *fileReader) readSpot(p *spot, n *yaml.Node) bool {
	policies := p.policies()
	known := slices.Clone(p.own)
	for _, one := range policies {
		known = append(known, one.Setting)
	}
	before := len(r.policies)
	ok := r.readSettings(n, p.key(), known, func(k, v *yaml.Node, prefix string) {
		rel := strings.TrimPrefix(prefix, p.key()) + k.Text
		inside := strings.TrimSuffix(strings.TrimSuffix(rel, k.Text), ".")
		switch {
		case p.level == channel.OfChannel && (rel == "type" || rel == "accounts"): // read already
		case p.hasConversation && (inside == "dm" || inside == "groups") && v.Kind == yaml.Mapping:
			q := p.below(channel.OfGroup, inside, k.Text)
			q.conversation = k.Text
			if inside == "dm" {
				q.level = channel.OfDirect
			}
			r.readSpot(&q, v)
		case p.level == channel.OfGroup && rel == "threads":
			for id, thread := range r.members(v, p.key()+rel, "threads by id, such as \"\\\"7\\\": {enabled: false}\"") {
				q := p.below(channel.OfThread, "threads", id.Text)
				q.thread = id.Text
				r.readSpot(&q, thread)
			}
		default:
			r.unknownAt(p, k, rel, known)
		}
	})
	written := slices.DeleteFunc(policies, func(one policySetting) bool { return r.values[one.Key] == nil })
	r.policies = slices.Insert(r.policies, before, written...)
	return ok
}

// policies are the settings of the spot that every channel has.
func (p *spot) policies() (all []policySetting) {
	for _, s := range channel.SettingsTable() {
		if key, ok := s.At(p.level); ok {
			all = append(all, p.policy(s, key))
		}
	}
	return all
}

// unknownAt says what was probably meant.
func (r *fileReader) unknownAt(p *spot, at *yaml.Node, rel string, known []Setting) {
	key, names := p.key()+rel, keys(known)
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], p.key())
	}
	meant := didYouMean(rel, names)
	if meant == "" {
		for _, t := range channelTypes {
			for _, s := range t.settings("x.", func(c *Config) *Channel { return c.channel("x", "") }) {
				if s.Key == "x."+rel && p.hasConversation {
					r.Errorf(at, key, "this setting is for channels of type %s; this channel has type %s", t.name, p.kind.name)
					return
				}
			}
		}
		for _, s := range channel.SettingsTable() {
			if own, _ := s.At(p.level); s.Key == rel || own == rel || strings.HasPrefix(s.Key, rel+".") && !p.hasConversation {
				r.Errorf(at, key, "this setting belongs to %s; move it there", levels(s.Levels))
				return
			}
		}
	}
	r.Errorf(at, key, "unknown setting%s", meant)
}

// levels names the levels that may have a setting.
func levels(l channel.Level) string {
	var words []string
	for _, one := range []struct {
		level channel.Level
		name  string
	}{
		{channel.OfChannel, "a channel"},
		{channel.OfAccount, "an account"},
		{channel.OfDirect, "a direct conversation"},
		{channel.OfGroup, "a group"},
		{channel.OfThread, "a thread"},
	} {
		if l&one.level != 0 {
			words = append(words, one.name)
		}
	}
	return strings.Join(words, ", ")
}

// finishChannels puts the access rules of channels together, and checks them as a whole.
func (l *loader) finishChannels(r *fileReader) {
	access := channel.Configuration{Channels: map[string]channel.ChannelPlace{}}
	place := func(t channelType) channel.ChannelPlace {
		shipped := t.shipped
		shipped.Agent = DefaultAgent
		return channel.ChannelPlace{Shipped: shipped}
	}
	for _, t := range channelTypes {
		if t.always {
			access.Channels[t.name] = place(t)
		}
	}
	if r == nil {
		l.c.Access = access
		return
	}
	for _, in := range r.logins {
		if _, ok := access.Channels[in.Name]; !ok || in.Account == "" {
			t, _ := typeOfChannel(in.Type)
			access.Channels[in.Name] = place(t)
		}
		several := slices.ContainsFunc(r.logins, func(o Channel) bool { return o.Name == in.Name && o.Account != "" })
		if in.Account != "" || !several {
			ch := *l.c.channel(in.Name, in.Account)
			ch.Type, ch.At = in.Type, in.At
			l.c.Channels = append(l.c.Channels, ch)
		}
	}
	bad := len(l.errs)
	for _, s := range r.policies {
		l.place(&access, s, r.values[s.Key])
	}
	if len(l.errs) == bad {
		l.check(access, r)
	}
	l.c.Access = access
}

// place stores a setting in the level that it belongs to.
func (l *loader) place(access *channel.Configuration, s policySetting, v *value) {
	ch := access.Channels[s.at.channel]
	account := &ch.AccountPlace
	var of channel.AccountPlace
	if s.at.account != "" {
		of = ch.Accounts[s.at.account]
		account = &of
	}
	set := func(p *channel.Place) {
		var err error
		if list, ok := s.field(l.c).(*[]string); ok {
			err = s.of.SetList(p, *list)
		} else {
			err = s.of.Set(p, v.text)
		}
		if err == nil && s.of.Key == "agent" {
			err = l.checkAgentName(v.text)
		}
		if err != nil && !l.reported(s.Key) {
			l.errs = append(l.errs, &Error{Where: v.at, Key: s.Key, Message: err.Error()})
		}
	}
	switch {
	case s.at.level&(channel.OfChannel|channel.OfAccount) != 0:
		set(&account.Place)
	case s.at.level == channel.OfDirect:
		p := account.Directs[s.at.conversation]
		set(&p)
		put(&account.Directs, s.at.conversation, p)
	default:
		g := account.Groups[s.at.conversation]
		if s.at.level == channel.OfGroup {
			set(&g.Place)
		} else {
			p := g.Threads[s.at.thread]
			set(&p)
			put(&g.Threads, s.at.thread, p)
		}
		put(&account.Groups, s.at.conversation, g)
	}
	if s.at.account != "" {
		put(&ch.Accounts, s.at.account, of)
	}
	access.Channels[s.at.channel] = ch
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// reported reports whether an error of the setting was recorded already.
func (l *loader) reported(key string) bool {
	return slices.ContainsFunc(l.errs, func(err error) bool {
		e, ok := errors.AsType[*Error](err)
		return ok && e.Key == key
	})
}

// checkAgentName refuses the name of an unknown agent.
func (l *loader) checkAgentName(name string) error {
	var names []string
	for _, a := range l.c.Agents {
		names = append(names, a.Name)
	}
	if slices.Contains(names, name) {
		return nil
	}
	return noneOf(name, names)
}

// check checks the levels of the settings together, and reports each problem at the place of its setting.
func (l *loader) check(access channel.Configuration, r *fileReader) {
	err := access.Check()
	if err == nil {
		return
	}
	for _, one := range errorsOf(err) {
		e := &Error{Message: one.Error(), Where: r.File}
		if s, ok := errors.AsType[*channel.SettingError](one); ok {
			e.Key, e.Message = s.Path, s.Message
			if v := r.values[s.Path]; v != nil {
				e.Where = v.at
			}
		}
		l.errs = append(l.errs, e)
	}
}

// errorsOf returns the errors that err joins.
func errorsOf(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}
