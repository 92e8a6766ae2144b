package agent

import (
	"context"
	"encoding/json"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// byRequest is a model that answers each request by what it says.
type byRequest func(adapter.Request) say

func (f byRequest) Model(string) (adapter.Model, error) { return f, nil }

func (f byRequest) Stream(ctx context.Context, r adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) { f(r)(ctx, yield) }
}

// The model gives the same id to a call of the turn and to one of each of two subagents. Each is decided by itself, and what runs is what
// was shown.
func TestDA_01_CallsOfOneIDAreDecidedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := byRequest(func(r adapter.Request) say {
			last := r.Messages[len(r.Messages)-1]
			switch {
			case last.Role == "tool":
				return answers("done")
			case last.Content == "go":
				return calls("", `c1:echo:{"text":"turn"}`, `s1:subagent:{"task":"allowed"}`, `s2:subagent:{"task":"denied"}`)
			}
			return calls("", `c1:echo:{"text":"`+last.Content+`"}`)
		})
		var mu sync.Mutex
		var ran []string
		danger := tool.Must(tool.New("echo", "Says what it is told.", func(_ context.Context, in struct {
			Text string `json:"text"`
		},
		) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, in.Text)
			return in.Text, nil
		}, tool.WithApproval(tool.Always)))
		w := newWorld(t, newFake(), Options{Models: model, Tools: setOf(t, danger)})
		asked := make(chan Question, 3)
		answered := make(chan map[string]Question)
		go func() {
			byText := map[string]Question{}
			for range 3 { // all of them are open at once
				q := <-asked
				var in struct{ Text string }
				if err := json.Unmarshal(q.Arguments, &in); err != nil {
					t.Error(err)
				}
				byText[in.Text] = q
			}
			if n := w.Waiting(); n != 3 {
				t.Errorf("%d questions wait", n)
			}
			for _, text := range []string{"denied", "allowed", "turn"} {
				q := byText[text]
				if err := w.Answer(t.Context(), Answer{Session: "s", ID: q.ID, Approve: text == "allowed"}); err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
			answered <- byText
		}()
		h := w.asking(t, "go", func(q Question) { asked <- q })
		byText := <-answered
		if h.err != nil {
			t.Fatal(h.err)
		}
		if diff := cmp.Diff([]string{"allowed"}, ran); diff != "" {
			t.Errorf("what ran: %s", diff)
		}
		decided := map[string]string{}
		for _, e := range h.events {
			if e.Kind == ApprovalResolvedEvent {
				var r decision
				if err := json.Unmarshal(e.Value, &r); err != nil {
					t.Fatal(err)
				}
				decided[r.ID] = r.Decision + " " + r.Call + " " + r.Subagent
			}
		}
		onTape := map[string]string{}
		for _, e := range w.entries() {
			if name, data := eventOf(e); name == entryApproval {
				var r decision
				if err := json.Unmarshal(data, &r); err != nil {
					t.Fatal(err)
				}
				onTape[r.ID] = r.Decision
			}
		}
		for text, want := range map[string]string{"turn": "deny c1 ", "allowed": "approve c1 s1", "denied": "deny c1 s2"} {
			q := byText[text]
			if got := decided[q.ID]; got != want || q.Call != "c1" {
				t.Errorf("%s: the event says %q, expected %q", text, got, want)
			}
			if decision, _, _ := strings.Cut(want, " "); onTape[q.ID] != decision {
				t.Errorf("%s: the tape says %q", text, onTape[q.ID])
			}
		}
	})
}

// An approval for the session holds for the tool that was shown. Another schema, description or role is another tool.
func TestDA_10_AChangedToolAsksAgain(t *testing.T) {
	changes := map[string]struct {
		change func(*tool.Tool)
		asks   bool
	}{
		"nothing":     {func(*tool.Tool) {}, false},
		"timeout":     {func(t *tool.Tool) { t.Timeout = 1 << 40 }, false},
		"schema":      {func(t *tool.Tool) { t.Schema = json.RawMessage(`{"type":"object","properties":{"text":{},"to":{}}}`) }, true},
		"description": {func(t *tool.Tool) { t.Description += " And sends it to others." }, true},
		"role":        {func(t *tool.Tool) { t.Role = tool.Operator }, true},
	}
	for name, test := range changes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := newWorld(t, newFake(calls("", `c1:echo:{"text":"a"}`), answers("ok")), Options{Tools: setOf(t, echoTool(t, tool.WithApproval(tool.Always)))})
				first.asking(t, "go", func(q Question) {
					if err := first.Answer(t.Context(), Answer{Session: "s", ID: q.ID, Approve: true, Remember: true}); err != nil {
						t.Error(err)
					}
				})
				changed := echoTool(t, tool.WithApproval(tool.Always), test.change)
				w := newWorldIn(t, first.dir, newFake(calls("", `c2:echo:{"text":"b"}`), answers("ok")), Options{Tools: setOf(t, changed), Store: first.store})
				if asks := asksAgain(t, w); asks != test.asks {
					t.Errorf("it asks: %v", asks)
				}
			})
		})
	}
}

// DS-06: an approval for the session is that of one agent, not that of a fork, and can be taken back.
func TestAnApprovalIsOfOneAgentAndSession(t *testing.T) {
	for name, row := range map[string]struct {
		agent  string
		fork   bool
		forget bool
		asks   bool
	}{
		"the same":      {agent: "one"},
		"another agent": {agent: "two", asks: true},
		"a fork":        {agent: "one", fork: true, asks: true},
		"taken back":    {agent: "one", forget: true, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tools := setOf(t, echoTool(t, tool.WithApproval(tool.Always)))
				first := newWorld(t, newFake(calls("", `c1:echo:{"text":"a"}`), answers("ok")), Options{Name: "one", Tools: tools})
				first.asking(t, "go", func(q Question) {
					if err := first.Answer(t.Context(), Answer{Session: "s", ID: q.ID, Approve: true, Remember: true}); err != nil {
						t.Error(err)
					}
				})
				if h := first.say(",ask"); h.Output != "- `echo`" {
					t.Errorf("approved: %q", h.Output)
				}
				if row.forget {
					if h := first.say(",ask echo"); h.Output != "The agent asks again before it calls `echo`." {
						t.Error(h.Output)
					}
				}
				w := newWorldIn(t, first.dir, newFake(calls("", `c2:echo:{"text":"b"}`), answers("ok")), Options{Name: row.agent, Tools: tools, Store: first.store})
				if row.fork {
					copied, err := first.tape().ForkSession(t.Context(), "copy", 0)
					if err != nil {
						t.Fatal(err)
					}
					again := w.fingerprint(tools.Tools()[0], "copy")
					if settings, err := copied.Settings(t.Context()); err != nil || remembers(settings[settingApproval+"echo"], again) {
						t.Errorf("the fork remembers: %v", err)
					}
					return
				}
				if asks := asksAgain(t, w); asks != row.asks {
					t.Errorf("it asks: %v", asks)
				}
			})
		})
	}
}

// asksAgain reports whether a turn asks for approval, which it gets for the session.
func asksAgain(t *testing.T, w *world) (asks bool) {
	t.Helper()
	done := make(chan struct{}, 1)
	h := w.asking(t, "go", func(q Question) {
		defer func() { done <- struct{}{} }()
		if err := w.Answer(t.Context(), Answer{Session: "s", ID: q.ID, Approve: true, Remember: true, Role: tool.Admin}); err != nil {
			t.Error(err)
		}
	})
	if h.err != nil {
		t.Fatal(h.err)
	}
	asks = slices.ContainsFunc(h.events, func(e turn.Event) bool { return e.Kind == ApprovalRequiredEvent })
	if asks {
		<-done
	}
	return asks
}

// The text that a person sees is JSON, means what runs, and hides nothing.
func TestDA_07_WhatAChatShowsMeansWhatRuns(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"cmd":"ls *.go && echo \\\"x\\\" | tee _a_ [b](http://c)"}`:   `{"cmd":"ls *.go && echo \\\"x\\\" | tee _a_ [b](http://c)"}`,
		`{"a":"` + "\u202egpj.exe\u2066\u200b\u00ad\u3164\ufe0f" + `"}`: `{"a":"\u202egpj.exe\u2066\u200b\u00ad\u3164\ufe0f"}`,
		`{"a":"\u0072m \u002drf \u0022\u005c\u003cb>\/"}`:               `{"a":"rm -rf \u0022\u005c<b>/"}`,
		`{"a":"\ud83d\ude00 \ud83d \udb40\udc41"}`:                      `{"a":"😀 \ud83d \udb40\udc41"}`,
		"{\"a\":\"```\\n```` `b` \\t\\r\\u0000\x7f\"}":                  "{\"a\":\"``\\u0060\\n``\\u0060` `b` \\t\\r\\u0000\\u007f\"}",
		`{"a":"<at id=all></at> \u003cAT> <person <attr> a<b>c"}`:       `{"a":"\u003cat id=all>\u003c/at> \u003cAT> \u003cperson \u003cattr> a<b>c"}`,
		"{ \n\n\n \"a\" :\t[ 1.0 , 1e2 , 12345678901234567890 ] }":      `{"a":[1.0,1e2,12345678901234567890]}`,
		"{\"" + "\U000e0041\u2028\u00a0" + `key":"天气 中文 עברית"}`:        `{"\udb40\udc41\u2028\u00a0key":"天气 中文 עברית"}`,
		`{"a":"&amp; &#38; && & \u0026lt;"}`:                            `{"a":"\u0026amp; \u0026#38; && & \u0026lt;"}`,
		`{"a":1,"a":2}`:                                                 `{"a":1,"a":2}`,
	} {
		got := shown(json.RawMessage(arguments))
		if got != want {
			t.Errorf("%s\nshown    %s\nexpected %s", arguments, got, want)
		}
		var meant, runs any
		if err := json.Unmarshal([]byte(got), &meant); err != nil {
			t.Errorf("%s: %v", got, err)
		}
		if err := json.Unmarshal([]byte(arguments), &runs); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(meant, runs) {
			t.Errorf("%s means something else than %s", got, arguments)
		}
	}
	for arguments, fits := range map[string]bool{
		`"` + strings.Repeat("天", maxShown-2) + `"`: true, `"` + strings.Repeat("天", maxShown-1) + `"`: false,
		`"` + strings.Repeat("😀", maxShown/2) + `"`:      false, // two units each
		`"` + strings.Repeat("<", maxShown/4) + `"`:      false, // &lt;
		`"` + strings.Repeat("\u200b", maxShown/6) + `"`: false, // \u200b
		"\"\xff\"": false, // no text
	} {
		q := Question{ID: "i", Tool: "t", Arguments: json.RawMessage(arguments)}
		seen, text, ok := q.Shown()
		if ok && FitsMessage(seen) != fits || !ok && fits {
			t.Errorf("%.10q…: it fits: %v", arguments, !fits)
		}
		if ok != utf8.ValidString(arguments) || !strings.Contains(text, seen) { // DN-05: all of it, however long
			t.Errorf("%.10q…: it is shown: %v", arguments, ok)
		}
	}
}

func FuzzShown(f *testing.F) {
	f.Add([]byte(`{"a":"\ud83d\ude00\u202e<at` + "```" + `\\\u005c\u0022"}`))
	f.Add([]byte(` [ "` + "\u00ad\U000e0041" + `" , 1.0e5 ]`))
	f.Fuzz(func(t *testing.T, arguments []byte) {
		var runs, meant any
		if json.Unmarshal(arguments, &runs) != nil || !utf8.Valid(arguments) {
			return
		}
		got := shown(arguments)
		if err := json.Unmarshal([]byte(got), &meant); err != nil || !reflect.DeepEqual(meant, runs) {
			t.Errorf("%s is shown as %s: %v", arguments, got, err)
		}
		for _, r := range got {
			if !visible(r) {
				t.Errorf("%q has %U", got, r)
			}
		}
		if strings.Contains(got, "```") || mention.MatchString(got) {
			t.Errorf("%q is not safe in a block of code", got)
		}
	})
}
