package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/cells"
)

// terminalCommands are those that the terminal runs; the agent does not see them.
var terminalCommands = []struct{ name, usage, help string }{
	{"quit", ",quit", "end the conversation, as Ctrl-D does"},
	{"session", ",session [name]", "show the session, or continue another one"},
	{"help", ",help [command]", "list the commands, or explain one"},
}

// commandNames returns the names of all commands, sorted.
func (c *Chat) commandNames() (names []string) {
	for _, one := range terminalCommands {
		names = append(names, one.name)
	}
	for _, one := range c.o.Commands {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	return names
}

// runCommand runs a command of the terminal. known is false for any other line.
func (c *Chat) runCommand(text string) (known, quit bool) {
	rest, isCommand := cutComma(text)
	if !isCommand {
		return false, false
	}
	name, rest, _ := strings.Cut(rest, " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToLower(name) {
	case "quit", "exit":
		return true, true
	case "session":
		c.changeSession(rest)
	case "help":
		return c.help(rest), false
	default:
		return false, false
	}
	return true, false
}

// cutComma returns what follows the mark of a command.
func cutComma(text string) (rest string, isCommand bool) {
	if rest, isCommand = strings.CutPrefix(text, ","); isCommand {
		return rest, true
	}
	return strings.CutPrefix(text, "，")
}

// maxSession bounds the name of a session, in bytes.
const maxSession = 256

func (c *Chat) changeSession(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case name == "" || name == c.session:
		c.view.note("The session is "+c.session+". To start or continue another one, write ,session <name>.", plain)
	case len(name) > maxSession || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		c.view.note(fmt.Sprintf("Invalid session name; expected up to %d bytes without line breaks.", maxSession), plain)
	default:
		c.view.note("The session is "+Visible(name)+" from now on; it was "+c.session+".", plain)
		c.session = name
	}
}

// help lists the commands, or explains one of the terminal. known is false for a command of the agent.
func (c *Chat) help(name string) (known bool) {
	name = strings.ToLower(strings.TrimPrefix(name, ","))
	if name != "" {
		for _, o := range terminalCommands {
			if o.name == name {
				c.view.note(o.usage+": "+o.help, plain)
				return true
			}
		}
		return false
	}
	var rows [][2]string
	for _, o := range terminalCommands {
		rows = append(rows, [2]string{"," + o.name, o.help})
	}
	for _, one := range c.o.Commands {
		rows = append(rows, [2]string{"," + one.Name, one.Help})
	}
	width := 0
	if c.o.Terminal != nil {
		width, _ = c.o.Terminal.size()
	}
	var b strings.Builder
	b.WriteString(cells.Table(rows, width))
	b.WriteString(",help <command> explains a command. Everything else goes to the agent. Lines that start with a space stay out of the history.")
	c.view.note(b.String(), plain)
	return true
}

// complete returns what Tab adds to the text before the cursor: what follows in all names of commands that begin like it. If nothing does, it
// shows the names.
func (c *Chat) complete(text string) string {
	word, isCommand := cutComma(text)
	word = strings.ToLower(strings.TrimPrefix(word, "help "))
	found := slices.DeleteFunc(c.commandNames(), func(name string) bool { return !strings.HasPrefix(name, word) })
	if !isCommand || len(found) == 0 {
		return ""
	}
	if len(found) == 1 {
		return found[0][len(word):] + " "
	}
	common := found[0]
	for !strings.HasPrefix(found[len(found)-1], common) { // the names are sorted
		common = common[:len(common)-1]
	}
	if common == word {
		c.view.note(strings.Join(found, "  "), dim)
	}
	return common[len(word):]
}
