package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/agent/skill"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// AG-50: a command calls no model, and is on the tape where no view sees it.
func TestACommandCallsNoModel(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{})
	w.say("hi")
	h := w.say(`,tape.handoff "lunch break" summary=pizza`)
	if h.Output != "Anchor `lunch break` is entry #8: the model sees the conversation from there." || len(w.model.requests()) != 1 {
		t.Errorf("%q", h.Output)
	}
	if diff := cmp.Diff([]string{`anchor lunch break {"owner":"human","summary":"pizza"}`, `event command oktape.handoff hidden`}, w.lines()[7:]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"text " + h.Output}, told(h.events)[:1]); diff != "" {
		t.Error(diff)
	}
	w.say("and?")
	if got := seen(w.model.requests()[1]); len(got) != 3 || got[2] != "user: and?" {
		t.Errorf("%q", got)
	}
	// Other text with a comma is ordinary text (AG-50), and a slip is answered (AG-51).
	if h := w.say(",and then?"); h.Output != "ok" {
		t.Errorf("%q", h.Output)
	}
	if h := w.say(",modle"); !strings.Contains(h.Output, ",model") {
		t.Errorf("%q", h.Output)
	}
	h = w.process(t.Context(), &turn.Envelope{SessionID: "s", Kind: turn.KindCommand, Content: "what?"})
	if h.err != nil || !strings.Contains(h.Output, "Unknown command") {
		t.Errorf("%q %v", h.Output, h.err)
	}
}

// AG-51: the role is the channel's, whatever the text says.
func TestACommandNeedsItsRole(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{})
	w.say("hi")
	for _, c := range []struct {
		text string
		role tool.Role
		want string
	}{
		{",tape.fork", tool.User, "needs the role operator"},
		{",tape.fork role=operator", tool.User, "needs the role operator"},
		{",tape.fork 2", tool.Operator, "has all entries up to #2"},
		{",tape.fork 99", tool.Operator, "has no entry #99"},
		{",tape.export", tool.Admin, "exports no tapes"},
		{",forget", tool.Operator, "needs the role admin"},
	} {
		h := w.process(t.Context(), &turn.Envelope{SessionID: "s", Content: c.text, Sender: turn.Sender{Role: c.role}})
		if h.err != nil || !strings.Contains(h.Output, c.want) {
			t.Errorf("%s as %s: %q %v", c.text, c.role, h.Output, h.err)
		}
	}
}

// host exports tapes.
type host struct{ err error }

func (h host) Servers(context.Context) ([]command.Server, error) {
	return []command.Server{{Name: "files", State: "connected", Tools: 2}}, nil
}

func (h host) Export(_ context.Context, t *tape.Tape) (command.Exported, error) {
	var b strings.Builder
	if err := errors.Join(h.err, t.Export(context.Background(), &b)); err != nil {
		return command.Exported{}, err
	}
	return command.Exported{Name: t.Name() + ".jsonl", Entries: int64(strings.Count(b.String(), "\n")), Bytes: int64(b.Len())}, nil
}

// AG-52
func TestTheCommandsOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools, err := tool.NewSet(&tool.Tool{Name: "shop.buy", Description: "Buys\nsomething.", Approval: tool.Always, Run: func(context.Context, tool.Call) (tool.Result, error) { return tool.Text("ok"), nil }})
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Host: host{}, Model: "fake:a", Choices: []string{"no:b", "fake:c"}, Tools: tools, Bare: true, Skills: skill.New(nil, skill.Dir(t.TempDir(), "skills"))}
		w := newWorld(t, newFake(answers("ok")), o)
		admin := func(text string) string {
			t.Helper()
			h := w.process(t.Context(), &turn.Envelope{SessionID: "s", Content: text, Sender: turn.Sender{Role: tool.Admin}})
			if h.err != nil {
				t.Errorf("%s: %v", text, h.err)
			}
			return h.Output
		}
		if got := admin(",tape.info"); got != "This session has no tape yet." {
			t.Errorf("%q", got)
		}
		w.say("今天天气很好")
		name := tape.Name(w.dir, "s")
		for _, c := range []struct{ text, want string }{
			{",tape.info", "session: s\ntape: " + name + "\nmodel: fake:a\nentries: "},
			{",tape.info", "last anchor: session/start, "},
			{",tape.info", "tokens of the last turn: 7\nbegun: 2000-01-01 00:00:00Z\nlast activity: 2000-01-01 00:00:00Z"},
			{",tape.anchors", "- #1 2000-01-01 00:00:00Z session/start"},
			{",tape.search 天气", " 2000-01-01 00:00:00Z message: 今天天气很好"},
			{",tape.search query=nothing-of-it", "No entries match."},
			{",model", "`fake:a` answers. You can also choose:\n- fake:c\n- no:b"},
			{",model x:y", "Unknown model \"x:y\"; expected one of fake:a, fake:c, no:b."},
			{",model no:b", "Cannot use the model \"no:b\"."},
			{",model fake:c", "`fake:c` now answers in this session."},
			{",model", "`fake:c` answers. You can also choose:\n- fake:a\n- no:b"},
			{",tools", "- `shop.buy` (asks): Buys something."},
			{",skill", "The agent has no skills."},
			{",skill pdf", "Unknown skill \"pdf\"."},
			{",stop", "No answer is running."},
			{",approve c1", "No open question `c1` in this session."},
			{",approve c1 remember=always", "Remember is \"always\"; expected remember=session, or nothing."},
			{",deny c1", "No open question `c1` in this session."},
			{",ask", "No tool is approved for this session."},
			{",ask shop.buy", "The tool \"shop.buy\" is not approved for this session; `,ask` lists those that are."},
			{",mcp", "- `files` connected, 2 tools"},
			{",tape.export", " bytes) to the file `" + name + ".jsonl`."},
			{",tape.handoff a\"\nb\"", "Invalid name; expected at most 128 bytes without line breaks."},
			{",tape.fork 0", "\"0\" is not an entry; expected a number that `,tape.search` shows."},
			{",tape.fork #2", "The new session `s-fork-20000101-000000` has all entries up to #2."},
			{",tape.fork", "A fork of this second already exists; retry."},
		} {
			if got := admin(c.text); !strings.Contains(got, c.want) {
				t.Errorf("%s: %q, want %q", c.text, got, c.want)
			}
		}
		for _, name := range []string{"skill", "tape.handoff", "tape.fork"} { // what a person mistook is no failure of the server
			if strings.Contains(w.log.String(), "command="+name) {
				t.Error(w.log)
			}
		}
		w = newWorld(t, newFake(answers("ok")), Options{Bare: true})
		for text, want := range map[string]string{",tools": "The agent has no tools.", ",mcp": "There are no MCP servers.", ",skill": "The agent has no skills.", ",skill pdf": "There are no skills."} {
			if got := admin(text); got != want {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
		}
	})
}

// AG-52, TA-41: what is forgotten is gone, and is not brought back by writing that down.
func TestForgetErasesTheSession(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{})
	w.say("my secret")
	admin := func(text string) heard {
		return w.process(t.Context(), &turn.Envelope{SessionID: "s", Content: text, Sender: turn.Sender{Role: tool.Admin}})
	}
	ask := admin(",forget")
	_, code, _ := strings.Cut(ask.Output, "`,forget ")
	code, _, _ = strings.Cut(code, "`")
	if before, _, _ := strings.Cut(ask.Output, "`,forget "); !strings.HasPrefix(before, "This erases the session `s` with ") || !strings.HasSuffix(before, " entries, and all its forks. You cannot undo this. Write ") {
		t.Errorf("%q", before)
	}
	for _, wrong := range []string{"yes", "0", code + "0"} {
		if h := admin(",forget " + wrong); !strings.HasPrefix(h.Output, "Wrong code for this session; nothing was erased.") {
			t.Errorf("%q", h.Output)
		}
	}
	if h := admin(",forget " + strings.ToUpper(code)); h.Output != "The session was erased." || h.err != nil {
		t.Errorf("%q %v", h.Output, h.err)
	}
	if _, err := tape.Lookup(t.Context(), w.store, w.dir, "s"); !errors.Is(err, tape.ErrNotFound) {
		t.Error(err)
	}
	w.say("hello")
	if got := strings.Join(w.lines(), "\n"); strings.Contains(got, "secret") {
		t.Error(got)
	}
}

// AG-52, TU-65: ,stop ends the turn that runs, beside the lane.
func TestStopEndsTheRunningTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(hangs(adapter.Chunk{Text: "Well"}), answers("ok")), Options{})
		running, err := w.f.Submit(t.Context(), message("go"))
		if err != nil {
			t.Fatal(err)
		}
		waiting, err := w.f.Submit(t.Context(), message("more"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		stop, err := w.f.Submit(t.Context(), message(",stop"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := stop.Wait(t.Context())
		if err != nil || len(r.Outbound) != 1 || r.Outbound[0].Content != "Stopped 2 turns." {
			t.Errorf("%+v %v", r, err)
		}
		for _, ticket := range []*turn.Ticket{running, waiting} {
			if _, err := ticket.Wait(t.Context()); !errors.Is(err, turn.ErrStopped) {
				t.Error(err)
			}
		}
		got := strings.Join(w.lines(), "\n")
		if !strings.Contains(got, `assistant: "Well" partial`) || !strings.Contains(got, "event turn.end canceled") {
			t.Error(got)
		}
	})
}
