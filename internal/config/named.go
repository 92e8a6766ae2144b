package config

import (
	"regexp"
	"slices"

	"github.com/lingserve/lingserve/internal/yaml"
)

// DefaultAgent is the agent that exists without a configuration.
const DefaultAgent = "assistant"

// agents begins the keys of settings of agents.
const agents = "agents."

// named is a section whose members have names of the user's.
type named struct {
	section  string // "agents"
	many     string // "agents"
	one      string // "an agent"
	name     *regexp.Regexp
	rule     string                                 // of the name, in words
	example  string                                 // of a member
	settings func(c *Config, name string) []Setting // makes the member if there is none
}

var (
	agentNames = named{"agents", "agents", "an agent", providerName, "only lower-case letters, digits, - and _", DefaultAgent + ": {model: …}", (*Config).agentSettings}
	modelNames = named{"models", "models", "a model", modelName, "the form PROVIDER:NAME, such as openai:gpt-6-luna", "openai:gpt-6-luna: {options: …}", (*Config).modelSettings}
	mcpNames   = named{
		"mcp", "servers", "an MCP server", regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`), "at most 32 lower-case letters, digits and -", "search: {url: …}",
		(*Config).mcpSettings,
	}

	// providerName matches the part of a model's name before the colon. Capitals would allow two spellings of one name.
	providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
	// modelName is "provider:name".
	modelName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*:[^\s,]+$`)
	// skillName is what the folder of a skill can be called.
	skillName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
)

// Agent returns the agent of this name.
func (c *Config) Agent(name string) (Agent, bool) {
	for _, a := range c.Agents {
		if a.Name == name {
			return *a, true
		}
	}
	return Agent{}, false
}

func (c *Config) agentSettings(name string) []Setting {
	return fileSettingsOf([]string{"agents", name}, element(&c.Agents, func(a *Agent) *string { return &a.Name }, name))
}

func (c *Config) modelSettings(name string) []Setting {
	return fileSettingsOf([]string{"models", name}, element(&c.Models, func(m *Model) *string { return &m.Name }, name))
}

func (c *Config) mcpSettings(name string) []Setting {
	return fileSettingsOf([]string{"mcp", name}, element(&c.MCP, func(s *MCPServer) *string { return &s.Name }, name))
}

// named reads the members of such a section. check checks the settings of one together.
func (l *loader) named(of named, n *yaml.Node, check func(at *yaml.Node, key string)) {
	for k, v := range l.members(n, []string{of.section}, "names with settings for %s, such as \"%s\"", of.many, of.example) {
		if l.namedOne(of, k, v) {
			check(k, of.section+"."+k.Text)
		}
	}
}

// namedOne reads one member. It returns false if the member has no settings. Nothing is a mapping without settings, which has the defaults.
func (l *loader) namedOne(of named, at, n *yaml.Node) bool {
	path := []string{of.section, at.Text}
	if !of.name.MatchString(at.Text) {
		l.Errorf(at, yaml.Path(path...), "invalid name; the name of %s has %s", of.one, of.rule)
		return false
	}
	known := of.settings(l.c, at.Text)
	l.applyElsewhere(known)
	l.readSettings(n, path, known, func(k, _ *yaml.Node, path []string) { l.unknownOf(of.one, k, path, 2, known) })
	l.c.settings = append(l.c.settings, known...)
	return n.Kind == yaml.Mapping || n.Kind == yaml.Null
}

// checkAgent refuses an agent with a tool in both lists of approvals, with a workflow and settings of a model, or with an invalid skill name.
func (l *loader) checkAgent(at *yaml.Node, key string) {
	a, _ := l.c.Agent(at.Text)
	for _, name := range a.Skills {
		if !skillName.MatchString(name) {
			l.Errorf(at, key+".skills", "%q is not a skill's name; expected lower-case letters, digits and -", name)
		}
	}
	for _, s := range l.c.agentSettings(at.Text) {
		name := s.path[2]
		ofModel := slices.Contains([]string{"model", "instructions", "tools", "skills", "ask_always", "ask_never", "options"}, name)
		if a.Workflow != "" && ofModel && l.c.sources[s.Key].Kind == File && s.text() != "" {
			l.Errorf(at, key, "workflow and %s do not go together; remove one of them, because the workflow's bots have their own", name)
		}
	}
	for _, pattern := range a.AskAlways {
		if slices.Contains(a.AskNever, pattern) {
			l.Errorf(at, key, "%s is in both ask_always and ask_never; remove it from one", pattern)
		}
	}
}

// checkMCP refuses a server that is no program and no address, or both.
func (l *loader) checkMCP(at *yaml.Node, key string) {
	has := func(field string) bool { return l.c.sources[key+"."+field].Kind == File }
	switch {
	case has("command") && has("url"):
		l.Errorf(at, key, "command and url do not go together; remove one of them")
	case has("url") && (has("args") || has("env")):
		l.Errorf(at, key, "args and env need a command; add command, or remove them")
	case has("command") && has("authorization"):
		l.Errorf(at, key, "authorization needs a url; add url, or remove it")
	case !has("command") && !has("url"):
		l.Errorf(at, key, "expected a command or a url")
	}
}

// element returns the element of a list with a name. It appends one if there is none.
func element[T any](list *[]*T, nameOf func(*T) *string, name string) *T {
	for _, e := range *list {
		if *nameOf(e) == name {
			return e
		}
	}
	e := new(T)
	*nameOf(e) = name
	*list = append(*list, e)
	return e
}

// lookup returns the first element that is accepts.
func lookup[T any](list []T, is func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	return found, false
}
