package run

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// book is a workflow of eight bots.
const book = `
name: book
bots:
  outline: {prompt: p, message: outline, root: book}
  chapter:
    on: book/chapters/*/title
    prompt: p
    message: "chapter {{ event.value }} of {{ result.book.title }}"
    root: "book/chapters/{{ event.match.0 }}/body"
    format: text
    concurrency: 2
  note: {on: book/chapters/*/title, prompt: p, message: "note {{ event.value }}", root: "notes/{{ event.match.0 }}", format: text}
  language: {prompt: p, message: language}
  mood: {prompt: p, message: mood}
  risky: {on: {value: lang}, prompt: p, message: risky, root: extra}
  safe: {on: {error: risky}, prompt: p, message: safe, root: extra}
  index: {on: {done: [chapter, safe]}, prompt: p, message: "index {{ result.book | json }}", root: index, format: text}
`

// library is replicas on one database that are killed. Their models and tools say how often they were asked.
type library struct {
	cluster
	single bool

	mu    sync.Mutex
	asked map[string]int // models, by the message
	tools map[string]int // calls that have begun, by the tool and the key
}

// Model implements [bot.Models] for the agent.
func (l *library) Model(string) (adapter.Model, error) { return l, nil }

// Names implements [adapter.Provider].
func (l *library) Names() []string { return nil }

// count returns how often something was counted.
func (l *library) count(in map[string]int, what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	in[what]++
	return in[what]
}

// Stream implements [adapter.Model]: a second for each piece.
func (l *library) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		for _, c := range l.answer(req) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				yield(adapter.Chunk{}, context.Cause(ctx))
				return
			}
			if c.Text == "fail" {
				yield(adapter.Chunk{}, &adapter.Error{Code: adapter.CodeProtocol, Message: "the model refuses"})
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// answer is what the model says, in pieces.
func (l *library) answer(req adapter.Request) (list []adapter.Chunk) {
	asked := req.Messages[len(req.Messages)-1].Content
	kind, rest, _ := strings.Cut(asked, " ")
	n := l.count(l.asked, asked)
	var texts []string
	switch kind {
	case "outline":
		texts = []string{fmt.Sprintf(`{"title":"t%d",`, n), fmt.Sprintf(`"chapters":[{"title":"a%d"},{"ti`, n), fmt.Sprintf(`tle":"b%d"}]}`, n)}
	case "language":
		texts = []string{`{"lang":`, fmt.Sprintf(`"en%d"}`, n)}
	case "mood":
		texts = []string{`{"mood":`, `"good"}`}
	case "risky":
		texts = []string{`{"half":`, "fail"}
	case "safe":
		texts = []string{`{"whole":`, `1}`}
	case "chapter", "note", "index":
		texts = []string{"about ", rest}
	default:
		return l.reply(req)
	}
	for _, text := range texts {
		list = append(list, adapter.Chunk{Text: text})
	}
	return append(list, adapter.Chunk{Finish: adapter.FinishStop})
}

// steps are the calls that the agent makes one after the other, and what it says before them.
var agentSteps = []struct {
	text  string
	calls []string
}{
	{"I look it up. ", []string{"lookup", "pay"}},
	{"It takes a while. ", []string{"slow"}},
	{"", []string{"write", "lookup", "send"}},
	{"That is all.", nil},
}

// reply is the next step of the agent: as many as it has results behind the question.
func (l *library) reply(req adapter.Request) (list []adapter.Chunk) {
	step := 0
	for i := len(req.Messages) - 1; i >= 0 && req.Messages[i].Role != adapter.User; i-- {
		if len(req.Messages[i].ToolCalls) > 0 {
			step++
		}
	}
	s := agentSteps[min(step, len(agentSteps)-1)]
	question := slices.IndexFunc(req.Messages, func(m adapter.Message) bool { return m.Role == adapter.User && m.Content == "grant" })
	switch {
	case question >= 0 && step == 0:
		s.text, s.calls = "", []string{"grant"}
	case question >= 0:
		s = agentSteps[len(agentSteps)-1]
	}
	for _, word := range strings.SplitAfter(s.text, " ") {
		list = append(list, adapter.Chunk{Text: word})
	}
	for i, name := range s.calls {
		list = append(list, adapter.Chunk{ToolCall: &adapter.ToolCall{Index: i, ID: fmt.Sprintf("c%d", i), Name: name, Arguments: "{}"}})
	}
	finish := adapter.FinishStop
	if len(s.calls) > 0 {
		finish = adapter.FinishToolCalls
	}
	return append(list, adapter.Chunk{Finish: finish})
}

// toolsOf are the tools of the agent: those that only read are idempotent.
func (l *library) toolsOf() (list []*tool.Tool) {
	for name, idempotent := range map[string]bool{"lookup": true, "slow": true, "pay": false, "write": false, "send": false, "grant": false} {
		approval := tool.Never
		if name == "grant" {
			approval = tool.Always
		}
		list = append(list, &tool.Tool{
			Name: name, Description: name, Idempotent: idempotent, Approval: approval,
			Run: func(ctx context.Context, c tool.Call) (tool.Result, error) {
				l.count(l.tools, name+" "+tool.Key(ctx))
				wait := time.Second
				if name == "slow" {
					wait = 10 * time.Second
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					return tool.Result{}, context.Cause(ctx)
				}
				return tool.Text(name + " done"), nil
			},
		})
	}
	return list
}

// open starts a replica, whose questions have an hour.
func (l *library) open() *modelReplica {
	r := &modelReplica{node: l.net.join()}
	models := new(adapter.Registry)
	models.Register("m", l)
	models.Default = "m:m"
	o := bareOptions(Options{Workflows: new(flow.Registry), Models: models, Files: noFiles{}, Store: r.node, Workspace: l.workspace})
	w, err := flow.ParseSpec("book.yaml", []byte(book), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	o.Workflows.Register(w)
	tapes := memoryTapes{l.net.db.SharedTapes(nodeLeases{r.node}, nil), r.node}
	set, err := tool.NewSet(l.toolsOf()...)
	if err != nil {
		l.t.Fatal(err)
	}
	a, err := agent.New(agent.Options{Name: answerer, Models: l, Model: "m:m", Bare: true, Store: tapes, Tools: set, ApprovalTimeout: time.Hour})
	if err != nil {
		l.t.Fatal(err)
	}
	o.Tapes, o.Agents, o.Turns, o.Kernel = tapes, soleAgent{a}, turn.New(turn.Options{Workspace: l.workspace}), webchannel.NewKernel(o.Log)
	if err := o.Turns.Register(agent.Name, a); err != nil {
		l.t.Fatal(err)
	}
	r.tapes = tapes
	if !l.single {
		o.Members, o.Holder = r.node, r.node.holder
	}
	if r.s, err = Open(o); err != nil {
		l.t.Fatal(err)
	}
	return r
}

// kill ends a replica without a word and starts another one.
func (l *library) kill(i int) {
	l.end(l.replicas[i])
	l.replicas[i] = l.open()
}

// end ends a replica without a word.
func (l *library) end(r *modelReplica) {
	r.node.silence(true, 0)
	r.s.stopWork(errClosing)
	if err := r.s.Close(); err != nil {
		l.t.Fatal(err)
	}
	r.end()
	l.net.change(func() { r.node.late = true }) // a server that starts waits no longer for the leases of the one before
}

// lose starts a run, kills its replica at a random moment or lets it stand still, sometimes once more, and returns the run when it has ended.
func (l *library) lose(req *Request, random *rand.Rand, within time.Duration) *Run {
	l.s = l.replicas[0].s
	r, _, err := l.begin(l.t.Context(), req)
	if err != nil {
		l.t.Fatal(err)
	}
	id := r.ID
	times := 1 + random.IntN(2)
	for range times {
		time.Sleep(time.Duration(random.Int64N(int64(within))))
		for i, other := range l.replicas {
			if own := other.s.runsInMemory()[id]; own == nil || own.manager.Load() == nil {
				continue
			}
			if !l.single && random.IntN(2) == 0 { // it only stands still: another replica takes the run over, and then it writes
				other.node.silence(false, time.Duration(6000+random.IntN(6000))*time.Millisecond)
				break
			}
			for range 1 + random.IntN(3-times) { // the next server may be lost before the run goes on
				l.kill(i)
			}
			break
		}
	}
	for range 600 {
		time.Sleep(time.Second)
		l.s = l.replicas[len(l.replicas)-1].s
		if r, err = l.find(id, access.Local); err == nil && r.Ended() {
			return r
		}
	}
	l.t.Fatalf("DU-06: %s does not end: %v", id, err)
	return nil
}

// checkBook checks that all parts of a book are of the same version.
func (l *library) checkBook(r *Run) {
	var d struct {
		Book struct {
			Title    string
			Chapters []struct{ Title, Body string }
		}
		Notes      map[string]string
		Lang, Mood string
		Extra      map[string]int
		Index      string
	}
	o, document, _ := r.Result()
	err := json.Unmarshal(document, &d)
	bad := err != nil || o.Status != StatusCompleted || len(d.Book.Chapters) != 2 || len(d.Notes) != 2 || d.Mood != "good" || d.Lang == "" || len(d.Extra) != 1 || d.Extra["whole"] != 1
	for i, c := range d.Book.Chapters {
		bad = bad || c.Title[1:] != d.Book.Title[1:] || c.Body != "about "+c.Title+" of "+d.Book.Title || d.Notes[fmt.Sprint(i)] != "about "+c.Title || !strings.Contains(d.Index, c.Body)
	}
	if bad {
		l.t.Fatalf("DU-06: %s: %+v\n%s %v", r.ID, o, document, err)
	}
}

// checkTurn checks a turn, its tape, and how often its tools ran.
func (l *library) checkTurn(r *Run) {
	o, document, reserved := r.Result()
	_, all := l.tape(r.Session)
	var text string
	_ = json.Unmarshal(document, &text)
	if o.Status != StatusCompleted || !strings.HasPrefix(text, "I look it up. \n\nIt takes a while. \n\nThat is all.") {
		l.t.Fatalf("DU-06: %s: %+v %q\n%s", r.ID, o, text, all)
	}
	var beside struct {
		Tools   map[string]json.RawMessage `json:"$tools"`
		Results map[string]json.RawMessage `json:"$tool_results"`
	}
	_ = json.Unmarshal(reserved, &beside)
	if len(beside.Tools) != 6 || len(beside.Results) != 6 {
		l.t.Fatalf("DU-06: %s has %d calls and %d results: %s\n%s", r.ID, len(beside.Tools), len(beside.Results), reserved, all)
	}
	for what, want := range map[string]int{
		`"turn.start"`: 1, `"turn.end"`: 1, `"turn.aborted"`: 0, `"role":"user"`: 1, "tool_call ": 3, "tool_result ": 6, `"loop.step"`: 4, "That is all.": 1,
	} {
		if got := strings.Count(all, what); got != want {
			l.t.Fatalf("DU-06: the tape of %s has %d times %s, expected %d:\n%s", r.ID, got, what, want, all)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for what, n := range l.tools {
		if name, _, _ := strings.Cut(what, " "); n > 1 && name != "lookup" && name != "slow" {
			l.t.Fatalf("DU-06: %s ran %d times", what, n)
		}
	}
}

// DU-06: wherever a server is killed, on one server and on three replicas, runs and turns go on: each ends, with a right document and a right
// tape, and no tool ran twice that is not idempotent.
func TestRunsAndTurnsOutliveTheirServers(t *testing.T) {
	for name, replicas := range map[string]int{"one server": 1, "three replicas": 3} {
		for _, kind := range []string{"book", "turn"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				workspace := t.TempDir()
				for i := range longtest.Times(15, 250) {
					random := rand.New(rand.NewPCG(uint64(i), uint64(replicas)))
					synctest.Test(t, func(t *testing.T) {
						l := newLibrary(t, workspace, replicas)
						defer func() {
							time.Sleep(20 * time.Second) // none of them stands still any more
							l.close()
						}()
						if kind == "book" {
							l.checkBook(l.lose(&Request{Who: access.Local, Subject: Subject{Workflow: "book"}}, random, 12*time.Second))
							return
						}
						l.checkTurn(l.lose(&Request{Who: access.Local, Subject: Subject{Agent: answerer}, Session: "s", Input: mustJSON("hello")}, random, 25*time.Second))
					})
				}
			})
		}
	}
}

// DU-05: only crashes in a row end a run: it may crash more servers if it finishes steps in between.
func TestCrashesBetweenStepsDoNotEndARun(t *testing.T) {
	workspace := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, workspace, 1)
		defer l.close()
		l.s = l.replicas[0].s
		r, _, err := l.begin(t.Context(), &Request{Who: access.Local, Subject: Subject{Agent: answerer}, Session: "s", Input: mustJSON("hello")})
		if err != nil {
			t.Fatal(err)
		}
		id := r.ID
		for results := range MaxCrashes + 2 {
			for all := ""; strings.Count(all, "tool_result ") <= results && !strings.Contains(all, "turn.end"); _, all = l.tape("s") {
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(2 * RecordEvery)
			l.kill(0)
		}
		time.Sleep(time.Minute)
		l.s = l.replicas[0].s
		if r, err = l.find(id, access.Local); err != nil {
			t.Fatal(err)
		}
		l.checkTurn(r)
	})
}
