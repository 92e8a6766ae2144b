package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/agent/skill"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// match finds the command in a message, if it is one. A message of kind command always is.
func (a *Agent) match(e *turn.Envelope) (command.Match, bool) {
	if !e.IsCommand() {
		return command.Match{}, false
	}
	m, ok := a.commands.Match(e.Content)
	if !ok && e.Kind == turn.KindCommand {
		name, _ := turn.CommandName(e.Content)
		return command.Match{Name: name}, true
	}
	return m, ok
}

func (a *Agent) isCommand(e *turn.Envelope) bool {
	_, ok := a.match(e)
	return ok
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
	if e.Resumed() {
		t, err := a.openTape(ctx, id)
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
	r := a.commands.Run(ctx, &session{agent: a, id: id, sender: e.Sender}, e.Sender.Role, m)
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
	t, err := a.openTape(ctx, id)
	if err != nil {
		return err
	}
	_, err = t.Append(ctx, tape.NewEvent(entryCommand, map[string]any{
		"name": r.Name, "status": string(r.Status), "elapsed": r.Elapsed.String(), "output": r.Output,
	}).With(tape.Meta{Turn: turnID, Agent: e.Agent(), ContextHidden: true}))
	return err
}

// openTape opens the tape of a session, and creates it if it does not exist.
func (a *Agent) openTape(ctx context.Context, id turn.SessionID) (*tape.Tape, error) {
	store, err := a.store(ctx)
	if err != nil {
		return nil, err
	}
	return tape.Open(ctx, store, a.workspace(), id)
}

// session is the session of a command, on behalf of its sender.
type session struct {
	agent  *Agent
	id     turn.SessionID
	sender turn.Sender
}

var _ command.Session = (*session)(nil)

// Tape returns the session's tape. Commands that only read do not create one.
func (s *session) Tape(ctx context.Context, create bool) (*tape.Tape, error) {
	if create {
		return s.agent.openTape(ctx, s.id)
	}
	store, err := s.agent.store(ctx)
	if err != nil {
		return nil, err
	}
	t, err := tape.Lookup(ctx, store, s.agent.workspace(), s.id)
	if errors.Is(err, tape.ErrNotFound) {
		return nil, command.Errorf("this session has no tape yet")
	}
	return t, err
}

// Usage returns the tokens of the last turn and the cost of all.
func (s *session) Usage(ctx context.Context) (tokens, cost int64, err error) {
	t, err := s.Tape(ctx, false)
	if err != nil {
		return 0, 0, err
	}
	sum, last, err := usage(ctx, t)
	return int64(last.TotalTokens), sum.Cost, err
}

// Model says which model answers.
func (s *session) Model(ctx context.Context) (now string, others []string, err error) {
	settings, err := s.agent.settings(ctx, s.id)
	if err != nil {
		return "", nil, err
	}
	now = s.agent.modelsOf(settings)[0]
	if now == "" {
		now = "default"
	}
	for _, name := range s.choices() {
		if name != now {
			others = append(others, name)
		}
	}
	return now, others, nil
}

// choices are the models that may be chosen.
func (s *session) choices() []string {
	o := &s.agent.options
	list := slices.Concat([]string{o.Model}, o.Fallback, o.Choices)
	list = slices.DeleteFunc(list, func(name string) bool { return name == "" })
	slices.Sort(list)
	return slices.Compact(list)
}

// SetModel chooses a model, of those that may be chosen.
func (s *session) SetModel(ctx context.Context, name string) error {
	if !slices.Contains(s.choices(), name) {
		return command.Errorf("unknown model %q; expected one of %s", wording.ClipChars(name, 80), strings.Join(s.choices(), ", "))
	}
	for _, link := range adapter.Links(name) {
		if _, err := s.agent.options.Models.Model(link); err != nil {
			return &command.Error{Message: fmt.Sprintf("cannot use the model %q", link), Cause: err}
		}
	}
	t, err := s.agent.openTape(ctx, s.id)
	if err != nil {
		return err
	}
	_, err = t.Append(ctx, tape.NewSetting(settingModel, name))
	return err
}

// Remembered lists the tools that were approved for the session.
func (s *session) Remembered(ctx context.Context) ([]string, error) {
	t, err := s.agent.openTape(ctx, s.id)
	if err != nil {
		return nil, err
	}
	return s.agent.Remembered(ctx, t)
}

// RevokeApproval forgets that a tool was approved for the session.
func (s *session) RevokeApproval(ctx context.Context, name string) error {
	t, err := s.agent.openTape(ctx, s.id)
	if err != nil {
		return err
	}
	_, err = t.Append(ctx, tape.NewSetting(settingApproval+name, ""))
	return err
}

// Tools returns the agent's tools.
func (s *session) Tools() []*tool.Tool { return s.agent.tools.Tools() }

// Skills returns the agent's skills.
func (s *session) Skills() *skill.Library { return s.agent.options.Skills }

// Servers lists the MCP servers.
func (s *session) Servers(ctx context.Context) ([]command.Server, error) {
	if s.agent.options.Host == nil {
		return nil, nil
	}
	return s.agent.options.Host.Servers(ctx)
}

// Stop ends the running turn and those that wait.
func (s *session) Stop() int { return s.agent.framework.Load().Stop(s.id, turn.ErrStopped) }

// Decide answers a question for approval.
func (s *session) Decide(ctx context.Context, d command.Decision) error {
	by := s.sender.ID
	if by == "" {
		by = s.sender.Name
	}
	err := s.agent.Answer(ctx, Answer{
		Session: s.id, ID: d.ID, Approve: d.Approve, Reason: d.Reason, Remember: d.Remember, By: by, Name: s.sender.Name, Role: s.sender.Role,
	})
	switch {
	case errors.Is(err, ErrNoQuestion):
		return command.Errorf("no open question `%s` in this session", wording.ClipChars(d.ID, 80))
	case errors.Is(err, ErrAnswered):
		return command.Errorf("the question `%s` was already answered, or its time is over", wording.ClipChars(d.ID, 80))
	case errors.Is(err, ErrRole):
		return command.Errorf("your role may not approve this tool; ask an operator or admin")
	}
	return err
}

// Export writes the tape to a file.
func (s *session) Export(ctx context.Context) (command.Exported, error) {
	t, err := s.Tape(ctx, false)
	if err != nil {
		return command.Exported{}, err
	}
	if s.agent.options.Host == nil {
		return command.Exported{}, command.Errorf("this server exports no tapes")
	}
	return s.agent.options.Host.Export(ctx, t)
}
