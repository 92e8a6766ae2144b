package config

import (
	"regexp"
	"slices"

	"github.com/lingserve/lingserve/internal/yaml"
)

// DefaultAgent is the agent that exists without a configuration.
const DefaultAgent = "assistant"

// Agent returns the agent of this name.
func (c *Config) Agent(name string) (Agent, bool) {
	return lookup(c.Agents, func(a Agent) bool { return a.Name == name })
}

// agent is where the settings of an agent go.
func (c *Config) agent(name string) *Agent {
	return element(&c.Agents, func(e *Agent) bool { return e.Name == name }, Agent{Name: name})
}

// agents begins the keys of settings of agents.
const agents = "agents."

func agentSettings(name string) []Setting {
	return inFile(settingsOf([]string{"agents", name}, func(c *Config) *Agent { return c.agent(name) }))
}

var agentNames = named{"agents", "agents", "an agent", providerName, "only lower-case letters, digits, - and _", DefaultAgent + ": {model: …}", agentSettings}

// skillName is what the folder of a skill can be called.
var skillName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// checkAgent refuses an agent with a tool in both lists of approvals, with a workflow and settings of a model, or with an invalid skill name.
func (l *loader) checkAgent(at *yaml.Node, key string) {
	a := l.c.agent(at.Text)
	for _, name := range a.Skills {
		if !skillName.MatchString(name) {
			l.Errorf(at, key+".skills", "%q is not a skill's name; expected lower-case letters, digits and -", name)
		}
	}
	for _, s := range agentSettings(at.Text) {
		name := s.path[2]
		ofModel := slices.Contains([]string{"model", "instructions", "tools", "skills", "ask_always", "ask_never", "options"}, name)
		if a.Workflow != "" && ofModel && l.c.sources[s.Key].Kind == File && s.text(l.c) != "" {
			l.Errorf(at, key, "workflow and %s do not go together; remove one of them, because the workflow's bots have their own", name)
		}
	}
	for _, pattern := range a.AskAlways {
		if slices.Contains(a.AskNever, pattern) {
			l.Errorf(at, key, "%s is in both ask_always and ask_never; remove it from one", pattern)
		}
	}
}
