package channel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Configuration is what the section channels of a configuration says, for [Tree.Set]. It is not changed after that.
type Configuration struct {
	Channels map[string]ChannelPlace
	Routes   []Rule // beside what the settings "agent" say, which come after
}

// ChannelPlace is what the configuration says of a channel.
type ChannelPlace struct {
	AccountPlace
	Accounts map[string]AccountPlace // what is of one account alone
	Shipped  Place                   // what the channel has for defaults of its own
}

// AccountPlace is what it says of one account, or of all.
type AccountPlace struct {
	Place
	Directs map[string]Place      // by conversation
	Groups  map[string]GroupPlace // by conversation
}

// GroupPlace is what it says of one group.
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

var errGroupPairing = errors.New("pairing works only in direct conversations; expected disabled, open or allowlist")

// checkList is what can be said of a list by itself.
func checkList(key string, entries []string) error {
	for _, entry := range entries {
		switch {
		case strings.TrimSpace(entry) != entry || entry == "":
			return fmt.Errorf("the entry %q is empty, or has spaces around it", entry)
		case entry == Anyone && (key == keyUsers || key == keyOperators || key == keyAdmins):
			return errors.New(`"*" would give commands to everybody; set commands.mode: senders to give them to all admitted senders`)
		case entry == Inherit && key == keyGroupAllowFrom && len(entries) > 1:
			return errors.New("inherit must be the only entry, because it is the whole list of dm")
		case entry == Inherit && key == keyDMAllowFrom:
			return errors.New("inherit works only in groups.allow_from")
		}
	}
	return nil
}

// Check returns what is wrong with the settings: each mistake a [*SettingError], in order of their paths.
func (c Configuration) Check() error {
	found := map[SettingError]bool{}
	for name := range c.Channels {
		for where := range c.places(name) {
			if strings.HasSuffix(where.path, `."".`) {
				found[SettingError{strings.TrimSuffix(where.path, "."), "expected a name or an id, got none"}] = true
			}
			for _, s := range settingsTable {
				c.checkOne(s, where, found)
			}
			c.checkWhole(where.query, found)
		}
	}
	errs := slices.SortedFunc(maps.Keys(found), func(a, b SettingError) int {
		return strings.Compare(a.Path+"\x00"+a.Message, b.Path+"\x00"+b.Message)
	})
	var all []error
	for _, e := range errs {
		all = append(all, &e)
	}
	if _, err := NewRoutes(c.Routes); err != nil {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// checkOne looks at what stands in one place by itself.
func (c Configuration) checkOne(s Setting, where placed, found map[SettingError]bool) {
	if !s.has(where.place) {
		return
	}
	key, ok := s.At(where.level)
	fail := func(err error) { found[SettingError{where.path + key, err.Error()}] = true }
	if !ok {
		fail(errors.New("this setting does not work here"))
		return
	}
	var p Policy
	s.into(&p, where.place)
	switch s.Key {
	case keyGroupPolicy:
		if p.Group == PolicyPairing {
			fail(errGroupPairing)
			return
		}
	case keyOnly:
		if err := checkList(s.Key, where.place.Only); err != nil {
			fail(err)
		}
	}
	for _, l := range []struct {
		key     string
		entries []string
	}{
		{keyDMAllowFrom, p.DMAllowFrom},
		{keyGroupAllowFrom, p.GroupAllowFrom},
		{keyPatterns, p.Patterns},
		{keyUsers, p.Users},
		{keyOperators, p.Operators},
		{keyAdmins, p.Admins},
		{keyImplicit, texts(p.Implicit)},
	} {
		if l.key == s.Key {
			if err := s.SetList(new(Place), l.entries); err != nil {
				fail(err)
			}
		}
	}
	for _, v := range []struct{ key, value string }{
		{keyDMPolicy, string(p.DM)},
		{keyGroupPolicy, string(p.Group)},
		{keyUnmentioned, string(p.Unmentioned)},
		{keyAllowBots, string(p.AllowBots)},
		{keyVisibility, string(p.Visibility)},
		{keyCommandMode, string(p.CommandMode)},
		{keyOnBusy, p.OnBusy},
		{keyTimezone, p.Timezone},
		{keySenderIDs, p.SenderIDs},
	} {
		if v.key == s.Key {
			if err := s.Set(new(Place), v.value); err != nil {
				fail(err)
			}
		}
	}
}

func texts[T ~string](list []T) []string {
	l := make([]string, len(list))
	for i, v := range list {
		l[i] = string(v)
	}
	return l
}

// checkWhole looks at what the levels come to together.
func (c Configuration) checkWhole(q PolicyQuery, found map[SettingError]bool) {
	p := c.resolve(q)
	const msg = `"*" in the list has no effect with the policy `
	if (p.DM == PolicyAllowlist || p.DM == PolicyPairing) && slices.Contains(p.DMAllowFrom, Anyone) {
		found[SettingError{p.Sources[keyDMAllowFrom], msg + string(p.DM) + "; set dm.policy: open to admit everybody"}] = true
	}
	if p.Group == PolicyAllowlist && slices.Contains(p.GroupAllowFrom, Anyone) {
		found[SettingError{p.Sources[keyGroupAllowFrom], msg + string(p.Group) + "; set groups.policy: open to admit everybody"}] = true
	}
}

// placed is a place, where it is in the configuration, and what is asked to come by it.
type placed struct {
	place *Place
	path  string // with a dot at its end
	level Level
	query PolicyQuery
}

// places yields all places of a channel.
func (c Configuration) places(channel string) func(yield func(placed) bool) {
	return func(yield func(placed) bool) {
		ch := c.Channels[channel]
		base := "channels." + pathPart(channel) + "."
		if !ch.AccountPlace.places(base, PolicyQuery{Channel: channel}, OfChannel, yield) {
			return
		}
		for name, a := range ch.Accounts {
			if !a.places(base+"accounts."+pathPart(name)+".", PolicyQuery{Channel: channel, Account: name}, OfAccount, yield) {
				return
			}
		}
	}
}

func (a AccountPlace) places(base string, q PolicyQuery, level Level, yield func(placed) bool) bool {
	if !yield(placed{&a.Place, base, level, q}) {
		return false
	}
	for id, d := range a.Directs {
		q := q
		q.Kind, q.Conversation = Direct, id
		if !yield(placed{&d, base + "dm." + pathPart(id) + ".", OfDirect, q}) {
			return false
		}
	}
	for id, g := range a.Groups {
		q := q
		q.Kind, q.Conversation = Group, id
		path := base + "groups." + pathPart(id) + "."
		if !yield(placed{&g.Place, path, OfGroup, q}) {
			return false
		}
		for id, t := range g.Threads {
			q.Thread = id
			if !yield(placed{&t, path + "threads." + pathPart(id) + ".", OfThread, q}) {
				return false
			}
		}
	}
	return true
}

// pathPart quotes a name that could be taken for more of a path than one part.
func pathPart(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '.' || r == '"' || r == 0x7f }) {
		return strconv.Quote(s)
	}
	return s
}

// layer is one level that a query meets.
type layer struct {
	place *Place
	path  string
	level Level
}

// layers are the levels that a query meets, the most specific first. The built-in ones have no path.
func (c Configuration) layers(q PolicyQuery) []layer {
	ch, ok := c.Channels[q.Channel]
	if !ok {
		return []layer{{place: builtInPlace}}
	}
	base := "channels." + pathPart(q.Channel) + "."
	var threads, groups, rest []layer
	of := func(a AccountPlace, base string, level Level) {
		if q.Kind == Direct {
			if d, ok := a.Directs[q.Conversation]; ok {
				groups = append(groups, layer{&d, base + "dm." + pathPart(q.Conversation) + ".", OfDirect})
			}
		} else {
			for _, at := range [...]struct{ group, thread string }{
				{q.Conversation, q.Thread}, {q.Parent, q.Conversation}, {q.Parent, q.Thread},
			} {
				g, ok := a.Groups[at.group]
				t, has := g.Threads[at.thread]
				if ok && has && at.group != "" && at.thread != "" {
					threads = append(threads, layer{
						&t, base + "groups." + pathPart(at.group) + ".threads." + pathPart(at.thread) + ".", OfThread,
					})
				}
			}
			for _, id := range [...]string{q.Conversation, q.Parent} {
				if g, ok := a.Groups[id]; ok && id != "" {
					groups = append(groups, layer{&g.Place, base + "groups." + pathPart(id) + ".", OfGroup})
				}
			}
		}
		rest = append(rest, layer{&a.Place, base, level})
	}
	if a, ok := ch.Accounts[q.Account]; ok {
		of(a, base+"accounts."+pathPart(q.Account)+".", OfAccount)
	}
	of(ch.AccountPlace, base, OfChannel)
	return slices.Concat(threads, groups, rest, []layer{{place: &ch.Shipped}, {place: builtInPlace}})
}

// resolve takes every field from the first level that says something of it. What is said of the conversation as such comes later,
// for it depends on its id.
func (c Configuration) resolve(q PolicyQuery) resolution {
	layers := c.layers(q)
	r := resolution{Policy: Policy{Sources: make(map[string]string, len(settingsTable))}}
	for _, s := range settingsTable {
		for _, l := range layers {
			if !s.has(l.place) {
				continue
			}
			s.into(&r.Policy, l.place)
			if s.Key == keyOnly {
				r.only = l.place.Only
			}
			if l.path == "" {
				r.Sources[s.Key] = builtIn + s.Key
			} else {
				key, _ := s.At(l.level)
				r.Sources[s.Key] = l.path + key
				r.enabled = r.enabled || s.Key == keyEnabled
			}
			break
		}
	}
	if slices.Equal(r.GroupAllowFrom, []string{Inherit}) {
		r.GroupAllowFrom = r.DMAllowFrom
		if from, ok := r.Sources[keyDMAllowFrom]; ok {
			r.Sources[keyGroupAllowFrom] = from
		}
	}
	if !r.enabled && r.only != nil {
		r.Sources[keyEnabled] = r.Sources[keyOnly]
	}
	return r
}

// resolution is a policy for all conversations that the configuration does not tell apart.
type resolution struct {
	Policy
	enabled bool     // is said of the conversation or the thread
	only    []string // the conversations that are allowed, where enabled is not said
}

func (r *resolution) of(q PolicyQuery) Policy {
	p := r.Policy
	if !r.enabled && r.only != nil {
		p.RouteAllowed = slices.ContainsFunc(r.only, func(id string) bool {
			return id == Anyone || id == q.Conversation || id == q.Parent
		})
	}
	return p
}

var (
	_ Settings = (*Tree)(nil)
	_ Routes   = (*Tree)(nil)
	_ Routes   = (*RouteTable)(nil)
	_ Pairing  = (*Pairs)(nil)
)

// Tree is [Settings] and [Routes] by a configuration that may change while the server runs.
type Tree struct {
	// Commands is that of every [Policy]. It is set before the first one is asked for.
	Commands func(text string, exact bool) bool

	now atomic.Pointer[tree]
	mu  sync.Mutex // of Set
}

// tree is one state of a Tree.
type tree struct {
	config     Configuration
	routes     *RouteTable
	generation uint64

	mu       sync.RWMutex
	resolved map[PolicyQuery]*resolution // as many as the configuration tells apart
}

// NewTree returns the settings of a configuration; an error joins [SettingError]s.
func NewTree(c Configuration) (*Tree, error) {
	t := new(Tree)
	return t, t.Set(c)
}

// Set is the configuration from now on, unless something is wrong with it. Turns that were authorized before are asked again.
func (t *Tree) Set(c Configuration) error {
	if err := c.Check(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	next := &tree{config: c, routes: c.routes(), generation: t.Generation() + 1, resolved: map[PolicyQuery]*resolution{}}
	t.now.Store(next)
	return nil
}

// Generation is another one after every change.
func (t *Tree) Generation() uint64 {
	if now := t.now.Load(); now != nil {
		return now.generation
	}
	return 0
}

// Policy is the settings for a place. It admits nobody where no configuration was set.
func (t *Tree) Policy(q PolicyQuery) Policy {
	now := t.now.Load()
	if now == nil {
		return Policy{}
	}
	key := now.config.same(q)
	now.mu.RLock()
	r := now.resolved[key]
	now.mu.RUnlock()
	if r == nil {
		got := now.config.resolve(key)
		got.Generation = now.generation
		r = &got
		now.mu.Lock()
		now.resolved[key] = r
		now.mu.Unlock()
	}
	p := r.of(q)
	p.Commands = t.Commands
	return p
}

// Route is the agent for a place.
func (t *Tree) Route(q RouteQuery) (agent string, ok bool) {
	now := t.now.Load()
	if now == nil {
		return "", false
	}
	return now.routes.Route(q)
}

// same is the query that stands for all that the configuration does not tell apart from q: what it does not name is left out.
func (c Configuration) same(q PolicyQuery) PolicyQuery {
	ch, ok := c.Channels[q.Channel]
	if !ok {
		return PolicyQuery{}
	}
	a, ok := ch.Accounts[q.Account]
	if !ok {
		q.Account = ""
	}
	if q.Kind == Direct {
		_, there := a.Directs[q.Conversation]
		if _, ok := ch.Directs[q.Conversation]; !ok && !there {
			q.Conversation = ""
		}
		q.Parent, q.Thread = "", ""
		return q
	}
	q.Kind = Group
	named := func(group, thread string) (g, t bool) {
		for _, groups := range [...]map[string]GroupPlace{a.Groups, ch.Groups} {
			if place, ok := groups[group]; ok && group != "" {
				_, has := place.Threads[thread]
				g, t = true, t || has && thread != ""
			}
		}
		return g, t
	}
	conversation, thread := named(q.Conversation, q.Thread)
	parent, asThread := named(q.Parent, q.Conversation)
	_, ofParent := named(q.Parent, q.Thread)
	if !conversation && !asThread {
		q.Conversation = ""
	}
	if !parent {
		q.Parent = ""
	}
	if !thread && !ofParent {
		q.Thread = ""
	}
	return q
}
