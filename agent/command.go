package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// match finds the command in a message, if it is one. A message of kind command always is.
func (a *Agent) match(e *turn.Envelope) (command.Match, bool) {
	if !e.IsCommand() {
		return command.Match{}, false
	}
	m, ok := a.commands.Match(e.Content)
	return m, ok || e.Kind == turn.KindCommand
}

// AnswerAside answers the commands that do not wait for the session's lane.
func (a *Agent) AnswerAside(ctx context.Context, e *turn.Envelope, id turn.SessionID) ([]*turn.Envelope, bool, error) {
	m, ok := a.match(e)
	if !ok || !m.Immediate() {
		return nil, false, nil
	}
	r := a.runCommand(ctx, e, id, m, "")
	return []*turn.Envelope{e.Reply(r.Output)}, true, nil
}

// commandStream answers a command as the model stage of its turn.
func (a *Agent) commandStream(ctx context.Context, t *turn.Turn, e *turn.Envelope, id turn.SessionID) turn.Stream {
	return func(yield func(turn.Event, error) bool) {
		r, known, err := a.answerCommand(ctx, e, id, t.ID())
		if err != nil {
			yield(turn.Event{}, err)
			return
		}
		if r.Output != "" && !known && !yield(turn.Text(r.Output), nil) {
			return
		}
		yield(turn.Event{Kind: turn.FinalEvent, Final: &turn.Final{OK: r.Status == command.OK, Text: r.Output, Reason: "command"}}, nil)
	}
}

// answerCommand runs the command of a turn, unless another process has done it: then known is true, and the reply is that of the tape.
func (a *Agent) answerCommand(ctx context.Context, e *turn.Envelope, id turn.SessionID, turnID string) (r command.Reply, known bool, err error) {
	if e.Resumed {
		t, err := OpenTape(ctx, a.framework.Load(), id)
		if err != nil {
			return r, false, err
		}
		if past, err := readRecord(ctx, t, turnID); err != nil || past.Ended {
			return past.command, true, err
		}
	}
	m, _ := a.match(e)
	return a.runCommand(ctx, e, id, m, turnID), false, nil
}

// runCommand runs a command and writes it down.
func (a *Agent) runCommand(ctx context.Context, e *turn.Envelope, id turn.SessionID, m command.Match, turnID string) command.Reply {
	r := a.commands.Run(ctx, (&session{a, id, e.Sender}).commands(), e.Sender.Role, m)
	if r.Err != nil {
		a.log.ErrorContext(ctx, "command failed", "session", id, "command", r.Name, "error", adapter.RedactError(r.Err))
	}
	if r.Name == "forget" && r.Status == command.OK {
		return r // a session that was erased is not brought back to say so
	}
	if err := a.recordCommand(ctx, e, id, r, turnID); err != nil {
		a.log.ErrorContext(ctx, "command not stored", "session", id, "command", r.Name, "error", adapter.RedactError(err))
	}
	return r
}

func (a *Agent) recordCommand(ctx context.Context, e *turn.Envelope, id turn.SessionID, r command.Reply, turnID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	t, err := OpenTape(ctx, a.framework.Load(), id)
	if err != nil {
		return err
	}
	_, err = t.Append(ctx, tape.NewEvent(entryCommand, map[string]any{
		"name": r.Name, "status": string(r.Status), "elapsed": r.Elapsed.String(), "output": r.Output,
	}).With(tape.Meta{Turn: turnID, Agent: e.Agent, ContextHidden: true}))
	return err
}

// session is the session of a command, on behalf of its sender.
type session struct {
	*Agent
	id     turn.SessionID
	sender turn.Sender
}

// commands returns what each command does, but for help.
func (s *session) commands() map[string]command.Func {
	return map[string]command.Func{
		"tape.info": s.onTape(s.showTape), "tape.anchors": s.onTape(s.listAnchors), "tape.handoff": s.handOff, "tape.search": s.onTape(s.search),
		"tape.fork": s.onTape(s.forkSession), "tape.export": s.onTape(s.export), "forget": s.onTape(s.forget), "model": s.showModel,
		"tools": s.listTools, "skill": s.showSkills, "stop": s.stop, "approve": s.approveCall,
		"deny": s.denyCall, "ask": s.reviewApprovals, "mcp": s.listServers,
	}
}

// Bounds of what a command shows.
const (
	maxListed   = 20  // anchors, entries
	maxLine     = 200 // characters of a line
	maxArgument = 64  // bytes of a wrong argument
)

// onTape returns a command that works on the session's tape. It does not create one.
func (s *session) onTape(run func(context.Context, *tape.Tape, command.Args) (string, error)) command.Func {
	return func(ctx context.Context, args command.Args) (string, error) {
		t, err := s.lookupTape(ctx, s.id)
		if errors.Is(err, tape.ErrNotFound) {
			return "", command.Errorf("this session has no tape yet")
		}
		if err != nil {
			return "", err
		}
		return run(ctx, t, args)
	}
}

func (s *session) showTape(ctx context.Context, t *tape.Tape, _ command.Args) (string, error) {
	i, err := t.Info(ctx)
	if err != nil {
		return "", err
	}
	settings, err := t.Settings(ctx)
	if err != nil {
		return "", err
	}
	sum, last, err := Usage(ctx, t)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "session: %s\ntape: %s\nmodel: %s\nentries: %d\nanchors: %d\n", replyLine(t.Session()), t.Name(), replyLine(s.modelName(settings)), i.Entries, i.Anchors)
	if i.LastAnchor.Name != "" {
		fmt.Fprintf(&b, "last anchor: %s, %s ago\n", replyLine(i.LastAnchor.Name), entries(i.LastID-i.LastAnchor.ID))
	}
	if last.TotalTokens > 0 {
		fmt.Fprintf(&b, "tokens of the last turn: %d\n", last.TotalTokens)
	}
	if sum.Cost > 0 {
		fmt.Fprintf(&b, "cost so far: $%.4f\n", float64(sum.Cost)/1e6)
	}
	fmt.Fprintf(&b, "begun: %s\nlast activity: %s", date(i.Created), date(i.Updated))
	return b.String(), nil
}

func (s *session) listAnchors(ctx context.Context, t *tape.Tape, _ command.Args) (string, error) {
	list, err := collect(t.Anchors(ctx), maxListed, func(a tape.AnchorRef) string {
		return fmt.Sprintf("#%d %s %s", a.ID, date(a.Date), replyLine(a.Name))
	})
	return lines("There are no anchors.", list), err
}

// handOff writes an anchor. The command is answered between turns, so there is no prompt to carry over.
func (s *session) handOff(ctx context.Context, args command.Args) (string, error) {
	t, err := OpenTape(ctx, s.framework.Load(), s.id)
	if err != nil {
		return "", err
	}
	state := map[string]string{"owner": "human"}
	if args["summary"] != "" {
		state["summary"] = args["summary"]
	}
	e, err := t.Handoff(ctx, args["name"], state)
	if errors.Is(err, tape.ErrInvalid) {
		return "", command.Errorf("invalid name; expected at most 128 bytes without line breaks")
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Anchor `%s` is entry #%d: the model sees the conversation from there.", args["name"], e.ID), nil
}

func (s *session) search(ctx context.Context, t *tape.Tape, args command.Args) (string, error) {
	list, err := collect(t.Search(ctx, tape.Query{Text: args["query"], Limit: maxListed}), maxListed, func(h tape.Hit) string {
		return fmt.Sprintf("#%d %s %s: %s", h.ID, date(h.Date), h.Kind, replyLine(h.Text))
	})
	return lines("No entries match.", list), err
}

// showModel says which model answers, or chooses one of those that may be chosen.
func (s *session) showModel(ctx context.Context, args command.Args) (string, error) {
	o, name := &s.options, args["name"]
	choices := slices.DeleteFunc(slices.Concat([]string{o.Model}, o.Fallback, o.Choices), func(name string) bool { return name == "" })
	slices.Sort(choices)
	choices = slices.Compact(choices)
	if name == "" {
		settings, err := s.settings(ctx, s.id)
		if err != nil {
			return "", err
		}
		now := s.modelName(settings)
		text := fmt.Sprintf("`%s` answers.", replyLine(now))
		if choices = slices.DeleteFunc(choices, func(name string) bool { return name == now }); len(choices) > 0 {
			text += " You can also choose:\n" + lines("", choices)
		}
		return text, nil
	}
	if !slices.Contains(choices, name) {
		return "", command.Errorf("unknown model %q; expected one of %s", wording.ClipChars(name, 80), strings.Join(choices, ", "))
	}
	for _, link := range adapter.Links(name) {
		if _, err := o.Models.Model(link); err != nil {
			return "", &command.Error{Message: fmt.Sprintf("cannot use the model %q", link), Cause: err}
		}
	}
	if err := s.change(ctx, settingModel, name); err != nil {
		return "", err
	}
	return fmt.Sprintf("`%s` now answers in this session.", replyLine(name)), nil
}

// modelName is the name of the model that answers, for people.
func (s *session) modelName(settings map[string]json.RawMessage) string {
	return cmp.Or(s.modelsOf(settings)[0], "default")
}

// change writes a setting of the session.
func (s *session) change(ctx context.Context, name, value string) error {
	t, err := OpenTape(ctx, s.framework.Load(), s.id)
	if err != nil {
		return err
	}
	_, err = t.Append(ctx, tape.NewSetting(name, value))
	return err
}

func (s *session) listTools(context.Context, command.Args) (string, error) {
	var list []string
	for _, t := range s.tools.Tools() {
		name := "`" + t.Name + "`"
		if s.needsApproval(t) {
			name += " (asks)"
		}
		list = append(list, described(name, t.Description))
	}
	return lines("The agent has no tools.", list), nil
}

func (s *session) showSkills(_ context.Context, args command.Args) (string, error) {
	library := s.options.Skills
	if name := args["name"]; name != "" {
		if library == nil {
			return "", command.Errorf("there are no skills")
		}
		text, err := library.Load(name)
		if err != nil {
			return "", command.Errorf("%s", err)
		}
		return text.Content, nil
	}
	var list []string
	if library != nil {
		for _, k := range library.List() {
			list = append(list, described("`"+k.Name+"`", k.Description))
		}
	}
	return lines("The agent has no skills.", list), nil
}

// stop ends the running turn and those that wait.
func (s *session) stop(context.Context, command.Args) (string, error) {
	n := s.framework.Load().Stop(s.id, turn.ErrStopped)
	if n == 0 {
		return "No answer is running.", nil
	}
	return fmt.Sprintf("Stopped %s.", wording.Plural(int64(n), "turn")), nil
}

func (s *session) approveCall(ctx context.Context, args command.Args) (string, error) {
	others := ""
	switch args["remember"] {
	case "":
	case "session":
		others = ", and other calls of this tool in this session"
	default:
		return "", command.Errorf("remember is %q; expected remember=session, or nothing", wording.ClipTo(args["remember"], maxArgument))
	}
	err := s.decide(ctx, Answer{ID: args["id"], Approve: true, Remember: others != ""})
	return fmt.Sprintf("Approved the call of question `%s`%s.", replyLine(args["id"]), others), err
}

func (s *session) denyCall(ctx context.Context, args command.Args) (string, error) {
	err := s.decide(ctx, Answer{ID: args["id"], Reason: args["reason"]})
	return fmt.Sprintf("Denied the call of question `%s`.", replyLine(args["id"])), err
}

// decide answers a question for approval.
func (s *session) decide(ctx context.Context, answer Answer) error {
	answer.Session, answer.By, answer.Name, answer.Role = s.id, cmp.Or(s.sender.ID, s.sender.Name), s.sender.Name, s.sender.Role
	err := s.Answer(ctx, answer)
	switch {
	case errors.Is(err, ErrNoQuestion):
		return command.Errorf("no open question `%s` in this session", wording.ClipChars(answer.ID, 80))
	case errors.Is(err, ErrAnswered):
		return command.Errorf("the question `%s` was already answered, or its time is over", wording.ClipChars(answer.ID, 80))
	case errors.Is(err, ErrRole):
		return command.Errorf("your role may not approve this tool; ask an operator or admin")
	}
	return err
}

// reviewApprovals lists the tools that are approved for the session, or ends the approval of one.
func (s *session) reviewApprovals(ctx context.Context, args command.Args) (string, error) {
	t, err := OpenTape(ctx, s.framework.Load(), s.id)
	if err != nil {
		return "", err
	}
	list, err := s.Remembered(ctx, t)
	if err != nil {
		return "", err
	}
	name := args["tool"]
	if name == "" {
		for i, name := range list {
			list[i] = "`" + name + "`"
		}
		return lines("No tool is approved for this session.", list), nil
	}
	if !slices.Contains(list, name) {
		return "", command.Errorf("the tool %q is not approved for this session; `,ask` lists those that are", replyLine(name))
	}
	return "The agent asks again before it calls `" + name + "`.", s.change(ctx, settingApproval+name, "")
}

func (s *session) forkSession(ctx context.Context, t *tape.Tape, args command.Args) (string, error) {
	var at int64
	upTo := ""
	if text := strings.TrimPrefix(args["at"], "#"); text != "" {
		var err error
		if at, err = strconv.ParseInt(text, 10, 64); err != nil || at < 1 {
			return "", command.Errorf("%q is not an entry; expected a number that `,tape.search` shows", wording.ClipTo(text, maxArgument))
		}
		upTo = fmt.Sprintf(" up to #%d", at)
	}
	id := strings.TrimSuffix(wording.ClipTo(s.id, 400), "…") + "-fork-" + time.Now().UTC().Format("20060102-150405")
	_, err := t.ForkSession(ctx, id, at)
	switch {
	case errors.Is(err, tape.ErrNotEmpty):
		return "", command.Errorf("a fork of this second already exists; retry")
	case errors.Is(err, tape.ErrInvalid), errors.Is(err, tape.ErrNotFound):
		return "", command.Errorf("this session has no entry #%d", at)
	}
	return fmt.Sprintf("The new session `%s` has all entries%s.", replyLine(id), upTo), err
}

func (s *session) listServers(ctx context.Context, _ command.Args) (string, error) {
	var list []string
	if s.options.Host != nil {
		servers, err := s.options.Host.Servers(ctx)
		if err != nil {
			return "", err
		}
		for _, v := range servers {
			list = append(list, fmt.Sprintf("`%s` %s, %s", v.Name, replyLine(v.State), wording.Plural(int64(v.Tools), "tool")))
		}
	}
	return lines("There are no MCP servers.", list), nil
}

func (s *session) export(ctx context.Context, t *tape.Tape, _ command.Args) (string, error) {
	if s.options.Host == nil {
		return "", command.Errorf("this server exports no tapes")
	}
	e, err := s.options.Host.Export(ctx, t)
	return fmt.Sprintf("Wrote %s (%s) to the file `%s`.", entries(e.Entries), wording.Plural(e.Bytes, "byte"), replyLine(e.Name)), err
}

// forget erases the session and its forks for a person who repeats the code that is shown to them. The code is made of the tape's
// name and date, so that nothing is remembered between the two messages, and no code of another session is valid. The command
// is a turn of the session, so no other one is running.
func (s *session) forget(ctx context.Context, t *tape.Tape, args command.Args) (string, error) {
	i, err := t.Info(ctx)
	if err != nil {
		return "", err
	}
	code := derive("forget", t.Name(), i.Created.UTC())[:6]
	switch strings.ToLower(args["code"]) {
	case "":
		return fmt.Sprintf("This erases the session `%s` with %s, and all its forks. You cannot undo this. Write `,forget %s` to confirm.",
			replyLine(s.id), entries(i.Entries), code), nil
	case code:
		return "The session was erased.", t.DeleteWithForks(ctx, nil)
	}
	return "", command.Errorf("wrong code for this session; nothing was erased. `,forget` shows the code")
}

// lines writes a list, an item per line.
func lines(none string, list []string) string {
	if len(list) == 0 {
		return none
	}
	return "- " + strings.Join(list, "\n- ")
}

// described puts the description of a thing behind its name.
func described(name, text string) string {
	if text = replyLine(text); text == "" {
		return name
	}
	return name + ": " + text
}

// replyLine makes one line of a text for a reply.
func replyLine(text string) string { return oneLine(text, maxLine) }

// entries writes a number of entries.
func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
