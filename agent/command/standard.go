package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
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
		{Name: "skill", Params: []Param{{Name: "name"}}, Help: "list the agent's skills, or show one", Run: skills},
		{Name: "stop", Immediate: true, Help: "stop the current answer and waiting messages", Run: stop},
		{Name: "approve", Immediate: true, Params: []Param{required("id"), {Name: "remember"}}, Help: "approve a tool call; remember=session approves the tool for this session", Run: approve},
		{Name: "deny", Immediate: true, Params: []Param{required("id"), rest("reason", false)}, Help: "deny a tool call", Run: deny},
		{Name: "ask", Params: []Param{{Name: "tool"}}, Help: "list the tools that are approved for this session, or ask again before calls of one", Run: ask},
		{Name: "tape.fork", Role: tool.Operator, Params: []Param{{Name: "at"}}, Help: "fork this session, up to an entry or completely", Run: tapeFork},
		{Name: "mcp", Role: tool.Operator, Help: "list the MCP servers and their state", Run: mcp},
		{Name: "tape.export", Role: tool.Admin, Help: "write the conversation to a file on the server", Run: tapeExport},
		{Name: "forget", Role: tool.Admin, Params: []Param{{Name: "code"}}, Help: "erase this session, after a confirmation", Run: forget},
	}
}

func tapeInfo(ctx context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	t, i, err := infoOf(ctx, s)
	if err != nil {
		return "", err
	}
	model, _, err := s.Model(ctx)
	if err != nil {
		return "", err
	}
	tokens, cost, err := s.Usage(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "session: %s\ntape: %s\nmodel: %s\nentries: %d\nanchors: %d\n", oneLine(t.Session()), t.Name(), oneLine(model), i.Entries, i.Anchors)
	if i.LastAnchor.Name != "" {
		fmt.Fprintf(&b, "last anchor: %s, %s ago\n", oneLine(i.LastAnchor.Name), count(i.LastID-i.LastAnchor.ID, "entry", "entries"))
	}
	if tokens > 0 {
		fmt.Fprintf(&b, "tokens of the last turn: %d\n", tokens)
	}
	if cost > 0 {
		fmt.Fprintf(&b, "cost so far: $%.4f\n", float64(cost)/1e6)
	}
	fmt.Fprintf(&b, "begun: %s\nlast activity: %s", date(i.Created), date(i.Updated))
	return b.String(), nil
}

// infoOf returns the tape of a session that has one.
func infoOf(ctx context.Context, s Session) (*tape.Tape, tape.Info, error) {
	t, err := s.Tape(ctx, false)
	if err != nil {
		return nil, tape.Info{}, err
	}
	i, err := t.Info(ctx)
	return t, i, err
}

func tapeAnchors(ctx context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	t, err := s.Tape(ctx, false)
	if err != nil {
		return "", err
	}
	var list []string
	for a, err := range t.Anchors(ctx) {
		if err != nil {
			return "", err
		}
		if list = append(list, fmt.Sprintf("#%d %s %s", a.ID, date(a.Date), oneLine(a.Name))); len(list) == maxAnchors {
			break
		}
	}
	return lines("There are no anchors.", list), nil
}

// tapeHandoff writes an anchor. A command is answered between turns, so there is no prompt to carry over.
func tapeHandoff(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	t, err := s.Tape(ctx, true)
	if err != nil {
		return "", err
	}
	name, state := args.Get("name"), map[string]string{"owner": "human"}
	if summary := args.Get("summary"); summary != "" {
		state["summary"] = summary
	}
	e, err := t.Handoff(ctx, name, state)
	if errors.Is(err, tape.ErrInvalid) {
		return "", &Error{Message: "invalid name; expected at most 128 bytes without line breaks", Cause: err}
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Anchor `%s` is entry #%d: the model sees the conversation from there.", name, e.ID), nil
}

func tapeSearch(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	t, err := s.Tape(ctx, false)
	if err != nil {
		return "", err
	}
	var list []string
	for h, err := range t.Search(ctx, tape.Query{Text: args.Get("query"), Limit: maxHits}) {
		if err != nil {
			return "", err
		}
		list = append(list, fmt.Sprintf("#%d %s %s: %s", h.ID, date(h.Date), h.Kind, oneLine(h.Text)))
	}
	return lines("No entries match.", list), nil
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
		for i, name := range list {
			list[i] = "`" + name + "`"
		}
		return lines("No tool is approved for this session.", list), nil
	}
	if !slices.Contains(list, name) {
		return "", Errorf("the tool %q is not approved for this session; `,ask` lists those that are", oneLine(name))
	}
	if err := s.RevokeApproval(ctx, name); err != nil {
		return "", err
	}
	return "The agent asks again before it calls `" + name + "`.", nil
}

func tools(_ context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	var list []string
	for _, t := range s.Tools() {
		text := "`" + t.Name + "`"
		if t.Approval == tool.Always {
			text += " (asks)"
		}
		list = append(list, text+described(t.Description))
	}
	return lines("The agent has no tools.", list), nil
}

func skills(_ context.Context, s Session, _ tool.Role, args Args) (string, error) {
	name, library := args.Get("name"), s.Skills()
	switch {
	case library == nil && name != "":
		return "", Errorf("there are no skills")
	case library == nil:
		return lines("The agent has no skills.", nil), nil
	case name != "":
		text, err := library.Load(name)
		if err != nil {
			return "", &Error{Message: err.Error(), Cause: err}
		}
		return text.Content, nil
	}
	var list []string
	for _, k := range library.List() {
		list = append(list, "`"+k.Name+"`"+described(k.Description))
	}
	return lines("The agent has no skills.", list), nil
}

func stop(_ context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	n := s.Stop()
	if n == 0 {
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
	t, err := s.Tape(ctx, false)
	if err != nil {
		return "", err
	}
	suffix := "-fork-" + time.Now().UTC().Format("20060102-150405")
	id := strings.TrimSuffix(wording.ClipTo(t.Session(), 400), "…") + suffix
	_, err = t.ForkSession(ctx, id, at)
	switch {
	case errors.Is(err, tape.ErrNotEmpty):
		return "", &Error{Message: "a fork of this second already exists; retry", Cause: err}
	case errors.Is(err, tape.ErrInvalid), errors.Is(err, tape.ErrNotFound):
		return "", &Error{Message: fmt.Sprintf("this session has no entry #%d", at), Cause: err}
	case err != nil:
		return "", err
	}
	upTo := ""
	if at > 0 {
		upTo = fmt.Sprintf(" up to #%d", at)
	}
	return fmt.Sprintf("The new session `%s` has all entries%s.", oneLine(id), upTo), nil
}

func mcp(ctx context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	servers, err := s.Servers(ctx)
	if err != nil {
		return "", err
	}
	var list []string
	for _, v := range servers {
		list = append(list, fmt.Sprintf("`%s` %s, %s", v.Name, oneLine(v.State), count(int64(v.Tools), "tool", "tools")))
	}
	return lines("There are no MCP servers.", list), nil
}

func tapeExport(ctx context.Context, s Session, _ tool.Role, _ Args) (string, error) {
	e, err := s.Export(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Wrote %s (%s) to the file `%s`.", count(e.Entries, "entry", "entries"), count(e.Bytes, "byte", "bytes"), oneLine(e.Name)), nil
}

// forget erases the session and its forks for a person who repeats the code that is shown to them. The code is made of the tape's
// name and date, so that nothing is remembered between the two messages, and no code of another session is valid. The command
// is a turn of the session, so no other one is running.
func forget(ctx context.Context, s Session, _ tool.Role, args Args) (string, error) {
	t, i, err := infoOf(ctx, s)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(t.Name() + "\n" + i.Created.UTC().Format(time.RFC3339Nano)))
	code := hex.EncodeToString(sum[:3])
	switch given := strings.ToLower(args.Get("code")); {
	case given == "":
		return fmt.Sprintf("This erases the session `%s` with %s, and all its forks. You cannot undo this. Write `,forget %s` to confirm.",
			oneLine(t.Session()), count(i.Entries, "entry", "entries"), code), nil
	case given != code:
		return "", Errorf("wrong code for this session; nothing was erased. `,forget` shows the code")
	}
	if err := t.DeleteWithForks(ctx, nil); err != nil {
		return "", err
	}
	return "The session was erased.", nil
}

// lines writes a list, an item per line.
func lines(none string, list []string) string {
	if len(list) == 0 {
		return none
	}
	return "- " + strings.Join(list, "\n- ")
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
