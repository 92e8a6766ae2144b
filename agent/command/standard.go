package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tool"
)

// Bounds of what a command shows.
const (
	maxAnchors = 20
	maxHits    = 20
	maxLine    = 200 // characters of a description
)

// standard are the commands of every agent, in the order of the help.
func standard() []Command {
	required := func(name string) Param { return Param{Name: name, Required: true} }
	rest := func(name string, required bool) Param { return Param{Name: name, Required: required, Rest: true} }
	return []Command{
		{Name: "tape.info", Help: "show the length of this conversation and what the model sees", Run: tapeInfo},
		{Name: "tape.anchors", Help: "list the anchors, where the model's memory starts, newest first", Run: tapeAnchors},
		{Name: "tape.handoff", Params: []Param{required("name"), rest("summary", false)}, Help: "start a new phase: the model sees only the summary and what follows", Run: tapeHandoff},
		{Name: "tape.search", Params: []Param{rest("query", true)}, Help: "find entries of the conversation that have all these words", Run: tapeSearch},
		{Name: "model", Params: []Param{{Name: "name"}}, Help: "show the model, or choose another one", Run: model},
		{Name: "tools", Help: "list the agent's tools", Run: tools},
		{Name: "skill", Params: []Param{{Name: "name"}}, Help: "list the agent's skills, or show one", Run: skill},
		{Name: "stop", Beside: true, Help: "stop the current answer and waiting messages", Run: stop},
		{Name: "approve", Beside: true, Params: []Param{required("id"), {Name: "remember"}}, Help: "approve a tool call; remember=session approves the tool for this session", Run: approve},
		{Name: "deny", Beside: true, Params: []Param{required("id"), rest("reason", false)}, Help: "deny a tool call", Run: deny},
		{Name: "ask", Params: []Param{{Name: "tool"}}, Help: "list the tools that are approved for this session, or ask again before calls of one", Run: ask},
		{Name: "tape.fork", Role: tool.Operator, Params: []Param{{Name: "at"}}, Help: "fork this session, up to an entry or completely", Run: tapeFork},
		{Name: "mcp", Role: tool.Operator, Help: "list the MCP servers and their state", Run: mcp},
		{Name: "tape.export", Role: tool.Admin, Help: "write the conversation to a file on the server", Run: tapeExport},
		{Name: "forget", Role: tool.Admin, Params: []Param{{Name: "code"}}, Help: "erase this session, after a confirmation", Run: forget},
	}
}

func tapeInfo(ctx context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	i, err := s.Info(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%s: %s\n", name, fmt.Sprintf(format, args...))
	}
	line("session", "%s", oneLine(i.Session))
	line("tape", "%s", i.Tape)
	if i.Model != "" {
		line("model", "%s", oneLine(i.Model))
	}
	line("entries", "%d", i.Entries)
	line("anchors", "%d", i.Anchors)
	if i.LastAnchor != "" {
		line("last anchor", "%s, %s ago", oneLine(i.LastAnchor), count(i.Since, "entry", "entries"))
	}
	if i.Tokens > 0 {
		line("tokens of the last turn", "%d", i.Tokens)
	}
	if i.Cost > 0 {
		line("cost so far", "$%.4f", float64(i.Cost)/1e6)
	}
	if !i.Created.IsZero() {
		line("begun", "%s", date(i.Created))
	}
	if !i.Active.IsZero() {
		line("last activity", "%s", date(i.Active))
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func tapeAnchors(ctx context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	list, err := s.Anchors(ctx, maxAnchors)
	if err != nil {
		return "", err
	}
	return lines("There are no anchors.", list, func(a Anchor) string {
		return fmt.Sprintf("#%d %s %s", a.ID, date(a.Date), oneLine(a.Name))
	}), nil
}

func tapeHandoff(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	name := args.Get("name")
	if len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", Errorf("invalid name; expected at most 128 bytes without line breaks")
	}
	id, err := s.Handoff(ctx, name, args.Get("summary"))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Anchor `%s` is entry #%d: the model sees the conversation from there.", name, id), nil
}

func tapeSearch(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	list, err := s.Search(ctx, args.Get("query"), maxHits)
	if err != nil {
		return "", err
	}
	return lines("No entries match.", list, func(h Hit) string {
		return fmt.Sprintf("#%d %s %s: %s", h.ID, date(h.Date), h.Kind, oneLine(h.Excerpt))
	}), nil
}

func model(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	if name := args.Get("name"); name != "" {
		if err := s.SetModel(ctx, name); err != nil {
			return "", err
		}
		return fmt.Sprintf("`%s` now answers in this session.", oneLine(name)), nil
	}
	now, others, err := s.Model(ctx)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("`%s` answers.", oneLine(now))
	for i, other := range others {
		if i == 0 {
			text += " You can also choose:"
		}
		text += "\n- " + oneLine(other)
	}
	return text, nil
}

func ask(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	list, err := s.Remembered(ctx)
	if err != nil {
		return "", err
	}
	name := args.Get("tool")
	if name == "" {
		return lines("No tool is approved for this session.", list, func(t string) string { return "`" + t + "`" }), nil
	}
	if !slices.Contains(list, name) {
		return "", Errorf("the tool %q is not approved for this session; `,ask` lists those that are", oneLine(name))
	}
	if err := s.AskAgain(ctx, name); err != nil {
		return "", err
	}
	return "The agent asks again before it calls `" + name + "`.", nil
}

func tools(ctx context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	list, err := s.Tools(ctx)
	if err != nil {
		return "", err
	}
	return lines("The agent has no tools.", list, func(t Tool) string {
		text := "`" + t.Name + "`"
		if t.Asks {
			text += " (asks)"
		}
		return text + described(t.Description)
	}), nil
}

func skill(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	if name := args.Get("name"); name != "" {
		return s.Skill(ctx, name)
	}
	list, err := s.Skills(ctx)
	if err != nil {
		return "", err
	}
	return lines("The agent has no skills.", list, func(k Skill) string { return "`" + k.Name + "`" + described(k.Description) }), nil
}

func stop(ctx context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	n, err := s.Stop(ctx)
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "No answer is running.", nil
	}
	return fmt.Sprintf("Stopped %s.", count(int64(n), "turn", "turns")), nil
}

func approve(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	d := Decision{ID: args.Get("id"), Approve: true}
	switch remember := args.Get("remember"); remember {
	case "":
	case "session":
		d.Remember = true
	default:
		return "", Errorf("remember is %q; expected remember=session, or nothing", wording.ClipTo(remember, maxName))
	}
	if err := s.Decide(ctx, d); err != nil {
		return "", err
	}
	if d.Remember {
		return fmt.Sprintf("Approved the call of question `%s`, and other calls of this tool in this session.", oneLine(d.ID)), nil
	}
	return fmt.Sprintf("Approved the call of question `%s`.", oneLine(d.ID)), nil
}

func deny(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	d := Decision{ID: args.Get("id"), Reason: args.Get("reason")}
	if err := s.Decide(ctx, d); err != nil {
		return "", err
	}
	return fmt.Sprintf("Denied the call of question `%s`.", oneLine(d.ID)), nil
}

func tapeFork(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	var at int64
	if text := strings.TrimPrefix(args.Get("at"), "#"); text != "" {
		var err error
		if at, err = strconv.ParseInt(text, 10, 64); err != nil || at < 1 {
			return "", Errorf("%q is not an entry; expected a number that `,tape.search` shows", wording.ClipTo(text, maxName))
		}
	}
	id, err := s.Fork(ctx, at)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("The new session `%s` has all entries%s.", oneLine(id), upTo(at)), nil
}

func upTo(at int64) string {
	if at == 0 {
		return ""
	}
	return fmt.Sprintf(" up to #%d", at)
}

func mcp(ctx context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	list, err := s.Servers(ctx)
	if err != nil {
		return "", err
	}
	return lines("There are no MCP servers.", list, func(v Server) string {
		return fmt.Sprintf("`%s` %s, %s", v.Name, oneLine(v.State), count(int64(v.Tools), "tool", "tools"))
	}), nil
}

func tapeExport(ctx context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	e, err := s.Export(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Wrote %s (%s) to the file `%s`.", count(e.Entries, "entry", "entries"), count(e.Bytes, "byte", "bytes"), oneLine(e.Name)), nil
}

// forget erases the session for whoever repeats the code that is shown to them. The code is made of what the session is, so that
// nothing is remembered between the two, and no code of an earlier session, of the same name or another, is good for it.
func forget(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	i, err := s.Info(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(i.Tape + "\n" + i.Created.UTC().Format(time.RFC3339Nano)))
	code := hex.EncodeToString(sum[:3])
	switch given := strings.ToLower(args.Get("code")); {
	case given == "":
		return fmt.Sprintf("This erases the session `%s` with %s, and all its forks. You cannot undo this. Write `,forget %s` to confirm.",
			oneLine(i.Session), count(i.Entries, "entry", "entries"), code), nil
	case given != code:
		return "", Errorf("wrong code for this session; nothing was erased. `,forget` shows the code")
	}
	if err := s.Forget(ctx); err != nil {
		return "", err
	}
	return "The session was erased.", nil
}

// lines shows a list, one line each.
func lines[T any](none string, list []T, show func(T) string) string {
	if len(list) == 0 {
		return none
	}
	var b strings.Builder
	for i, item := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("- " + show(item))
	}
	return b.String()
}

func described(text string) string {
	if text = oneLine(text); text == "" {
		return ""
	}
	return ": " + text
}

// oneLine makes one line of a text, and not a long one.
func oneLine(text string) string {
	return wording.ClipChars(strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " "), maxLine)
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
