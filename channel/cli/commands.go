package cli

import (
	"slices"
	"strings"
)

// cutComma returns what follows the mark of a command.
func cutComma(text string) (rest string, isCommand bool) {
	if rest, isCommand = strings.CutPrefix(text, ","); isCommand {
		return rest, true
	}
	return strings.CutPrefix(text, "，")
}

func (c *Chat) changeSession(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" || name == c.session {
		c.view.note("The session is "+c.session+". To start or continue another one, write ,session <name>.", plain)
		return
	}
	c.view.note("The session is "+Visible(name)+" from now on; it was "+c.session+".", plain)
	c.session = name
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
