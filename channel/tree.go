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

// Places returns all places of a channel, its defaults among them.
func (c ChannelPlace) Places() (all []Place) {
	for _, l := range (Configuration{map[string]ChannelPlace{"": c}}).places() {
		all = append(all, *l.place)
	}
	return all
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
		if where.path == "" {
			continue
		}
		if name, ok := strings.CutSuffix(where.path, `."".`); ok {
			found[name+`.""`] = "expected a name or an id, got none"
		}
		checkResolved(places.resolve(q), found)
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

// places are all places of a configuration, by the query that names exactly this place.
type places map[PolicyQuery]layer

// ofShipped is the kind in the query of a channel's defaults.
const ofShipped ChatType = "shipped"

func (c Configuration) places() places {
	all := places{}
	for name, ch := range c.Channels {
		path, q := "channels."+pathPart(name)+".", PolicyQuery{Channel: name}
		ch.addPlaces(all, path, q, OfChannel)
		all[PolicyQuery{Channel: name, Kind: ofShipped}] = layer{place: &ch.Shipped}
		for account, a := range ch.Accounts {
			q.Account = account
			a.addPlaces(all, path+"accounts."+pathPart(account)+".", q, OfAccount)
		}
	}
	return all
}

func (a AccountPlace) addPlaces(all places, path string, q PolicyQuery, level Level) {
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
func (all places) layers(q PolicyQuery) (found []layer) {
	scopes := []PolicyQuery{{Kind: Direct, Conversation: q.Conversation}}
	if q.Kind != Direct {
		scopes = slices.DeleteFunc([]PolicyQuery{
			{Kind: Group, Conversation: q.Conversation, Thread: q.Thread},
			{Kind: Group, Conversation: q.Parent, Thread: q.Conversation},
			{Kind: Group, Conversation: q.Parent, Thread: q.Thread},
		}, func(thread PolicyQuery) bool { return thread.Thread == "" })
		scopes = append(scopes, PolicyQuery{Kind: Group, Conversation: q.Conversation}, PolicyQuery{Kind: Group, Conversation: q.Parent})
	}
	for _, scope := range append(scopes, PolicyQuery{}, PolicyQuery{Kind: ofShipped}) {
		scope.Channel = q.Channel
		for _, account := range slices.Compact([]string{q.Account, ""}) {
			scope.Account = account
			if l, ok := all[scope]; ok {
				found = append(found, l)
			}
		}
	}
	return append(found, layer{place: builtInPlace})
}

// resolve returns the policy of a query: each setting is that of the first layer that has it.
func (all places) resolve(q PolicyQuery) Policy {
	layers := all.layers(q)
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

	current atomic.Pointer[places] // nil: there is no configuration
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
	t.current.Store(new(c.places()))
	return nil
}

// Policy returns the policy of a query. Without a configuration, it admits no one.
func (t *Tree) Policy(q PolicyQuery) Policy {
	now := t.current.Load()
	if now == nil {
		return Policy{}
	}
	p := now.resolve(q)
	p.Commands = t.Commands
	return p
}
