package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var assistant = Agent{Name: DefaultAgent, MaxSteps: 50, ToolTimeout: time.Minute, ApprovalTimeout: 24 * time.Hour, OnUnknown: "tell", Summarize: true}

func TestTheAssistantIsThereWithoutAnyConfiguration(t *testing.T) {
	for _, file := range []string{"", "agents:\n", "agents: {}\n", "agents: {assistant: }\n"} {
		if diff := cmp.Diff([]*Agent{&assistant}, mustLoad(t, file, nil).Agents); diff != "" {
			t.Errorf("%q: %s", file, diff)
		}
	}
}

func TestTheFileAddsAgentsAndChangesTheAssistant(t *testing.T) {
	c := mustLoad(t, `
agents:
  clerk:
    model: [openai:gpt-4o-mini, demo:fast]
    instructions: |
      You are a clerk.
      Be short.
    tools: [mcp.search.*]
    skills: [invoices, pdf-forms]
    ask_always: [fs.*, tape.handoff]
    ask_never: ["mcp.search.*"]
    max_steps: 5
    tool_timeout: 10s
    approval_timeout: 1h
    on_unknown: ask
    summarize: false
    max_context: 100000
    timezone: Europe/Berlin
  assistant: {model: demo:fast}
  writer: {workflow: chat}
  bare:
`, nil)
	mine := assistant
	mine.Model = "demo:fast"
	bare := assistant
	bare.Name = "bare"
	writer := assistant
	writer.Name, writer.Workflow = "writer", "chat"
	want := []*Agent{&mine, {
		Name: "clerk", Model: "openai:gpt-4o-mini,demo:fast", Instructions: "You are a clerk.\nBe short.",
		Tools: []string{"mcp.search.*"}, Skills: []string{"invoices", "pdf-forms"}, AskAlways: []string{"fs.*", "tape.handoff"}, AskNever: []string{"mcp.search.*"},
		MaxSteps: 5, ToolTimeout: 10 * time.Second, ApprovalTimeout: time.Hour, OnUnknown: "ask", MaxContext: 100_000, Timezone: "Europe/Berlin", // DC-14, DC-17
	}, &writer, &bare}
	if diff := cmp.Diff(want, c.Agents); diff != "" {
		t.Error(diff)
	}
	if got, ok := c.Agent("clerk"); !ok || got.MaxSteps != 5 {
		t.Errorf("%+v", got)
	}
	if _, ok := c.Agent("nobody"); ok {
		t.Error("an agent that nobody has configured")
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	if again := mustLoad(t, b.String(), nil); cmp.Diff(c.Agents[1:2], again.Agents[1:2]) != "" {
		t.Errorf("what is printed says something else: %s\n%s", cmp.Diff(c.Agents, again.Agents), b.String())
	}
}

func TestInstructionsCanStandInAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"lingserve.yaml": "agents: {clerk: {instructions: {file: clerk.md}}}", "clerk.md": "# You are\na clerk: short.\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Agent("clerk"); got.Instructions != "# You are\na clerk: short." {
		t.Errorf("%q", got.Instructions)
	}
}

func TestAWrongAgentIsRefusedWithItsLine(t *testing.T) {
	for file, want := range map[string]string{
		"agents: [a]":                                         "lingserve.yaml:1:9: agents: expected settings, one per line, such as \"assistant: …\"",
		"agents:\n  Big: {}":                                  "lingserve.yaml:2:3: agents.Big: invalid name; expected only lower-case letters, digits, - and _",
		"agents:\n  a: demo:fast":                             "lingserve.yaml:2:6: agents.a: expected settings, one per line, such as \"model: …\"",
		"agents:\n  a:\n    modle: demo:fast":                 "lingserve.yaml:3:5: agents.a.modle: unknown setting; did you mean agents.a.model?",
		"agents:\n  a:\n    colour: red":                      "lingserve.yaml:3:5: agents.a.colour: unknown setting",
		"agents:\n  a:\n    model: fast":                      "lingserve.yaml:3:12: agents.a.model: \"fast\" is no model; expected PROVIDER:NAME, such as openai:gpt-6-luna",
		"agents:\n  a:\n    max_steps: 0":                     "lingserve.yaml:3:16: agents.a.max_steps: 0 is too small; expected at least 1",
		"agents:\n  a:\n    timezone: Berlin":                 "lingserve.yaml:3:15: agents.a.timezone: \"Berlin\" is not a time zone; expected a name such as Europe/Berlin, UTC, or Local for the server's", // DC-17
		"agents:\n  a:\n    tool_timeout: soon":               "lingserve.yaml:3:19: agents.a.tool_timeout: \"soon\" is invalid; expected a duration, such as 30s or 5m",
		"agents:\n  a: {ask_always: [x, y], ask_never: [y]}":  "lingserve.yaml:2:3: agents.a: y is in both ask_always and ask_never; remove it from one",
		"agents:\n  a: {workflow: chat, model: demo:fast}":    "lingserve.yaml:2:3: agents.a: workflow and model do not go together; remove one of them, because the workflow's bots have their own",
		"agents:\n  a: {skills: [invoices, ../etc]}":          "lingserve.yaml:2:3: agents.a.skills: \"../etc\" is not a skill's name; expected lower-case letters, digits and -",
		"agents:\n  a: {instructions: {file: nothing-there}}": "lingserve.yaml:2:28: agents.a.instructions: cannot read the file: nothing-there: no such file or directory",
	} {
		t.Chdir(t.TempDir())
		if err := os.WriteFile("lingserve.yaml", []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(nil, nil); err == nil || err.Error() != want {
			t.Errorf("%q:\n%v\nwant\n%s", file, err, want)
		}
	}
}
