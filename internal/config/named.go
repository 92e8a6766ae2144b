package config

import (
	"regexp"
	"slices"

	"github.com/lingserve/lingserve/internal/yaml"
)

// DefaultAgent is the agent that exists without a configuration.
const DefaultAgent = "assistant"

// section is a section of the file whose members have names of the user's.
type section struct {
	name  string // "agents"
	names *regexp.Regexp
	rule  string                                     // of the names, in words
	add   func(l *loader, at, n *yaml.Node) bool     // adds the settings of a member; false: it has reported why it cannot
	check func(l *loader, at *yaml.Node, key string) // checks the settings of a member together
}

// nameRule is providerName in words.
const nameRule = "only lower-case letters, digits, - and _"

var (
	// providerName matches the part of a model's name before the colon. Capitals would allow two spellings of one name.
	providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
	mcpName      = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	// modelName is "provider:name".
	modelName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*:[^\s,]+$`)
	// skillName is what the folder of a skill can be called.
	skillName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
)

func namedSections() []section {
	return []section{
		{"providers", providerName, nameRule, (*loader).addProvider, (*loader).checkProvider},
		{"models", modelName, "PROVIDER:NAME, such as openai:gpt-6-luna", addNamed((*Config).modelSettings), nil},
		{"agents", providerName, nameRule, addNamed((*Config).agentSettings), (*loader).checkAgent},
		{"mcp", mcpName, "at most 32 lower-case letters, digits and -", addNamed((*Config).mcpSettings), (*loader).checkMCP},
		{"channels", providerName, nameRule, (*loader).addChannel, nil},
	}
}

// addNamed adds a member whose settings are always the same.
func addNamed(settings func(c *Config, name string) []Setting) func(l *loader, at, n *yaml.Node) bool {
	return func(l *loader, at, _ *yaml.Node) bool {
		l.add(settings(l.c, at.Text)...)
		return true
	}
}

// expand adds the settings below the names that the file has.
func (l *loader) expand(root *yaml.Node) {
	for _, s := range namedSections() {
		l.sections[s.name] = true
		for k, v := range root.Get(s.name).Members() {
			key := yaml.Path(s.name, k.Text)
			switch {
			case l.sections[key] || l.known[key]: // such as a preset
			case !s.names.MatchString(k.Text):
				l.Errorf(k, key, "invalid name; expected %s", s.rule)
				l.invalid[key] = true
			default:
				l.invalid[key] = !s.add(l, k, v)
			}
			if s.name == "providers" && !l.invalid[key] {
				l.addHeaders(k.Text, v.Get("headers"))
			}
			if s.check != nil && !l.invalid[key] && (v.Kind == yaml.Mapping || v.Kind == yaml.Null) {
				l.later = append(l.later, func() { s.check(l, k, key) })
			}
		}
	}
}

// Agent returns the agent of this name.
func (c *Config) Agent(name string) (Agent, bool) {
	a, ok := lookup(c.Agents, func(a *Agent) bool { return a.Name == name })
	if !ok {
		return Agent{}, false
	}
	return *a, true
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
		if a.Workflow != "" && ofModel && l.nodes[s.Key] != nil && s.text() != "" {
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
	s := element(&l.c.MCP, func(s *MCPServer) *string { return &s.Name }, at.Text)
	switch {
	case s.Command != "" && s.URL != "":
		l.Errorf(at, key, "command and url do not go together; remove one of them")
	case s.Command == "" && s.URL == "" && l.nodes[key+".url"] == nil:
		l.Errorf(at, key, "expected a command or a url")
	case s.Command == "" && len(s.Args)+len(s.Env) > 0:
		l.Errorf(at, key, "args and env need a command; add command, or remove them")
	case s.URL == "" && s.Authorization != "":
		l.Errorf(at, key, "authorization needs a url; add url, or remove it")
	}
}

// element returns the element of a list with a name. It appends one if there is none.
func element[T any](list *[]*T, nameOf func(*T) *string, name string) *T {
	e, ok := lookup(*list, func(e *T) bool { return *nameOf(e) == name })
	if !ok {
		e = new(T)
		*nameOf(e) = name
		*list = append(*list, e)
	}
	return e
}

// lookup returns the first element that is accepts.
func lookup[T any](list []T, is func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	return found, false
}
