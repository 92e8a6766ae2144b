package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// asking runs a turn that asks for approval; reply is called with each question, in a goroutine of its own.
func (w *world) asking(t *testing.T, text string, reply func(Question)) heard {
	t.Helper()
	var h heard
	h.Result, h.err = w.f.Process(t.Context(), message(text), turn.WithSink(func(e turn.Event, err error) {
		if err != nil {
			return
		}
		h.events = append(h.events, e)
		if e.Kind == ApprovalRequiredEvent && reply != nil {
			var q Question
			if err := json.Unmarshal(e.Value, &q); err != nil {
				t.Error(err)
			}
			open := w.Questions("s")
			for _, o := range open {
				if o.ID == q.ID {
					q = o
				}
			}
			go reply(q)
		}
	}))
	return h
}

// AG-40, AG-41
func TestACallThatAsksRunsWithApprovalAlone(t *testing.T) {
	for name, test := range map[string]struct {
		answer   *Answer
		result   string
		decision string
		told     string // in the stream
		took     time.Duration
	}{
		"approved": {
			&Answer{Approve: true, By: "ann"}, `"rm"`, `{"call":"c1","tool":"echo","decision":"approve","by":"ann"}`,
			`{"call":"c1","decision":"approve","by":"ann"}`, time.Second,
		},
		"denied": {
			&Answer{Reason: "too\ndangerous"}, `{"error":{"kind":"denied","message":"a person denied the call: too dangerous"}}`,
			`{"call":"c1","tool":"echo","decision":"deny","reason":"too dangerous"}`, `{"call":"c1","decision":"deny"}`, time.Second,
		},
		"nobody answered": {
			nil, `{"error":{"kind":"denied","message":"no approval came within 5m0s"}}`,
			`{"call":"c1","tool":"echo","decision":"deny","reason":"no answer came in time"}`, `{"call":"c1","decision":"deny","reason":"timeout"}`, 5 * time.Minute,
		},
		"this conversation has no approver": {
			&Answer{NoPerson: true, Approve: true}, `{"error":{"kind":"denied","message":"the call was not run: this conversation has no approver"}}`,
			`{"call":"c1","tool":"echo","decision":"deny","reason":"this conversation has no approver"}`, `{"call":"c1","decision":"deny","reason":"unattended"}`, time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, newFake(calls("", `c1:echo:{"text":"rm"}`, "c2:slow:{}"), answers("ok")), Options{
					Tools: setOf(t, echoTool(t, tool.WithApproval(tool.Always)), waitTool("slow", 10*time.Millisecond)),
				})
				begin := time.Now()
				h := w.asking(t, "go", func(q Question) {
					if string(q.Arguments) != `{"text":"rm"}` || q.Tool != "echo" || !q.Expires.Equal(begin.Add(5*time.Minute)) || q.Turn == "" {
						t.Errorf("%+v", q)
					}
					if test.answer == nil {
						return
					}
					time.Sleep(time.Second)
					a := *test.answer
					a.Turn, a.ID = q.Turn, q.ID
					if err := w.Answer(t.Context(), a); err != nil {
						t.Error(err)
					}
					if err := w.Answer(t.Context(), a); !errors.Is(err, ErrAnswered) { // once per question
						t.Errorf("a second answer: %v", err)
					}
				})
				if h.err != nil {
					t.Fatal(h.err)
				}
				if took := time.Since(begin); took != test.took {
					t.Errorf("took %v", took)
				}
				var result, decision string
				for _, e := range w.entries() {
					switch name, data := eventOf(e); {
					case name == "approval":
						decision = sorted(t, withoutID(t, data))
					case e.Kind == tape.KindToolResult && strings.HasPrefix(line(e), "result c1="):
						result = strings.TrimPrefix(line(e), "result c1=")
					}
				}
				if result != test.result {
					t.Errorf("result %s", result)
				}
				if want := sorted(t, []byte(test.decision)); decision != want {
					t.Errorf("decision %s, want %s", decision, want)
				}
				var kinds []string
				for _, e := range h.events {
					if e.Kind == ApprovalRequiredEvent || e.Kind == ApprovalResolvedEvent || e.Kind == turn.ToolResultEvent {
						kinds = append(kinds, string(e.Kind))
					}
				}
				if diff := cmp.Diff([]string{"approval_required", "tool_result", "approval_resolved", "tool_result"}, kinds); diff != "" {
					t.Error(diff)
				}
				if got := told(h.events); !slices.ContainsFunc(got, func(l string) bool {
					return strings.HasPrefix(l, "approval_resolved ") && sorted(t, withoutID(t, []byte(strings.TrimPrefix(l, "approval_resolved ")))) == sorted(t, []byte(test.told))
				}) {
					t.Error(got)
				}
				if len(w.Questions("s")) > 0 {
					t.Error("a question is left")
				}
			})
		})
	}
}

// withoutID takes the id out of what is said of a question; it is an error if there is none.
func withoutID(t *testing.T, data []byte) []byte {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	id, _ := m["id"].(string)
	if same, ok := ReadQuestionID(id); !ok || same != id {
		t.Errorf("the id of the question is %q", id)
	}
	delete(m, "id")
	delete(m, "content")
	out, _ := json.Marshal(m)
	return out
}

func sorted(t *testing.T, data []byte) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Error(err)
	}
	out, _ := json.Marshal(m)
	return string(out)
}

// AG-40: nobody is waited for where nobody can answer.
func TestACallThatAsksIsDeniedWhereNobodyCanAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(calls("", `c1:echo:{"text":"rm"}`), answers("ok")), Options{Tools: setOf(t, echoTool(t, tool.WithApproval(tool.Always)))})
		begin := time.Now()
		if _, err := w.f.Process(t.Context(), message("go")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("took %v", took)
		}
		if got := strings.Join(w.lines(), "\n"); !strings.Contains(got, `this conversation has no approver`) || strings.Contains(got, `c1="rm"`) {
			t.Error(got)
		}
	})
}

// chat is a plugin that shows envelopes to a person.
type chat struct {
	got  chan *turn.Envelope
	deaf bool
}

func (c *chat) DispatchOutbound(_ context.Context, e *turn.Envelope) (bool, error) {
	if c.deaf {
		return false, nil
	}
	c.got <- e
	return true, nil
}

func (c *chat) join(w *world) {
	if err := w.f.Register("chat", c); err != nil {
		w.Fatal(err)
	}
}

// AG-40, AG-41, TU-65: in a chat the question is a message, and the answer a command beside the lane.
func TestInAChatACommandApproves(t *testing.T) {
	for name, answer := range map[string]string{"approved": ",approve ID remember=session", "denied": ",deny ID reason=no"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, newFake(calls("", `c1:echo:{"text":"rm"}`), answers("ok"), calls("", `c2:echo:{"text":"rm"}`), answers("ok")),
					Options{Tools: setOf(t, echoTool(t, tool.WithApproval(tool.Always), tool.WithRole(tool.Operator)))})
				c := &chat{got: make(chan *turn.Envelope, 10)}
				c.join(w)
				post := func(text string, role tool.Role) *turn.Ticket {
					ticket, err := w.f.Submit(t.Context(), &turn.Envelope{SessionID: "s", Channel: "telegram", ChatID: "1", Content: text, Sender: turn.Sender{ID: "ann", Role: role}})
					if err != nil {
						t.Fatal(err)
					}
					return ticket
				}
				ticket := post("go", tool.User)
				question := <-c.got
				id := w.Questions("s")[0].ID
				want := "The agent wants to call the tool `echo` with\n\n```json\n{\"text\":\"rm\"}\n```\n\nWrite `,approve " + id + "` to approve, or `,deny " + id + "` to deny."
				if question.Content != want {
					t.Errorf("%q", question.Content)
				}
				post(",approve c1", tool.Operator) // the model's id of the call names no question
				if refused := <-c.got; !strings.Contains(refused.Content, "No open question `c1`") {
					t.Errorf("%q", refused.Content)
				}
				answer := strings.ReplaceAll(answer, "ID", strings.ToUpper(id)) // as a phone writes it, perhaps
				post(answer, tool.User)
				if refused := <-c.got; !strings.Contains(refused.Content, "Your role may not approve this tool") {
					t.Errorf("%q", refused.Content)
				}
				post(answer, tool.Operator)
				if _, err := ticket.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				got := strings.Join(w.lines(), "\n")
				if strings.Contains(got, `result c1="rm"`) != (name == "approved") || !strings.Contains(got, "event approval "+map[string]string{"approved": "approve", "denied": "deny"}[name]) {
					t.Error(got)
				}
				if name != "approved" {
					return
				}
				// AG-30, AG-41: what was remembered holds in this session, behind an anchor and after a restart, and in no other one.
				if _, err := w.tape().Handoff(t.Context(), "here", nil); err != nil {
					t.Fatal(err)
				}
				if _, err := post("again", tool.User).Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(w.lines(), "\n"); !strings.Contains(got, `result c2="rm"`) {
					t.Error(got)
				}
				other := newWorldIn(t, w.dir, newFake(calls("", `c3:echo:{"text":"rm"}`), answers("ok")),
					Options{Store: w.store, Tools: setOf(t, echoTool(t, tool.WithApproval(tool.Always)))})
				h := other.process(t.Context(), &turn.Envelope{SessionID: "other", Content: "go"})
				for _, l := range told(h.events) {
					if l == `result c3="rm"` {
						t.Error("the approval has leaked into another session")
					}
				}
			})
		})
	}
}

// AG-40: a chat that does not take the question cannot answer it.
func TestAQuestionThatIsNotDeliveredIsADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			chat chat
			text string
			why  string
		}{
			"no delivery":          {chat{deaf: true}, "rm", "this conversation has no approver"},
			"too long to be shown": {chat{got: make(chan *turn.Envelope, 10)}, strings.Repeat("天", maxShown), "its arguments cannot be shown in one message"}, // DN-05
		} {
			w := newWorld(t, newFake(calls("", `c1:echo:{"text":"`+test.text+`"}`), answers("ok")), Options{Tools: setOf(t, echoTool(t, tool.WithApproval(tool.Always)))})
			test.chat.join(w)
			begin := time.Now()
			if _, err := w.f.Process(t.Context(), &turn.Envelope{SessionID: "s", Channel: "telegram", ChatID: "1", Content: "go"}); err != nil {
				t.Error(err)
			}
			if time.Since(begin) > 0 || !strings.Contains(strings.Join(w.lines(), "\n"), test.why) {
				t.Errorf("%s: %q", name, w.lines())
			}
		}
	})
}

// DC-01: in a conversation in which nobody has the tool's role, a call is denied at once and no question is left open.
func TestACallIsDeniedAtOnceWhereNobodyInTheConversationMayApproveIt(t *testing.T) {
	for name, test := range map[string]struct {
		by    turn.Approver
		waits bool
	}{
		"nobody":                {turn.Approver{None: true}, false},
		"a role too low":        {turn.Approver{Role: tool.User}, false},
		"the tool's role":       {turn.Approver{Role: tool.Operator}, true},
		"a role that is higher": {turn.Approver{Role: tool.Admin}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, newFake(calls("", `c1:echo:{"text":"rm"}`), answers("ok")),
					Options{Tools: setOf(t, echoTool(t, tool.WithApproval(tool.Always), tool.WithRole(tool.Operator)))})
				begin := time.Now()
				w.process(t.Context(), &turn.Envelope{SessionID: "s", Content: "go", Approver: &test.by})
				if waited := time.Since(begin); (waited > 0) != test.waits {
					t.Errorf("it waited for %v", waited)
				}
				got := strings.Join(w.lines(), "\n")
				if why := map[bool]string{true: "no approval came within", false: "this conversation has no approver"}[test.waits]; !strings.Contains(got, why) {
					t.Error(got)
				}
			})
		})
	}
}

// AG-40: what a configuration says of a tool goes before what the tool says.
func TestAConfigurationOverridesWhatToolsAsk(t *testing.T) {
	ask := tool.WithApproval(tool.Always)
	set := setOf(t, echoTool(t, named("fs.write"), ask), echoTool(t, named("fs.read")), echoTool(t, named("web.get")))
	model := newFake(calls("", `c1:fs_read:{"text":"a"}`, `c2:fs_write:{"text":"b"}`, `c3:web_get:{"text":"c"}`), answers("ok"))
	w := newWorld(t, model, Options{
		Tools: set, Bare: true, Approvals: map[string]tool.Approval{"*": tool.Always, "fs.*": tool.Never, "fs_write": tool.Always},
	})
	listed := w.say(",tools").Output
	if want := "- `fs.read`: Says what it is told.\n- `fs.write` (asks): Says what it is told.\n- `web.get` (asks): Says what it is told."; listed != want {
		t.Errorf("%q", listed)
	}
	h := w.process(t.Context(), &turn.Envelope{SessionID: "s", Content: "go", Approver: &turn.Approver{None: true}})
	denied := map[string]bool{}
	for _, e := range h.events {
		for _, r := range e.Results {
			denied[r.Name] = r.Err != nil && r.Err.Kind == tool.KindDenied
		}
	}
	if diff := cmp.Diff(map[string]bool{"fs.read": false, "fs.write": true, "web.get": true}, denied); diff != "" {
		t.Error(diff)
	}
	if _, err := New(Options{Models: newFake(), Approvals: map[string]tool.Approval{"x": "perhaps"}}); err == nil {
		t.Error("no error")
	}
}

// AG-41
func TestAnswersToWhatIsNotAskedAreErrors(t *testing.T) {
	a := &Agent{questions: new(questions)}
	qs := a.questions
	q := &Question{Session: "s", Turn: "t", ID: questionID("k", 0), Call: "c", Role: tool.Operator, answer: make(chan Answer, 1)}
	qs.ask(q)
	for _, other := range []string{questionID("k", 1), questionID("l", 0)} {
		if id, ok := ReadQuestionID(other); !ok || id == q.ID {
			t.Errorf("two questions have the ids %s and %s", q.ID, other)
		}
	}
	for name, test := range map[string]struct {
		answer Answer
		want   error
	}{
		"unknown":         {Answer{Session: "s", ID: questionID("other", 0)}, ErrNoQuestion},
		"by its call":     {Answer{Session: "s", ID: "c", Role: tool.Admin}, ErrNoQuestion},
		"another session": {Answer{Session: "other", ID: q.ID}, ErrNoQuestion},
		"another turn":    {Answer{Session: "s", Turn: "other", ID: q.ID}, ErrNoQuestion},
		"neither":         {Answer{ID: q.ID, Role: tool.Admin}, ErrNoQuestion},
		"too low a role":  {Answer{Session: "s", ID: q.ID}, ErrRole},
	} {
		if _, err := qs.answer(test.answer); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := a.Waiting(); n != 1 {
		t.Errorf("%d wait", n)
	}
	if !qs.close(q, false) || qs.close(q, false) {
		t.Error("a question can be closed once")
	}
	if _, err := qs.answer(Answer{Session: "s", ID: q.ID, Role: tool.Admin}); !errors.Is(err, ErrAnswered) {
		t.Error(err)
	}
	for range 2 * maxAnswered { // what is remembered is bounded
		more := &Question{Session: "s", Call: "more"}
		qs.ask(more)
		qs.close(more, false)
	}
	if len(qs.list) != maxAnswered || len(qs.open("")) != 0 {
		t.Errorf("%d, %d", len(qs.list), len(qs.open("")))
	}
}

// AG-40: an answer in the moment in which the time is over either counts, or its sender is told that it does not.
func TestAnAnswerAtTheLastMomentCountsOrIsRefused(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, newFake(calls("", `c1:echo:{"text":"rm"}`), answers("ok")), Options{Tools: setOf(t, echoTool(t, tool.WithApproval(tool.Always)))})
			var refused error
			h := w.asking(t, "go", func(q Question) {
				time.Sleep(time.Until(q.Expires))
				refused = w.Answer(t.Context(), Answer{Turn: q.Turn, ID: q.ID, Approve: true})
			})
			synctest.Wait()
			approved := strings.Contains(strings.Join(told(h.events), "\n"), `"decision":"approve"`)
			if h.err != nil || approved != (refused == nil) || refused != nil && !errors.Is(refused, ErrAnswered) {
				t.Errorf("approved %v, told %v, %v", approved, refused, h.err)
			}
		})
	}
}

// AG-40: a turn that ends takes its questions with it.
func TestAQuestionEndsWithItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(calls("", `c1:echo:{"text":"rm"}`)), Options{Tools: setOf(t, echoTool(t, tool.WithApproval(tool.Always)))})
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		time.AfterFunc(time.Minute, func() { cancel(turn.ErrStopped) })
		h := w.process(ctx, message("go"))
		asked := ""
		for _, e := range h.events {
			if e.Kind == ApprovalRequiredEvent {
				var q Question
				if err := json.Unmarshal(e.Value, &q); err != nil {
					t.Fatal(err)
				}
				asked = q.ID
			}
		}
		if !errors.Is(h.err, turn.ErrStopped) || len(w.Questions("s")) > 0 {
			t.Errorf("%v, %v", h.err, w.Questions("s"))
		}
		if err := w.Answer(t.Context(), Answer{Session: "s", ID: asked, Approve: true}); !errors.Is(err, ErrAnswered) {
			t.Error(err)
		}
		if got := strings.Join(w.lines(), "\n"); !strings.Contains(got, `result c1={"error":{"kind":"interrupted"`) {
			t.Error(got)
		}
	})
}

// beforeTool is a plugin with the hook alone.
type beforeTool func(context.Context, *tool.Tool, tool.Call) (Verdict, error)

func (f beforeTool) BeforeTool(ctx context.Context, t *tool.Tool, c tool.Call) (Verdict, error) {
	return f(ctx, t, c)
}

// AG-28, AG-40: what is shown is what runs, also where a hook has changed it.
func TestWhatIsShownIsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(calls("", `c1:echo:{"text":"rm -rf /"}`), answers("ok")), Options{Tools: setOf(t, echoTool(t, tool.WithApproval(tool.Always)))},
			beforeTool(func(context.Context, *tool.Tool, tool.Call) (Verdict, error) {
				return Verdict{Arguments: json.RawMessage(`{"text":"ls"}`)}, nil
			}))
		h := w.asking(t, "go", func(q Question) {
			if string(q.Arguments) != `{"text":"ls"}` {
				t.Errorf("shown %s", q.Arguments)
			}
			q.Arguments[9] = 'X' // whoever is asked cannot change it
			if err := w.Answer(t.Context(), Answer{Turn: q.Turn, ID: q.ID, Approve: true}); err != nil {
				t.Error(err)
			}
		})
		if got := strings.Join(told(h.events), "\n"); !strings.Contains(got, `result c1="ls"`) {
			t.Error(got)
		}
	})
}

// named gives a tool another name.
func named(name string) tool.Option { return func(t *tool.Tool) { t.Name = name } }

// AG-40: of two patterns that name the same tool, the one that asks counts.
func TestATwiceNamedToolAsks(t *testing.T) {
	write := echoTool(t, named("fs.write"))
	for range 20 { // maps have no order
		a, err := New(Options{Models: newFake(), Approvals: map[string]tool.Approval{"fs.write": tool.Always, "fs_write": tool.Never}})
		if err != nil {
			t.Fatal(err)
		}
		if !a.needsApproval(write) {
			t.Fatal("the tool runs without approval")
		}
	}
}
