// Package command answers the comma commands of an agent: messages such as ",help" or ",tape.search weather" that no model
// is asked about.
//
// # Guarantees
//   - A message is a command only where it begins with a comma and the name of one. Where the name is close to one, the
//     answer says so; every other text is ordinary text.
//   - A command runs no program, expands nothing and reads no file: words are cut as a shell cuts them, and that is all.
//   - Who may run a command depends on the role that the caller of [Set.Run] gives, and on nothing in the text.
//   - A reply holds no text of an error but that of an [Error], and is bounded.
package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// Command is one command.
type Command struct {
	Name   string    // small letters, digits and dots
	Role   tool.Role // the lowest that may run it
	Params []Param
	Help   string // one line
	// Immediate commands are answered at once, without waiting for the lane of the session.
	Immediate bool
}

// Func answers a command. What it returns is Markdown that is also good to read as plain text. An error that the person may read is an [*Error].
type Func func(context.Context, Args) (string, error)

// Param is an argument of a command. It is given by its place or, after the last that is, as name=value.
type Param struct {
	Name     string
	Required bool
	// Rest makes the last one take all words that are left, joined by spaces, also behind name=value.
	Rest bool
}

// Usage is how a command is written: what is in brackets may be left out.
func (c *Command) Usage() string {
	var b strings.Builder
	b.WriteString("," + c.Name)
	for _, p := range c.Params {
		if p.Required {
			b.WriteString(" <" + p.Name + ">")
		} else {
			b.WriteString(" [" + p.Name + "]")
		}
	}
	return b.String()
}

// Error is an error whose text the person who wrote the command may read; its cause is for the log. Of every other error the reply says only
// that there was one.
type Error struct {
	Message string
	Cause   error
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes an [Error].
func Errorf(format string, args ...any) error { return &Error{Message: fmt.Sprintf(format, args...)} }

// Status says how a command went.
type Status string

const (
	OK      Status = "ok"
	Failed  Status = "error"   // wrong arguments, or it could not be done
	Refused Status = "refused" // the role is too low
)

// Reply is the answer to a command.
type Reply struct {
	Name    string // of the command; an unknown one is as it was written
	Status  Status
	Output  string // at most 16 KiB
	Elapsed time.Duration
	Err     error // for the log; nil where Output says everything
}

// Server is an MCP server.
type Server struct {
	Name  string
	State string // "connected", or the reason why it is not: a word or two that users may read
	Tools int
}

// Exported is the file that a tape was written to.
type Exported struct {
	Name    string // of the file, in the folder for exports
	Entries int64
	Bytes   int64
}

// maxOutput bounds a reply, in bytes: it becomes a message, and an entry of the tape.
const maxOutput = 16 << 10

// Set is a list of commands, in the order of the help.
type Set []*Command

// New returns the commands of every agent.
func New() Set {
	required := func(name string) Param { return Param{Name: name, Required: true} }
	rest := func(name string, required bool) Param { return Param{Name: name, Required: required, Rest: true} }
	return Set{
		{Name: "help", Immediate: true, Params: []Param{{Name: "command"}}, Help: "list the commands, or explain one"},
		{Name: "tape.info", Help: "show the length of this conversation and what the model sees"},
		{Name: "tape.anchors", Help: "list the anchors, where the model's memory starts, newest first"},
		{Name: "tape.handoff", Params: []Param{required("name"), rest("summary", false)}, Help: "start a new phase: the model sees only the summary and what follows"},
		{Name: "tape.search", Params: []Param{rest("query", true)}, Help: "find entries of the conversation that have all these words"},
		{Name: "model", Params: []Param{{Name: "name"}}, Help: "show the model, or choose another one"},
		{Name: "tools", Help: "list the agent's tools"},
		{Name: "skill", Params: []Param{{Name: "name"}}, Help: "list the agent's skills, or show one"},
		{Name: "stop", Immediate: true, Help: "stop the current answer and waiting messages"},
		{Name: "approve", Immediate: true, Params: []Param{required("id"), {Name: "remember"}}, Help: "approve a tool call; remember=session approves the tool for this session"},
		{Name: "deny", Immediate: true, Params: []Param{required("id"), rest("reason", false)}, Help: "deny a tool call"},
		{Name: "ask", Params: []Param{{Name: "tool"}}, Help: "list the tools that are approved for this session, or ask again before calls of one"},
		{Name: "tape.fork", Role: tool.Operator, Params: []Param{{Name: "at"}}, Help: "fork this session, up to an entry or completely"},
		{Name: "mcp", Role: tool.Operator, Help: "list the MCP servers and their state"},
		{Name: "tape.export", Role: tool.Admin, Help: "write the conversation to a file on the server"},
		{Name: "forget", Role: tool.Admin, Params: []Param{{Name: "code"}}, Help: "erase this session, after a confirmation"},
	}
}

// Commands are the commands of the set that a role may run, in the order of the help.
func (s Set) Commands(role tool.Role) Set {
	return slices.DeleteFunc(slices.Clone(s), func(c *Command) bool { return c.Role > role })
}

// Match is a message that is a command, or was probably meant to be one.
type Match struct {
	Command *Command // nil if the name is unknown
	Near    *Command // then: the one whose name is close
	Name    string   // as it was written
	rest    string   // behind the name
}

// Immediate reports whether the command is answered without waiting for the lane of the session. A mistyped name counts
// as the command that was meant.
func (m Match) Immediate() bool {
	if m.Command == nil {
		return m.Near != nil && m.Near.Immediate
	}
	return m.Command.Immediate
}

// Match says whether text is a command. The comma may be the wide one of Chinese and Japanese keyboards, the case of the name
// does not matter, and an underscore stands for a dot.
func (s Set) Match(text string) (Match, bool) {
	name, ok := turn.CommandName(text)
	if !ok {
		return Match{}, false
	}
	_, rest, _ := strings.Cut(text, name)
	m := Match{Name: name, rest: rest}
	name = strings.ReplaceAll(strings.ToLower(name), "_", ".")
	names := make([]string, len(s))
	for i, c := range s {
		names[i] = c.Name
	}
	if i := slices.Index(names, name); i >= 0 {
		m.Command = s[i]
	} else if i := slices.Index(names, edits.Nearest(name, names)); i >= 0 && len(name) > 2 { // shorter ones are near to many
		m.Near = s[i]
	}
	return m, m.Command != nil || m.Near != nil
}

// Has reports whether text begins with a command of the set. exact excludes names that are only close to one.
func (s Set) Has(text string, exact bool) bool {
	m, ok := s.Match(text)
	return ok && (m.Command != nil || !exact)
}

// Run answers a command of a person in this role with the function of its name. It always has a reply; where ctx ends, the reply says so.
func (s Set) Run(ctx context.Context, funcs map[string]Func, role tool.Role, m Match) (r Reply) {
	defer func(begin time.Time) {
		r.Output, r.Elapsed = wording.ClipTo(r.Output, maxOutput-len("…")), time.Since(begin)
	}(time.Now())
	c := m.Command
	if c == nil {
		hint := "`,help` lists the commands."
		if m.Near != nil && m.Near.Role <= role { // others are not for this person to know
			hint = fmt.Sprintf("Did you mean `%s`?", m.Near.Usage())
		}
		return Reply{Name: m.Name, Status: Failed, Output: fmt.Sprintf("Unknown command `,%s`. %s", m.Name, hint)}
	}
	if role < c.Role {
		return Reply{Name: c.Name, Status: Refused, Output: fmt.Sprintf("`,%s` needs the role %s; yours is %s.", c.Name, c.Role, role)}
	}
	var text string
	args, err := parse(c, m.rest)
	switch {
	case err != nil:
		err = Errorf("%s Write `%s`.", sentence(err.Error()), c.Usage())
	case c.Name == "help":
		text, err = s.help(role, args)
	default:
		text, err = funcs[c.Name](ctx, args)
	}
	if err == nil {
		return Reply{Name: c.Name, Status: OK, Output: text}
	}
	r = Reply{Name: c.Name, Status: Failed, Err: err}
	e, readable := errors.AsType[*Error](err)
	switch {
	case readable:
		r.Output, r.Err = sentence(e.Message), e.Cause
	case errors.Is(err, context.DeadlineExceeded):
		r.Output = fmt.Sprintf("`,%s` took too long and was stopped.", c.Name)
	case ctx.Err() != nil:
		r.Output = fmt.Sprintf("`,%s` was canceled.", c.Name)
	default:
		r.Output = fmt.Sprintf("`,%s` failed because of an internal error.", c.Name)
	}
	return r
}

// help shows the commands that a role may run, or one of them.
func (s Set) help(role tool.Role, args Args) (string, error) {
	if name := args["command"]; name != "" {
		name = strings.TrimLeft(name, ",，")
		m, ok := s.Match("," + name)
		switch {
		case ok && m.Command != nil && m.Command.Role <= role:
			return m.Command.describe(), nil
		case ok && m.Command == nil && m.Near.Role <= role:
			return "", Errorf("unknown command `,%s`; did you mean `,%s`?", wording.ClipTo(name, maxName), m.Near.Name)
		}
		return "", Errorf("unknown command `,%s`; `,help` lists your commands", wording.ClipTo(name, maxName))
	}
	var b strings.Builder
	for _, c := range s.Commands(role) {
		fmt.Fprintf(&b, "`%s` %s\n", c.Usage(), c.Help)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func (c *Command) describe() string {
	text := fmt.Sprintf("`%s`\n%s", c.Usage(), sentence(c.Help))
	if n := len(c.Params); n > 0 {
		text += fmt.Sprintf(" Write arguments in this order, or by name, such as `%s=…`. Put text with spaces in quotes.", c.Params[n-1].Name)
	}
	if c.Role > tool.User {
		text += fmt.Sprintf(" It needs the role %s.", c.Role)
	}
	return text
}

// sentence makes an error's text one.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	text = strings.ToUpper(string(first)) + text[size:]
	if last, _ := utf8.DecodeLastRuneInString(text); !strings.ContainsRune(".?!…。", last) {
		text += "."
	}
	return text
}
