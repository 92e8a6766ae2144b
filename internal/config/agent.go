package config

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/yaml"
)

// DefaultAgent is the agent that exists without a configuration.
const DefaultAgent = "assistant"

// Agent is an agent that runs and sessions name. [DefaultAgent] comes first, then those that the configuration file adds, in its order.
type Agent struct {
	Name            string
	Model           string   // "" is the default model; several, joined with commas, are a fallback chain
	Workflow        string   // answers in place of a model; "" is none
	Instructions    string   // "" is what every agent is told
	Tools           []string // of MCP servers, by name or pattern; empty is all
	Skills          []string // by name; empty is all
	AskAlways       []string
	AskNever        []string
	MaxSteps        int
	ToolTimeout     time.Duration
	ApprovalTimeout time.Duration
	OnUnknown       string // "tell" or "ask"
	Summarize       bool
	MaxContext      int    // tokens; 0 is no limit
	Timezone        string // "" is UTC
	Options         adapter.Options
}

// Agent returns the agent of this name.
func (c *Config) Agent(name string) (Agent, bool) {
	return lookup(c.Agents, func(a Agent) bool { return a.Name == name })
}

// agent is where the settings of an agent go.
func (c *Config) agent(name string) *Agent {
	return element(&c.Agents, func(e *Agent) bool { return e.Name == name }, Agent{Name: name})
}

// agents is the section of agents, whose members may have any name.
const agents = "agents."

// agentSettings are the settings of one agent. They stand in the file alone: the names of agents are the user's.
func agentSettings(name string) []Setting {
	return bindInFile(agents+name+".", func(c *Config) *Agent { return c.agent(name) }, agentTable)
}

var agentTable = []Setting{
	{Key: "model", check: unlessEmpty(checkModel), chain: true, Help: "model that answers, or a fallback chain; unset: the default model"},
	{Key: "workflow", Help: "workflow that answers in place of a model, with its own bots and tools"},
	{Key: "instructions", Help: "instructions, as text or {file: PATH}"},
	{Key: "tools", Help: "tools of MCP servers, by name or as mcp.search.*; unset: all"},
	{Key: "skills", Help: "skills by name; unset: all"},
	{Key: "ask_always", Help: "tools that always need approval, such as tape.*"},
	{Key: "ask_never", Help: "tools that never need approval"},
	{Key: "max_steps", Default: "50", Min: "1", Help: "calls of the model for one message"},
	{Key: "tool_timeout", Default: "1m", Min: "1ms", Help: "timeout of a tool call, if the tool has none"},
	{
		Key: "approval_timeout", Default: "24h", Min: "1ms", check: atMost30Days,
		Help: "how long a call waits for approval before it is denied, at most 720h; in chats at most 5m",
	},
	{
		Key: "on_unknown", Default: "tell", OneOf: []string{"tell", "ask"},
		Help: "if a crash stops a call that must not run twice: tell the model that its outcome is unknown, or ask a person if it runs again",
	},
	{Key: "summarize", Default: "true", Help: "summarize the old part of a session that is too long"},
	{
		Key: "max_context", Default: "0", Min: "0",
		Help: "estimated tokens of a request above which a session is too long; 0: when the model refuses it",
	},
	{Key: "timezone", check: unlessEmpty(channel.CheckTimezone), Help: "time zone of dates, such as Europe/Berlin, if the channel has none; unset: UTC"},
	{Key: "options", optional: true, Help: "options of the model; the request overrides them"},
}

var agentNames = named{"agents", "agents", "an agent", providerName, "only lower-case letters, digits, - and _", DefaultAgent + ": {model: …}", agentSettings}

// skillName is what the folder of a skill can be called.
var skillName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// checkAgent refuses an agent with a tool in both lists of approvals, with a workflow and settings of a model, or with an invalid skill name.
func (r *fileReader) checkAgent(at *yaml.Node, key string) {
	if skills := r.values[key+".skills"]; skills != nil {
		for _, name := range skills.items() {
			if !skillName.MatchString(name) {
				r.Errorf(at, key+".skills", "%q is not a skill's name; expected lower-case letters, digits and -", name)
			}
		}
	}
	if of := r.values[key+".workflow"]; of != nil && of.text != "" {
		for _, other := range []string{"model", "instructions", "tools", "skills", "ask_always", "ask_never", "options"} {
			if v := r.values[key+"."+other]; v != nil && (v.text != "" || len(v.list) > 0) {
				r.Errorf(at, key, "workflow and %s do not go together; remove one of them, because the workflow's bots have their own", other)
			}
		}
	}
	for _, pattern := range r.conflictingPatterns(key) {
		r.Errorf(at, key, "%s is in both ask_always and ask_never; remove it from one", pattern)
	}
}

// conflictingPatterns returns the patterns that are in both ask_always and ask_never.
func (r *fileReader) conflictingPatterns(key string) (list []string) {
	always, never := r.values[key+".ask_always"], r.values[key+".ask_never"]
	if always == nil || never == nil {
		return nil
	}
	for _, pattern := range always.items() {
		if slices.Contains(never.items(), pattern) {
			list = append(list, pattern)
		}
	}
	return list
}

// items are those of a list, however it was written.
func (v *value) items() []string {
	if v.list != nil {
		return v.list
	}
	return splitList(v.text)
}

// defaultAgent sets the defaults of [DefaultAgent] if the file does not mention it.
func (l *loader) defaultAgent() {
	if slices.ContainsFunc(l.c.settings, func(s Setting) bool { return strings.HasPrefix(s.Key, agents+DefaultAgent+".") }) {
		return
	}
	for _, s := range agentSettings(DefaultAgent) {
		l.apply(s, nil)
	}
}
