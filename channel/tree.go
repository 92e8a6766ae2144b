package channel

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/lingserve/lingserve/internal/yaml"
)

// Configuration is the section channels of a configuration, and the defaults of each channel, for [Tree.Set]. It must not change after that.
type Configuration map[PlaceName]*Place

// PlaceName says which settings of a channel a [Place] has. Without an account, they are those of all accounts.
type PlaceName struct {
	Level                                  Level // 0: the defaults of the channel, which are not in the configuration
	Channel, Account, Conversation, Thread string
}

// Path returns the keys that lead to the place in the configuration.
func (n PlaceName) Path() []string {
	path := []string{"channels", n.Channel}
	if n.Account != "" {
		path = append(path, "accounts", n.Account)
	}
	switch n.Level {
	case OfDirect:
		path = append(path, "dm", n.Conversation)
	case OfGroup:
		path = append(path, "groups", n.Conversation)
	case OfThread:
		path = append(path, "groups", n.Conversation, "threads", n.Thread)
	}
	return path
}

// SettingError is a mistake in the settings.
type SettingError struct {
	Path    string // "channels.telegram.groups.policy"
	Message string
}

func (e *SettingError) Error() string { return e.Path + ": " + e.Message }

// Check returns contradictions between settings as joined [*SettingError]s, in the order of their paths. [Setting.Check] checks single values.
func (c Configuration) Check() error {
	found := map[string]string{} // messages, by path
	for n := range c {
		if n.Level == 0 {
			continue
		}
		path, q := n.Path(), PolicyQuery{Channel: n.Channel, Account: n.Account, Conversation: n.Conversation, Thread: n.Thread, Kind: Group}
		if path[len(path)-1] == "" {
			found[yaml.Path(path...)] = "expected a name or an id, got none"
		}
		if n.Level == OfDirect {
			q.Kind = Direct
		}
		checkResolved(c.resolve(q), found)
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

// layers returns the names of the places that decide a query, the most specific first: threads, conversations, accounts, the channel, and its
// defaults. Some platforms make a thread a conversation, whose parent is the group.
func (c Configuration) layers(q PolicyQuery) (names []PlaceName) {
	scopes := []PlaceName{{Level: OfDirect, Conversation: q.Conversation}}
	if q.Kind != Direct {
		scopes = []PlaceName{
			{Level: OfThread, Conversation: q.Conversation, Thread: q.Thread},
			{Level: OfThread, Conversation: q.Parent, Thread: q.Conversation},
			{Level: OfThread, Conversation: q.Parent, Thread: q.Thread},
			{Level: OfGroup, Conversation: q.Conversation},
			{Level: OfGroup, Conversation: q.Parent},
		}
	}
	for _, n := range append(scopes, PlaceName{Level: OfChannel}, PlaceName{}) {
		n.Channel = q.Channel
		for _, n.Account = range slices.Compact([]string{q.Account, ""}) {
			if c[n] != nil {
				names = append(names, n)
			}
		}
	}
	return names
}

// resolve returns the policy of a query: each setting is that of the first layer that has it, or else its default.
func (c Configuration) resolve(q PolicyQuery) Policy {
	layers := c.layers(q)
	p := Policy{Sources: make(map[string]string, len(settingsTable))}
	policy := reflect.ValueOf(&p).Elem()
	for _, s := range settingsTable {
		place, source := builtInPlace, builtIn+s.Key
		if i := slices.IndexFunc(layers, func(n PlaceName) bool { return !s.in(c[n]).IsZero() }); i >= 0 {
			place = c[layers[i]]
			if layers[i].Level != 0 {
				key, _ := s.At(layers[i].Level)
				source = yaml.Path(layers[i].Path()...) + "." + key
			}
		}
		if value := s.in(place); !value.IsZero() {
			policy.FieldByName(s.policy).Set(reflect.Indirect(value))
			p.Sources[s.Key] = source
		}
	}
	if slices.Equal(p.GroupAllowFrom, []string{Inherit}) {
		p.GroupAllowFrom = p.DMAllowFrom
		p.Sources[keyGroupAllowFrom] = cmp.Or(p.Sources[keyDMAllowFrom], p.Sources[keyGroupAllowFrom])
	}
	if p.Only != nil && strings.HasPrefix(p.Sources[keyEnabled], builtIn) { // the conversation has no setting of its own
		p.Sources[keyEnabled] = p.Sources[keyOnly]
		p.RouteAllowed = slices.ContainsFunc(p.Only, func(id string) bool { return id == Anyone || id == q.Conversation || id == q.Parent })
	}
	return p
}

// Tree is [Settings] from a configuration that can change while the server runs.
type Tree struct {
	// Commands becomes the field of every [Policy]. Set it before the first call of Policy.
	Commands func(text string, exact bool) bool

	current atomic.Pointer[Configuration] // nil: there is none
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
	t.current.Store(&c)
	return nil
}

// Policy returns the policy of a query. Without a configuration, it admits no one.
func (t *Tree) Policy(q PolicyQuery) Policy {
	c := t.current.Load()
	if c == nil {
		return Policy{ErrorNotice: true}
	}
	p := c.resolve(q)
	p.Commands = t.Commands
	return p
}
