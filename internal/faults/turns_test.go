//go:build nightly

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// answering answers messages on a folder of tapes: the framework, the agent and the file store as a server has them, and a model
// that calls tools. It says what it has done, one line each:
//
//	ack <tape> <batch> <first id> <entries> <sum>    a batch was acknowledged
//	turn <session> <turn>                            a turn has ended well
//	bad <what>                                       something that must never be
type answering struct {
	name      string
	say       func(format string, args ...any)
	store     *acking
	framework *turn.Framework
	model     *fakeproviders.Server
}

// sessions are those that messages come for.
var sessions = []string{"chat:1", "chat:2", "会话:3"}

const workspace = "/srv/turns" // of the sessions; it need not be there

func newAnswering(dir, name string, say func(string, ...any)) (*answering, error) {
	files, err := logs.OpenFolder(dir, logs.FolderOptions{})
	if err != nil {
		return nil, err
	}
	a := &answering{name: name, say: say, store: &acking{Store: files, name: name, say: say}}
	a.framework = turn.New(turn.Options{Workspace: workspace})
	a.model = &fakeproviders.Server{Script: a.answer, Models: []string{"m"}}
	provider, err := openai.New(openai.Options{BaseURL: "http://model.invalid/v1", Transport: a.model.Transport()})
	if err != nil {
		return nil, err
	}
	models := &adapter.Registry{Default: "openai:m"}
	models.Register("openai", provider)
	tools, err := tool.NewSet(
		tool.Must(tool.New("wait", "waits", func(ctx context.Context, in struct {
			MS int `json:"ms"`
		},
		) (string, error) {
			select {
			case <-time.After(time.Duration(in.MS) * time.Millisecond):
				return "waited", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})),
		tool.Must(tool.New("large", "returns more than an entry is to have", func(context.Context, struct{}) (string, error) {
			return strings.Repeat("many words ", 2000), nil
		})),
		tool.Must(tool.New("broken", "fails", func(context.Context, struct{}) (string, error) {
			return "", errors.New("it is broken")
		})),
	)
	if err != nil {
		return nil, err
	}
	builtin, err := agent.New(agent.Options{Models: models, Tools: tools, Store: a.store, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return a, a.framework.Register(agent.Name, builtin)
}

// close ends it, as a server that shuts down does.
func (a *answering) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(a.framework.Drain(ctx), a.model.Close(), a.store.Close())
}

// take answers message n of a session.
func (a *answering) take(ctx context.Context, session string, n int) (*turn.Result, error) {
	k, err := a.framework.Submit(ctx, &turn.Envelope{SessionID: session, Channel: "test", ChatID: "1", Content: fmt.Sprintf("message %d", n)})
	if err != nil {
		return nil, err
	}
	r, err := k.Wait(ctx)
	if err == nil {
		a.say("turn %s %s", session, r.TurnID)
	}
	return r, err
}

// answer is the model. What the message's number asks for: up to three steps with tools, a handoff, a helper. It refuses what
// providers refuse.
func (a *answering) answer(r fakeproviders.Request) fakeproviders.Answer {
	var body struct{ Messages []chatMessage }
	if err := json.Unmarshal(r.Body, &body); err != nil {
		a.say("bad request: %v", err)
	}
	if err := acceptable(body.Messages); err != nil {
		a.say("bad request: %v in %s", err, bytes.ReplaceAll(r.Body, []byte("\n"), nil))
		return fakeproviders.Answer{Status: 400}
	}
	asked := "" // the last question
	steps := 0  // with tools, since then
	for _, m := range body.Messages {
		switch {
		case m.Role == "user":
			json.Unmarshal(m.Content, &asked)
			asked = asked[strings.LastIndex("\n\n"+asked, "\n\n"):] // it is joined with what had no answer
			steps = 0
		case len(m.ToolCalls) > 0:
			steps++
		}
	}
	n, _ := strconv.Atoi(strings.TrimPrefix(asked, "message "))
	answer := fakeproviders.Answer{Text: "This is what there is to say to " + asked + ", and it takes some time.", Reasoning: "let me see", Pace: 4000}
	phase := fmt.Sprintf("phase %d.", n)
	call := func(name, arguments string) {
		answer.ToolCalls = append(answer.ToolCalls, fakeproviders.ToolCall{
			ID: fmt.Sprintf("call_%d_%d_%d", n, steps, len(answer.ToolCalls)), Name: name, Arguments: arguments,
		})
	}
	switch {
	case !strings.HasPrefix(asked, "message ") || bytes.Contains(r.Body, []byte("Anchor created: "+phase)):
	case n%7 == 3 && steps == 1:
		call("wait", `{"ms":1}`)
		call("tape_handoff", `{"name":"`+phase+`","summary":"what was before"}`)
	case n%5 == 4 && steps == 0:
		call("subagent", `{"task":"message 2"}`)
		call("wait", `{"ms":2}`)
	case steps < n%4:
		call("wait", fmt.Sprintf(`{"ms":%d}`, n%8))
		call([]string{"large", "broken", "wait", "nothing"}[n/4%4], `{}`)
		if n%2 == 0 {
			call("wait", `{"ms":3}`)
		}
	}
	return answer
}

// acking is a file store that says what it has acknowledged. It marks each entry with its batch, its place there and the batch's
// size, so that a part of a batch would be seen.
type acking struct {
	*logs.Store
	name    string
	say     func(string, ...any)
	batches atomic.Int64
	before  func(*tape.Batch) error // nil for nothing
}

func (s *acking) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	batch := s.name + "-" + strconv.FormatInt(s.batches.Add(1), 10)
	b.Entries = slices.Clone(b.Entries)
	for i := range b.Entries {
		e := &b.Entries[i]
		mark := fmt.Sprintf(`{"batch":"%s/%d/%d"`, batch, i, len(b.Entries))
		if meta := bytes.TrimSpace(e.Meta); len(meta) > 2 {
			e.Meta = json.RawMessage(mark + "," + string(meta[1:]))
		} else {
			e.Meta = json.RawMessage(mark + "}")
		}
	}
	sum := sumOf(b.Entries)
	if s.before != nil {
		if err := s.before(&b); err != nil {
			return 0, err
		}
	}
	first, err := s.Store.Append(ctx, name, b)
	if err == nil && !tape.IsFork(name) { // forks are dropped, here
		s.say("ack %s %s %d %d %d", name, batch, first, len(b.Entries), sum)
	}
	return first, err
}

// sumOf is a sum of what entries say.
func sumOf(entries []tape.Entry) uint32 {
	h := crc32.NewIEEE()
	for _, e := range entries {
		io.WriteString(h, string(e.Kind))
		h.Write(e.Payload)
	}
	return h.Sum32()
}

// chatMessage is a message as models get it.
type chatMessage struct {
	Role       string
	Content    json.RawMessage
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// acceptable says why a provider would refuse a conversation.
func acceptable(messages []chatMessage) error {
	open := map[string]bool{}
	for i, m := range messages {
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				return fmt.Errorf("message %d is a result without its call %q", i, m.ToolCallID)
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("before message %d there are %d calls without results", i, len(open))
		}
		if m.Role != "system" && m.Role != "user" && m.Role != "assistant" {
			return fmt.Errorf("message %d has the role %q", i, m.Role)
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || c.Function.Name == "" || open[c.ID] || m.Role != "assistant" {
				return fmt.Errorf("message %d has the call %+v", i, c)
			}
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("at the end there are %d calls without results", len(open))
	}
	return nil
}

// ledger is what was said about a folder.
type ledger struct {
	acks  map[string][]ack // by tape
	turns map[string][]string
}

type ack struct {
	batch   string
	first   int64
	entries int
	sum     uint32
}

// note takes a line. It returns what must never be said.
func (l *ledger) note(line string) error {
	if l.acks == nil {
		l.acks, l.turns = map[string][]ack{}, map[string][]string{}
	}
	var a ack
	var name string
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "ready", "done":
	case "ack":
		if _, err := fmt.Sscanf(rest, "%s %s %d %d %d", &name, &a.batch, &a.first, &a.entries, &a.sum); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		l.acks[name] = append(l.acks[name], a)
	case "turn":
		session, id, _ := strings.Cut(rest, " ")
		l.turns[session] = append(l.turns[session], id)
	default:
		return errors.New(line)
	}
	return nil
}

// state is what a tape says of its turns.
type state struct {
	order []string // of the turns that have begun
	ended map[string]string
}

// check opens a session's tape as a new process does: everything that was acknowledged is there, where it was said to be; no batch
// is there in part; ids are consecutive; turns lie one behind the other, and one that was cut off is named by the next; the view is
// one that providers accept. What was put beside the tape is there, too.
func (l *ledger) check(t testing.TB, store tape.Store, session string) (s state) {
	t.Helper()
	s.ended = map[string]string{}
	tp, err := tape.Lookup(t.Context(), store, workspace, session)
	if errors.Is(err, tape.ErrNotFound) && len(l.acks[tape.Name(workspace, session)]) == 0 {
		return s
	}
	if err != nil {
		t.Fatalf("%s: %v", session, err)
	}
	var entries []tape.Entry
	type place struct{ first, of int }
	batches := map[string]place{}
	aborted := ""
	for e, err := range tp.Read(t.Context(), tape.Query{}) {
		if err != nil {
			t.Fatalf("%s: %v", session, err)
		}
		entries = append(entries, e)
		if e.ID != int64(len(entries)) {
			t.Fatalf("%s: entry %d has the id %d", session, len(entries), e.ID)
		}
		var meta struct{ Batch string }
		json.Unmarshal(e.Meta, &meta)
		parts := strings.Split(meta.Batch, "/")
		if len(parts) != 3 {
			t.Fatalf("%s: entry %d is of the batch %q", session, e.ID, meta.Batch)
		}
		at, _ := strconv.Atoi(parts[1])
		of, _ := strconv.Atoi(parts[2])
		b, seen := batches[parts[0]]
		if !seen {
			b = place{len(entries) - 1, of}
			batches[parts[0]] = b
		}
		if at != len(entries)-1-b.first {
			t.Fatalf("%s: entry %d is at the wrong place of its batch %s", session, e.ID, meta.Batch)
		}
		id := tape.MetaOf(e).Turn
		if id != "" && (len(s.order) == 0 || s.order[len(s.order)-1] != id) {
			if slices.Contains(s.order, id) {
				t.Fatalf("%s: entry %d is of the turn %s, but another one has begun since", session, e.ID, id)
			}
			if n := len(s.order); n > 0 && s.ended[s.order[n-1]] == "" {
				aborted = s.order[n-1] // and this one has to say so
			}
			s.order = append(s.order, id)
		}
		var p struct {
			Name string
			Data struct{ Turn, Status string }
		}
		json.Unmarshal(e.Payload, &p)
		if aborted != "" {
			if e.Kind != tape.KindEvent || p.Name != "turn.aborted" || p.Data.Turn != aborted {
				t.Errorf("%s: entry %d does not say that the turn %s was cut off: %s", session, e.ID, aborted, e.Payload)
			}
			aborted = ""
		}
		if e.Kind == tape.KindEvent && p.Name == "turn.end" {
			s.ended[id] = p.Data.Status
		}
		for _, kept := range tape.MetaOf(e).Spill {
			if _, size, err := tp.ReadBlob(t.Context(), kept.Handle, 0, 1); err != nil || size != kept.Size {
				t.Errorf("%s: entry %d: what was spilled has %d bytes: %v", session, e.ID, size, err)
			}
		}
	}
	for name, b := range batches {
		if rest := len(entries) - b.first; rest < b.of {
			t.Errorf("%s: of the batch %s there are %d of %d entries", session, name, rest, b.of)
		}
	}
	for _, a := range l.acks[tp.Name()] {
		b, ok := batches[a.batch]
		if !ok || b.first != int(a.first)-1 || b.of != a.entries || sumOf(entries[b.first:b.first+b.of]) != a.sum {
			t.Errorf("%s: the batch %+v was acknowledged, and is not there", session, a)
		}
	}
	for _, id := range l.turns[session] {
		if s.ended[id] != "ok" {
			t.Errorf("%s: the turn %s had ended, and the tape says %q", session, id, s.ended[id])
		}
	}
	info, err := tp.Info(t.Context())
	if n := int64(len(entries)); err != nil || info.LastID != n || info.Entries != n || info.Unreadable != 0 {
		t.Errorf("%s: %d entries, and the store says %+v, %v", session, n, info, err)
	}
	view, err := tp.View(t.Context(), nil)
	if err != nil {
		t.Fatalf("%s: %v", session, err)
	}
	messages := make([]chatMessage, len(view.Messages))
	for i, m := range view.Messages {
		if err := json.Unmarshal(m.JSON, &messages[i]); err != nil {
			t.Errorf("%s: message %d: %v", session, i, err)
		}
	}
	if err := acceptable(messages); err != nil {
		t.Errorf("%s: %v", session, err)
	}
	return s
}

// inProcess runs do with what answers messages on a folder, in this process, and notes what it says.
func inProcess(t testing.TB, l *ledger, dir, name string, do func(*answering)) {
	t.Helper()
	var mu sync.Mutex
	var lines []string
	a, err := newAnswering(dir, name, func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, fmt.Sprintf(format, args...))
	})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if err := a.close(); err != nil {
				t.Error(err)
			}
		}()
		do(a)
	}()
	for _, line := range lines {
		if err := l.note(line); err != nil {
			t.Error(err)
		}
	}
}

// checkAll opens a folder and checks all sessions.
func (l *ledger) checkAll(t testing.TB, dir string) map[string]state {
	t.Helper()
	store, err := logs.OpenFolder(dir, logs.FolderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	states := map[string]state{}
	for _, session := range sessions {
		states[session] = l.check(t, store, session)
	}
	return states
}

// TA-03: a clock that goes backwards, by hours between any two entries, changes nothing: what came later is later.
func TestAClockThatGoesBackwardsDoesNotChangeTheOrderOfATape(t *testing.T) {
	var l ledger
	dir := t.TempDir()
	const turns = 8
	inProcess(t, &l, dir, "p", func(a *answering) {
		start := time.Now().UTC().Truncate(time.Microsecond)
		var n atomic.Int64
		a.store.before = func(b *tape.Batch) error {
			for i := range b.Entries {
				b.Entries[i].Date = start.Add(-time.Duration(n.Add(1)) * time.Hour)
			}
			return nil
		}
		for n := range turns {
			for _, session := range sessions {
				if _, err := a.take(t.Context(), session, n); err != nil {
					t.Fatalf("%s: message %d: %v", session, n, err)
				}
			}
		}
		tp, err := tape.Lookup(t.Context(), a.store, workspace, sessions[0])
		if err != nil {
			t.Fatal(err)
		}
		var questions []string
		var last time.Time
		for e, err := range tp.Read(t.Context(), tape.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			if !last.IsZero() && !e.Date.Before(last) {
				t.Fatalf("entry %d is of %s, after one of %s: the clock did not go backwards", e.ID, e.Date, last)
			}
			last = e.Date
			var m struct{ Role, Content string }
			json.Unmarshal(e.Payload, &m)
			if m.Role == "user" && len(tape.MetaOf(e).Refs) == 0 { // those that came again behind a handoff have been
				questions = append(questions, m.Content)
			}
		}
		for n := range turns {
			if want := fmt.Sprintf("message %d", n); n >= len(questions) || questions[n] != want {
				t.Fatalf("%q, want %q at %d", questions, want, n)
			}
		}
	})
	for session, s := range l.checkAll(t, dir) {
		if len(s.ended) != turns {
			t.Errorf("%s: %d turns have ended", session, len(s.ended))
		}
	}
}

// TA-12, in a turn: wherever in it the disk is full, the turn fails and says so, the tape is as good as before, and when there is
// room again the next turn works.
func TestATurnThatFindsTheDiskFullFailsAndTheNextOneWorks(t *testing.T) {
	var l ledger
	dir := t.TempDir()
	inProcess(t, &l, dir, "p", func(a *answering) {
		var left atomic.Int64 // appends that there is room for
		a.store.before = func(*tape.Batch) error {
			if left.Add(-1) < 0 {
				return fmt.Errorf("the disk is full; make room: %w", syscall.ENOSPC)
			}
			return nil
		}
		const plenty = 1 << 30
		for room := int64(0); ; room++ {
			session := sessions[room%3]
			left.Store(room)
			_, err := a.take(t.Context(), session, 3) // a handoff, and tools
			if err == nil {
				if room < 6 {
					t.Errorf("only %d turns have failed", room)
				}
				return
			}
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "the disk is full") {
				t.Errorf("%s with room for %d appends: %v", session, room, err)
			}
			left.Store(plenty)
			l.check(t, a.store, session)
			if r, err := a.take(t.Context(), session, int(room)%3); err != nil || !strings.HasPrefix(r.Output, "This is what there is to say") {
				t.Errorf("%s afterwards: %+v, %v", session, r, err)
			}
		}
	})
	l.checkAll(t, dir)
}
