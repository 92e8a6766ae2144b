package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

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
	case len(name) > maxSession || strings.ContainsFunc(name, unicode.IsControl):
		c.view.note(fmt.Sprintf("Invalid session name; expected up to %d bytes without line breaks.", maxSession), plain)
	default:
		c.view.note("The session is "+Visible(name)+" from now on; it was "+c.session+".", plain)
		c.session = name
	}
}

// complete returns what Tab adds to the text before the cursor: what follows in all names of commands that begin like it. If nothing does, it
// shows the names.
func (c *Chat) complete(text string) string {
	rest, isCommand := cutComma(text)
	word := "," + strings.ToLower(strings.TrimPrefix(rest, "help "))
	found := []string{",quit", ",session"}
	for _, one := range c.o.Commands {
		found = append(found, ","+one.Name)
	}
	found = slices.DeleteFunc(found, func(name string) bool { return !isCommand || !strings.HasPrefix(name, word) })
	switch len(found) {
	case 0:
		return ""
	case 1:
		return found[0][len(word):] + " "
	}
	slices.Sort(found)
	common := found[0]
	for !strings.HasPrefix(found[len(found)-1], common) {
		common = common[:len(common)-1]
	}
	if common == word {
		c.view.note(strings.Join(found, "  "), dim)
	}
	return common[len(word):]
}
