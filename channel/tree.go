package channel

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Configuration is the section channels of a configuration, for [Tree.Set]. It must not change after that.
type Configuration struct {
	Channels map[string]ChannelPlace
}

// ChannelPlace is the settings of a channel.
type ChannelPlace struct {
	AccountPlace
	Accounts map[string]AccountPlace
	Shipped  Place // the defaults of this channel
}

// Places returns all places of a channel, its defaults last.
func (c ChannelPlace) Places() (all []Place) {
	for _, l := range (Configuration{map[string]ChannelPlace{"": c}}).places() {
		all = append(all, *l.place)
	}
	return append(all, c.Shipped)
}

// AccountPlace is the settings of an account, or of all accounts of a channel.
type AccountPlace struct {
	Place
	Directs map[string]Place      // by conversation
	Groups  map[string]GroupPlace // by conversation
}

// GroupPlace is the settings of a group.
type GroupPlace struct {
	Place
	Threads map[string]Place
}

// SettingError is a mistake in the settings.
type SettingError struct {
	Path    string // "channels.telegram.groups.policy"
	Message string
}

func (e *SettingError) Error() string { return e.Path + ": " + e.Message }

// Check returns contradictions between settings as joined [*SettingError]s, in the order of their paths. [Setting.Set] checks single values.
func (c Configuration) Check() error {
	found := map[string]string{} // messages, by path
	places := c.places()
	for q, where := range places {
		if name, ok := strings.CutSuffix(where.path, `."".`); ok {
			found[name+`.""`] = "expected a name or an id, got none"
		}
		checkResolved(resolve(c.layers(places, q), q), found)
	}
	var all []error
	for _, path := range slices.Sorted(maps.Keys(found)) {
		all = append(all, &SettingError{path, found[path]})
	}
	return errors.Join(all...)
}

// checkResolved reports contradictions between settings, also of several levels.
func checkResolved(r Policy, found map[string]string) {
	const message = `"*" in the list has no effect with the policy `
	if (r.DM == PolicyAllowlist || r.DM == PolicyPairing) && slices.Contains(r.DMAllowFrom, Anyone) {
		found[r.Sources[keyDMAllowFrom]] = message + string(r.DM) + "; set dm.policy: open to admit everybody"
	}
	if r.Group == PolicyAllowlist && slices.Contains(r.GroupAllowFrom, Anyone) {
		found[r.Sources[keyGroupAllowFrom]] = message + string(r.Group) + "; set groups.policy: open to admit everybody"
	}
}

// layer is a place and where it is in the configuration.
type layer struct {
	place *Place
	path  string // with a dot at its end; "" if it is not in the configuration
	level Level
}

// places returns all places of the configuration, by the query that names exactly this place.
func (c Configuration) places() map[PolicyQuery]layer {
	all := map[PolicyQuery]layer{}
	for name, ch := range c.Channels {
		path, q := "channels."+pathPart(name)+".", PolicyQuery{Channel: name}
		ch.addPlaces(all, path, q, OfChannel)
		for account, a := range ch.Accounts {
			q.Account = account
			a.addPlaces(all, path+"accounts."+pathPart(account)+".", q, OfAccount)
		}
	}
	return all
}

func (a AccountPlace) addPlaces(all map[PolicyQuery]layer, path string, q PolicyQuery, level Level) {
	all[q] = layer{&a.Place, path, level}
	for id, direct := range a.Directs {
		q.Kind, q.Conversation = Direct, id
		all[q] = layer{&direct, path + "dm." + pathPart(id) + ".", OfDirect}
	}
	for id, group := range a.Groups {
		q.Kind, q.Conversation, q.Thread = Group, id, ""
		path := path + "groups." + pathPart(id) + "."
		all[q] = layer{&group.Place, path, OfGroup}
		for id, thread := range group.Threads {
			q.Thread = id
			all[q] = layer{&thread, path + "threads." + pathPart(id) + ".", OfThread}
		}
	}
}

// pathPart quotes a name that is not one part of a path.
func pathPart(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '.' || r == '"' || r == 0x7f }) {
		return strconv.Quote(s)
	}
	return s
}

// layers returns the places that decide a query, the most specific first: threads, conversations, accounts, the channel, and defaults. Some
// platforms make a thread a conversation, whose parent is the group.
func (c Configuration) layers(places map[PolicyQuery]layer, q PolicyQuery) (found []layer) {
	accounts := slices.Compact([]string{q.Account, ""})
	add := func(account string, kind ChatType, conversation, thread string) {
		if l, ok := places[PolicyQuery{Channel: q.Channel, Account: account, Kind: kind, Conversation: conversation, Thread: thread}]; ok {
			found = append(found, l)
		}
	}
	for _, account := range accounts {
		for _, id := range [...][2]string{{q.Conversation, q.Thread}, {q.Parent, q.Conversation}, {q.Parent, q.Thread}} {
			if q.Kind != Direct && id[0] != "" && id[1] != "" {
				add(account, Group, id[0], id[1])
			}
		}
	}
	for _, account := range accounts {
		if q.Kind == Direct {
			add(account, Direct, q.Conversation, "")
			continue
		}
		for _, id := range [...]string{q.Conversation, q.Parent} {
			if id != "" {
				add(account, Group, id, "")
			}
		}
	}
	for _, account := range accounts {
		add(account, "", "", "")
	}
	shipped := c.Channels[q.Channel].Shipped
	return append(found, layer{place: &shipped}, layer{place: builtInPlace})
}

// resolve returns the policy of a query: each setting is that of the first layer that has it.
func resolve(layers []layer, q PolicyQuery) Policy {
	p := Policy{Sources: make(map[string]string, len(settingsTable))}
	enabled := false  // the setting enabled is in the configuration
	var only []string // else the conversations that the agent talks in
	for _, s := range settingsTable {
		for _, l := range layers {
			if !s.apply(l.place, &p) {
				continue
			}
			if s.Key == keyOnly {
				only = l.place.Only
			}
			key, _ := s.At(l.level)
			p.Sources[s.Key] = l.path + key
			if l.path == "" {
				p.Sources[s.Key] = builtIn + s.Key
			}
			enabled = enabled || s.Key == keyEnabled && l.path != ""
			break
		}
	}
	if slices.Equal(p.GroupAllowFrom, []string{Inherit}) {
		p.GroupAllowFrom = p.DMAllowFrom
		if from, ok := p.Sources[keyDMAllowFrom]; ok {
			p.Sources[keyGroupAllowFrom] = from
		}
	}
	if !enabled && only != nil {
		p.Sources[keyEnabled] = p.Sources[keyOnly]
		p.RouteAllowed = slices.ContainsFunc(only, func(id string) bool { return id == Anyone || id == q.Conversation || id == q.Parent })
	}
	return p
}

var _ Settings = (*Tree)(nil)

// Tree is [Settings] from a configuration that can change while the server runs.
type Tree struct {
	// Commands becomes the field of every [Policy]. Set it before the first call of Policy.
	Commands func(text string, exact bool) bool

	current atomic.Pointer[tree]
}

// tree is one version of a Tree.
type tree struct {
	config Configuration
	places map[PolicyQuery]layer
}

// NewTree returns the settings of a configuration. An error joins [*SettingError]s.
func NewTree(c Configuration) (*Tree, error) {
	t := new(Tree)
	return t, t.Set(c)
}

// Set replaces the configuration, unless it has mistakes.
func (t *Tree) Set(c Configuration) error {
	if err := c.Check(); err != nil {
		return err
	}
	t.current.Store(&tree{c, c.places()})
	return nil
}

// Policy returns the policy of a query. Without a configuration, it admits no one.
func (t *Tree) Policy(q PolicyQuery) Policy {
	now := t.current.Load()
	if now == nil {
		return Policy{}
	}
	p := resolve(now.config.layers(now.places, q), q)
	p.Commands = t.Commands
	return p
}
