package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/cells"
)

// own is a command that is the terminal's: the agent does not see it.
type own struct {
	name, usage, help string
}

var ownCommands = []own{
	{"quit", ",quit", "end the conversation, as Ctrl-D does"},
	{"session", ",session [name]", "show the session, or continue another one"},
	{"why", ",why", "explain why the last message was admitted or denied"},
	{"help", ",help [command]", "list the commands, or explain one"},
}

// do does what an own command says; known is false for a line that is none.
func (c *Chat) do(text string) (known, quit bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), ",")
	if !ok {
		if rest, ok = strings.CutPrefix(strings.TrimSpace(text), "，"); !ok {
			return false, false
		}
	}
	name, rest, _ := strings.Cut(rest, " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToLower(name) {
	case "quit", "exit":
		return true, true
	case "session":
		c.changeSession(rest)
	case "why":
		c.why()
	case "help":
		return c.help(rest), false
	default:
		return false, false
	}
	return true, false
}

// say writes a text of the terminal's own.
func (c *Chat) say(text string) { c.show.note(text, plain) }

// maxSession bounds the name of a session, in bytes.
const maxSession = 256

func (c *Chat) changeSession(name string) {
	c.mu.Lock()
	before := c.session
	c.mu.Unlock()
	switch {
	case name == "" || name == before:
		c.say("The session is " + before + ". To start or continue another one, write ,session <name>.")
	case len(name) > maxSession || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		c.say(fmt.Sprintf("Invalid session name; expected up to %d bytes without line breaks.", maxSession))
	default:
		c.mu.Lock()
		c.session = name
		c.mu.Unlock()
		c.say("The session is " + Visible(name) + " from now on; it was " + before + ".")
	}
}

// why shows what the gates said of the last line: of one that is being answered when that has ended.
func (c *Chat) why() {
	c.mu.Lock()
	last := c.last
	if n := len(c.running); n > 0 {
		r := c.running[n-1]
		r.why = true
		c.mu.Unlock()
		c.say(fmt.Sprintf("The agent is still answering “%s”. Write ,why again afterwards.", fit(line(r.message.text), 40)))
		return
	}
	c.mu.Unlock()
	if last == nil {
		c.say("There is no message yet.")
		return
	}
	c.explain(last)
}

// explain shows what came of a line.
func (c *Chat) explain(last *lastTurn) {
	r := last.result
	var b strings.Builder
	fmt.Fprintf(&b, "“%s”: %s", fit(line(last.text), 40), r.Admission.Kind)
	if r.Admission.Reason != "" {
		fmt.Fprintf(&b, " %s", r.Admission.Reason)
	}
	fmt.Fprintf(&b, ", %s\nsession %s, agent %s, turn %s\n", r.Outcome, r.SessionKey, r.Route.AgentID, r.TurnID)
	for _, v := range r.Verdicts {
		fmt.Fprintf(&b, "%-8s %-5s", v.Gate, v.State)
		if v.Reason != "" {
			fmt.Fprintf(&b, " %s", v.Reason)
		}
		if v.Setting != "" {
			fmt.Fprintf(&b, "  %s", v.Setting)
			if v.Value != "" {
				fmt.Fprintf(&b, " = %s", v.Value)
			}
		}
		if v.State == channel.Blocked && v.Hint != "" {
			fmt.Fprintf(&b, "\n         %s", v.Hint)
		}
		b.WriteByte('\n')
	}
	c.say(Visible(strings.TrimSuffix(b.String(), "\n")))
}

// help shows all commands; of one that is the agent's, the agent says how it is written.
func (c *Chat) help(name string) (known bool) {
	name = strings.ToLower(strings.TrimPrefix(name, ","))
	if name != "" {
		for _, o := range ownCommands {
			if o.name == name {
				c.say(o.usage + ": " + o.help)
				return true
			}
		}
		return false
	}
	var rows [][2]string
	for _, o := range ownCommands {
		rows = append(rows, [2]string{"," + o.name, o.help})
	}
	for _, one := range c.o.Commands {
		if one.Name != "help" {
			rows = append(rows, [2]string{"," + one.Name, one.Help})
		}
	}
	width := 0
	if c.o.Terminal != nil {
		width, _ = c.o.Terminal.Size()
	}
	var b strings.Builder
	b.WriteString(cells.Table(rows, width))
	b.WriteString(",help <command> explains a command. Everything else goes to the agent. Lines that start with a space stay out of the history.")
	c.say(b.String())
	return true
}
