package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot/prompt"
	"github.com/lingserve/lingserve/tube"
)

func chat(t *testing.T, b *ChatBot) (Response, error) {
	t.Helper()
	if err := b.Chat(Message{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	return b.Wait(t.Context())
}

// BO-04, BO-05
func TestAJSONBotSendsItsDocumentWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("stop", `{"title":"Sk`, `y","n":1.50,"tags":["a"`, `,"b"]}`))
		b := New(w.Env, "outline", "article", Config{Done: true})
		var log []string
		b.Listen(journal(&log))
		r, err := chat(t, b)
		if err != nil {
			t.Fatal(err)
		}
		want := Response{Value: json.RawMessage(`{"title":"Sky","n":1.50,"tags":["a","b"]}`), Model: "fake:m", Usage: usage}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			`string article/title=Sky`,
			`scalar article/n=1.50`,
			`string article/tags/0=a`,
			`string article/tags/1=b`,
			`object article/tags=["a","b"]`,
			`object article={"title":"Sky","n":1.50,"tags":["a","b"]}`,
			`inference-done {"title":"Sky","n":1.50,"tags":["a","b"]}`,
			`response {"title":"Sky","n":1.50,"tags":["a","b"]}`,
		}, log); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			`{"uri":"article","delta":{}}`,
			`{"uri":"article/title","delta":"Sk"}`,
			`{"uri":"article/title","delta":"y"}`,
			`{"uri":"article/title","done":true}`,
			`{"uri":"article/n","delta":1.50}`,
			`{"uri":"article/n","done":true}`,
			`{"uri":"article/tags","delta":[]}`,
			`{"uri":"article/tags/0","delta":"a"}`,
			`{"uri":"article/tags/0","done":true}`,
			`{"uri":"article/tags/1","delta":"b"}`,
			`{"uri":"article/tags/1","done":true}`,
			`{"uri":"article/tags","done":true}`,
			`{"uri":"article","done":true}`,
			`{"event":"usage","data":{"bot":"outline","model":"fake:m","prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`,
		}, w.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

// BO-05, PROTOCOL 1.1
func TestATextBotAppendsToItsRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("stop", "He said \"", "h\xc3", "\xa9\"\n", "\xff!"))
		b := New(w.Env, "chat", "reply", Config{Format: Text, Done: true})
		var log []string
		b.Listen(journal(&log))
		r, err := chat(t, b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(`"He said \"hé\"\n`+"\uFFFD"+`!"`, string(r.Value)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			"string reply=He said \"hé\"\n\uFFFD!",
			`inference-done "He said \"hé\"\n` + "\uFFFD" + `!"`,
			`response "He said \"hé\"\n` + "\uFFFD" + `!"`,
		}, log); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			`{"uri":"reply","delta":"He said \""}`,
			`{"uri":"reply","delta":"h"}`,
			`{"uri":"reply","delta":"é\"\n"}`,
			`{"uri":"reply","delta":"` + "\uFFFD" + `!"}`,
			`{"uri":"reply","done":true}`,
			`{"event":"usage","data":{"bot":"chat","model":"fake:m","prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`,
		}, w.lines()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestATextBotThatSaysNothingSendsAnEmptyString(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("stop"))
		if r, err := chat(t, New(w.Env, "chat", "reply", Config{Format: Text})); err != nil || string(r.Value) != `""` {
			t.Fatalf("%s, %v", r.Value, err)
		}
		if diff := cmp.Diff(`{"uri":"reply","delta":""}`, w.lines()[0]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheValueIsTheDocumentWhateverItIs(t *testing.T) {
	for _, c := range []struct{ name, root, text, want string }{
		{"object", "", `{"a":{"b":[1,{}]}}`, `{"a":{"b":[1,{}]}}`},
		{"object below a root", "x/y", `{"a":"b"}`, `{"a":"b"}`},
		{"array", "", `[1,[2],"3"]`, `[1,[2],"3"]`},
		{"string", "", `"a\"b"`, `"a\"b"`},
		{"empty string", "r", `""`, `""`},
		{"number", "r", `12.50`, `12.50`},
		{"literal", "", `null`, `null`},
		{"cut off", "r", `{"a":[1,{"b":"c`, `{"a":[1,{"b":"c"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pieces []string
				for i := range c.text {
					pieces = append(pieces, c.text[i:i+1])
				}
				w := newWorld(t, says("stop", pieces...))
				r, err := chat(t, New(w.Env, "b", c.root, Config{}))
				if err != nil || string(r.Value) != c.want {
					t.Fatalf("%s, %v", r.Value, err)
				}
				w2 := newWorld(t, says("stop", pieces...))
				if r, err = chat(t, New(w2.Env, "b", c.root, Config{NoValue: true})); err != nil || r.Value != nil {
					t.Fatalf("with NoValue: %s, %v", r.Value, err)
				}
				if diff := cmp.Diff(w.lines(), w2.lines()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// PROTOCOL 1.2: thinking, and prose before the document, stand beside it, below the bot's root.
func TestReasoningStandsBesideTheDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
			yield(adapter.Chunk{Reasoning: "Let me \"th"}, nil)
			yield(adapter.Chunk{Reasoning: "ink\".\xc3"}, nil)
			yield(adapter.Chunk{Text: "Here it is:\n{\"a\":1}"}, nil)
			yield(adapter.Chunk{Finish: "stop"}, nil)
		})
		b := New(w.Env, "b", "x", Config{})
		if _, err := chat(t, b); err != nil {
			t.Fatal(err)
		}
		lines := w.lines()
		if diff := cmp.Diff([]string{
			`{"uri":"x/$reasoning_context","delta":"Let me \"th"}`,
			`{"uri":"x/$reasoning_context","delta":"ink\"."}`,
		}, lines[:2]); diff != "" {
			t.Error(diff)
		}
		document, reserved := w.Tube.Snapshot(true)
		if string(document) != `{"x":{"a":1}}` || !strings.Contains(string(reserved), `Here it is`) || !strings.Contains(string(reserved), "\uFFFD") {
			t.Errorf("%s %s", document, reserved)
		}
	})
}

func TestAQuietBotIsHiddenFromClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
			yield(adapter.Chunk{Reasoning: "hm", Text: `{"a":"b"}`, Usage: &usage, Finish: "stop"}, nil)
		})
		b := New(w.Env, "b", "x", Config{Quiet: true, Done: true})
		var log []string
		b.Listen(journal(&log))
		if _, err := chat(t, b); err != nil || len(log) != 4 {
			t.Fatal(err, log)
		}
		for _, line := range w.lines() {
			if !strings.HasPrefix(line, "hidden ") {
				t.Error(line)
			}
		}
		if d, _ := w.Tube.Snapshot(false); string(d) != "{}" {
			t.Errorf("clients see %s", d)
		}
		if d, _ := w.Tube.Snapshot(true); string(d) != `{"x":{"a":"b"}}` {
			t.Errorf("the result has %s", d)
		}
	})
}

// BO-01, BO-04: after an error none of the other events, and the cause is kept.
func TestWhatGoesWrongIsTheBotsError(t *testing.T) {
	limited := &adapter.Error{Code: adapter.CodeRateLimited, Message: "slow down", Retryable: true}
	fails := func(err error, before ...adapter.Chunk) script {
		return func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
			for _, c := range before {
				if !yield(c, nil) {
					return
				}
			}
			yield(adapter.Chunk{}, err)
		}
	}
	for _, c := range []struct {
		name   string
		model  script
		config Config
		want   Failure // Cause is not compared
		log    []string
	}{
		{
			"the provider's error", fails(limited),
			Config{},
			Failure{Code: adapter.CodeRateLimited, Message: "slow down", Retryable: true},
			[]string{"error slow down"},
		},
		{
			"in the middle", fails(limited, adapter.Chunk{Text: `{"a":"b","c":"d`}),
			Config{},
			Failure{Code: adapter.CodeRateLimited, Message: "slow down", Retryable: true},
			[]string{"string a=b", "error slow down"},
		},
		{
			"unknown model", says("stop", "{}"),
			Config{Model: "unknown"},
			Failure{Code: adapter.CodeInvalid, Message: "unknown model"},
			[]string{"error unknown model"},
		},
		{
			"no document (RP-09)", says("stop", "I am sorry, ", "I cannot."),
			Config{},
			Failure{Code: CodeOutputInvalid, Message: "the model's output contains no JSON document", Retryable: true},
			[]string{"error the model's output contains no JSON document"},
		},
		{
			"nothing at all", says("stop"),
			Config{},
			Failure{Code: CodeOutputInvalid, Message: "the model's output contains no JSON document", Retryable: true},
			[]string{"error the model's output contains no JSON document"},
		},
		{
			"no document before the limit", says("length", "Well"),
			Config{},
			Failure{Code: CodeOutputInvalid, Message: "the model's output contains no JSON document: it reached its token limit first", Retryable: true},
			[]string{"error the model's output contains no JSON document: it reached its token limit first"},
		},
		{
			"content filter (AD-08)", says("content_filter", `{"a":1`),
			Config{},
			Failure{Code: CodeOutputInvalid, Filtered: true, Message: "the provider's content filter stopped the answer"},
			[]string{"error the provider's content filter stopped the answer"},
		},
		{
			"too deep", says("stop", strings.Repeat("[", 600)),
			Config{NoValue: true},
			Failure{Code: CodeOutputInvalid, Message: "the model's output exceeds a limit: byte 512: the depth exceeds its limit of 512 levels"},
			[]string{"error the model's output exceeds a limit: byte 512: the depth exceeds its limit of 512 levels"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.model)
				b := New(w.Env, "b", "", c.config)
				var log []string
				b.Listen(journal(&log))
				var last Transition
				b.Watch(func(tr Transition) { last = tr })
				_, err := chat(t, b)
				got, known := Describe(err)
				got.Cause = nil
				if diff := cmp.Diff(c.want, got); diff != "" || !known {
					t.Error(diff, err)
				}
				if diff := cmp.Diff(c.log, log); diff != "" {
					t.Error(diff)
				}
				if b.State() != Error || b.Err() != err || last.To != Error || last.Err != err {
					t.Errorf("state %s, err %v, last %v", b.State(), b.Err(), last)
				}
				w.wg.Wait()
			})
		})
	}
}

// FT-34, LI-05
func TestAPanicInACallbackIsTheBotsError(t *testing.T) {
	for _, where := range []string{"string", "object", "inference-done", "response", "error", "watch"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := says("stop", `{"a":"b"}`)
				if where == "error" {
					model = says("stop", "no")
				}
				w := newWorld(t, model)
				var logged strings.Builder
				w.Log = slog.New(slog.NewTextHandler(&logged, nil))
				b := New(w.Env, "b", "", Config{})
				l := Listener{}
				ouch := "ouch sk-CANARY"
				switch where {
				case "string":
					l.String = func(StringValue) { panic(ouch) }
				case "object":
					l.Object = func(ObjectValue) { panic(ouch) }
				case "inference-done":
					l.InferenceDone = func(Response) { panic(ouch) }
				case "response":
					l.Response = func(Response) { panic(ouch) }
				case "error":
					l.Error = func(error) { panic(ouch) }
				case "watch":
					b.Watch(func(tr Transition) {
						if tr.To == InferenceDone {
							panic(ouch)
						}
					})
				}
				b.Listen(l)
				var after []string
				b.Listen(journal(&after))
				_, err := chat(t, b)
				w.wg.Wait()
				if err == nil || b.State() != Error || strings.Contains(err.Error(), "CANARY") || strings.Contains(err.Error(), "goroutine") {
					t.Errorf("state %s, error %v", b.State(), err)
				}
				if !strings.HasPrefix(after[len(after)-1], "error ") {
					t.Errorf("the other listener's last event is %q", after[len(after)-1])
				}
				if f, _ := Describe(err); where != "error" && (f.Code != CodeInternal || !strings.Contains(f.Message, "find it in the server's log as ")) {
					t.Errorf("%+v", f)
				}
				if !strings.Contains(logged.String(), "chatbot_test.go") {
					t.Error("the log has no stack")
				}
			})
		})
	}
}

// AD-08, FT-14
func TestAnAnswerCutOffAtTheLimitOfTokensEndsNormallyAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("length", `{"a":{"b/c":["x","unfin`))
		b := New(w.Env, "b", "r", Config{})
		r, err := chat(t, b)
		if err != nil || !r.Truncated || string(r.Value) != `{"a":{"b/c":["x","unfin"]}}` || len(r.Repairs) == 0 || b.State() != Finished {
			t.Fatalf("%+v, %v", r, err)
		}
		f, _ := Describe(w.reported[0])
		if len(w.reported) != 1 || f.Code != CodeOutputInvalid || f.Pointer != "/r/a/b~1c/1" {
			t.Fatalf("%+v", w.reported)
		}
	})
}

// BO-05
func TestASchemaIsCheckedAndViolationsAreReportedWithTheirPlace(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"},"list":{"items":{"type":"string"}}}}`)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("stop", `{"n":"x","list":["a",2,3]}`))
		b := New(w.Env, "b", "r", Config{Schema: schema, SchemaName: "thing"})
		r, err := chat(t, b)
		if err != nil || b.State() != Finished || string(r.Value) != `{"n":"x","list":["a",2,3]}` {
			t.Fatalf("%s, %v", r.Value, err)
		}
		pointers := map[string]bool{}
		for _, e := range w.reported {
			f, ok := e.(*Failure)
			if !ok || f.Code != CodeOutputInvalid || !strings.HasPrefix(f.Message, "the output does not match its schema: ") {
				t.Errorf("%v", e)
			}
			pointers[f.Pointer] = true
		}
		if diff := cmp.Diff(map[string]bool{"/r/n": true, "/r/list/1": true, "/r/list/2": true}, pointers); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a fitting document reports nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, says("stop", `{"n":12345678901234567890}`))
			if _, err := chat(t, New(w.Env, "b", "", Config{Schema: schema, NoValue: true})); err != nil || len(w.reported) > 0 {
				t.Fatal(err, w.reported)
			}
		})
	})
	t.Run("a schema reads nothing from elsewhere", func(t *testing.T) {
		for _, ref := range []string{"file:///etc/hostname", "http://localhost/schema", "other.json"} {
			if err := CheckSchema(json.RawMessage(`{"$ref":"` + ref + `"}`)); err == nil {
				t.Errorf("%s was accepted", ref)
			}
		}
	})
}

// BO-02
func TestTheRequestIsWhatTheBotWasGiven(t *testing.T) {
	var got adapter.Request
	model := script(func(_ context.Context, r adapter.Request, yield func(adapter.Chunk, error) bool) {
		got = r
		yield(adapter.Chunk{Text: "{}", Finish: "stop"}, nil)
	})
	temperature, tokens := 0.5, 100
	w := newWorld(t, model)
	w.Params = map[string]any{"tone": "calm", "who": "params"}
	b := New(w.Env, "writer", "a/b", Config{Model: "x:y", Options: adapter.Options{Temperature: &temperature, MaxTokens: &tokens, Stop: []string{"END"}}})
	if err := b.AddPrompt(`{{ chatConfig.model }} {{ chatOptions.temperature }} {{ chatOptions.max_tokens }} {{ chatOptions.response_format.root }} {{ tone }} {{ who }} "<&>"`,
		map[string]any{"who": "data"}); err != nil {
		t.Fatal(err)
	}
	if err := b.AddPrompt("second", nil); err != nil {
		t.Fatal(err)
	}
	b.AddHistory(adapter.Message{Role: adapter.User, Content: "before"}, adapter.Message{Role: adapter.Assistant, Content: "yes"})
	parts := []adapter.Part{{Type: "text", Text: "look"}, {Type: "image_url", Image: "data:image/png;base64,AA=="}}
	if err := b.Chat(Message{Text: "ignored", Parts: parts}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := adapter.Request{
		Messages: []adapter.Message{
			{Role: adapter.System, Content: `x:y 0.5 100 a/b calm data "<&>"`},
			{Role: adapter.System, Content: "second"},
			{Role: adapter.User, Content: "before"},
			{Role: adapter.Assistant, Content: "yes"},
			{Role: adapter.User, Parts: parts},
		},
		Format: adapter.Format{JSON: true}, Options: adapter.Options{Temperature: &temperature, MaxTokens: &tokens, Stop: []string{"END"}}, Params: w.Params,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// BO-02
func TestPromptsAndHistoryAreReplacedAndDefaulted(t *testing.T) {
	ask := func(t *testing.T, c Config, prepare func(b *ChatBot)) []adapter.Message {
		var got []adapter.Message
		w := newWorld(t, func(_ context.Context, r adapter.Request, yield func(adapter.Chunk, error) bool) {
			got = r.Messages
			yield(adapter.Chunk{Text: "{}", Finish: "stop"}, nil)
		})
		b := New(w.Env, "b", "", c)
		prepare(b)
		if _, err := chat(t, b); err != nil {
			t.Fatal(err)
		}
		w.wg.Wait()
		return got
	}
	user := adapter.Message{Role: adapter.User, Content: "go"}
	t.Run("replaced", func(t *testing.T) {
		got := ask(t, Config{}, func(b *ChatBot) {
			b.AddPrompt("a", nil)
			b.SetPrompt("b", nil)
			if b.SetPrompt("{% broken", nil) == nil {
				t.Error("a broken template was accepted")
			}
			b.AddHistory(user)
			b.SetHistory(adapter.Message{Role: adapter.Assistant, Content: "h"})
		})
		want := []adapter.Message{{Role: adapter.System, Content: "b"}, {Role: adapter.Assistant, Content: "h"}, user}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("JSON without a prompt asks for JSON", func(t *testing.T) {
		got := ask(t, Config{}, func(*ChatBot) {})
		if len(got) != 2 || got[0].Role != adapter.System || !strings.Contains(got[0].Content, "JSON") {
			t.Error(got)
		}
	})
	t.Run("text without a prompt asks for nothing", func(t *testing.T) {
		if diff := cmp.Diff([]adapter.Message{user}, ask(t, Config{Format: Text}, func(*ChatBot) {})); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("nothing to say is an error", func(t *testing.T) {
		w := newWorld(t, says("stop", "x"))
		b := New(w.Env, "b", "", Config{Format: Text})
		if err := b.Chat(Message{}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Wait(t.Context()); err == nil || b.State() != Error {
			t.Fatal(err)
		}
	})
}

// FT-13
func TestAModelThatDoesNotStopIsCutOff(t *testing.T) {
	count := func(n *int, chunks func(i int) adapter.Chunk, pause time.Duration) script {
		return func(ctx context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
			for *n = 0; *n < 10_000; *n++ {
				if pause > 0 {
					select {
					case <-time.After(pause):
					case <-ctx.Done():
						yield(adapter.Chunk{}, context.Cause(ctx))
						return
					}
				}
				if !yield(chunks(*n), nil) {
					return
				}
			}
		}
	}
	document := func(after string) func(int) adapter.Chunk {
		return func(i int) adapter.Chunk {
			if i == 0 {
				return adapter.Chunk{Text: `{"a":1}`}
			}
			return adapter.Chunk{Text: after}
		}
	}
	for _, c := range []struct {
		name   string
		chunks func(int) adapter.Chunk
		pause  time.Duration
		most   int           // chunks
		within time.Duration // fake
	}{
		{"white space after the document", document("\n"), 0, 300, 0},
		{"prose after the document", document("And another thing. "), 0, 50, 0},
		{"slow white space after the document", document(" "), 100 * time.Millisecond, 20, 1200 * time.Millisecond},
		{"white space inside of the document", func(i int) adapter.Chunk {
			if i == 0 {
				return adapter.Chunk{Text: `{"a":1,`}
			}
			return adapter.Chunk{Text: "\n"}
		}, 0, 300, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n int
				w := newWorld(t, count(&n, c.chunks, c.pause))
				start := time.Now()
				r, err := chat(t, New(w.Env, "b", "", Config{}))
				if err != nil || string(r.Value) != `{"a":1}` {
					t.Fatalf("%s, %v", r.Value, err)
				}
				w.wg.Wait()
				if n > c.most || time.Since(start) > c.within {
					t.Errorf("cut off after %d chunks and %v", n, time.Since(start))
				}
			})
		})
	}
}

// FT-13: what a good model sends after its document is not lost.
func TestUsageAfterTheDocumentIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
			yield(adapter.Chunk{Text: `{"a":1}`}, nil)
			yield(adapter.Chunk{Text: "\n```\n"}, nil)
			time.Sleep(300 * time.Millisecond)
			yield(adapter.Chunk{Finish: "stop"}, nil)
			yield(adapter.Chunk{Usage: &usage}, nil)
		})
		r, err := chat(t, New(w.Env, "b", "", Config{}))
		if err != nil || r.Usage != usage {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}

// BO-06
// PROTOCOL 1.3, AD-06: which model has answered is said whether or not its provider counts.
func TestEachInferenceSaysWhichModelAnswered(t *testing.T) {
	for _, c := range []struct {
		name  string
		model script
		want  string // the usage event's data; "" is none
		said  string // of the response
	}{
		{"with counts", says("stop", "{}"), `{"bot":"b","model":"fake:m","prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`, "fake:m"},
		{"without counts", chunks(adapter.Chunk{Text: "{}", Model: "fake:m"}, adapter.Chunk{Finish: "stop"}), `{"bot":"b","model":"fake:m"}`, "fake:m"},
		{"without a name", chunks(adapter.Chunk{Text: "{}"}, adapter.Chunk{Finish: "stop"}), `{"bot":"b","model":"fake:a,fake:b"}`, "fake:a,fake:b"},
		{"broken off", fails(adapter.CodeProtocol, `{"a":`), `{"bot":"b","model":"fake:m"}`, "fake:m"},
		{"not reached", fails(adapter.CodeUnavailable), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.model)
				b := New(w.Env, "b", "", Config{Model: "fake:a,fake:b"})
				r, _ := chat(t, b)
				var got strings.Builder
				for _, line := range w.lines() {
					if data, ok := strings.CutPrefix(line, `{"event":"usage","data":`); ok {
						got.WriteString(strings.TrimSuffix(data, "}"))
					}
				}
				want := strings.TrimSuffix(c.want, "}")
				if diff := cmp.Diff(want, strings.TrimSuffix(got.String(), "}")); diff != "" {
					t.Error(diff)
				}
				if r.Model != c.said {
					t.Errorf("the response says %q", r.Model)
				}
			})
		})
	}
}

func TestFinishEndsABotByHand(t *testing.T) {
	hang := func(text string) script {
		return func(ctx context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
			if yield(adapter.Chunk{Text: text}, nil) {
				<-ctx.Done()
				yield(adapter.Chunk{}, context.Cause(ctx))
			}
		}
	}
	t.Run("while the model talks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, hang(`{"a":"b","c":"unfin`))
			b := New(w.Env, "b", "", Config{})
			var log []string
			b.Listen(journal(&log))
			if err := b.Chat(Message{Text: "go"}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			b.Finish()
			r, err := b.Wait(t.Context())
			if err != nil || b.State() != Finished || string(r.Value) != `{"a":"b","c":"unfin"}` {
				t.Fatalf("%s, %v", r.Value, err)
			}
			want := []string{
				"string a=b", "string c=unfin", `object ={"a":"b","c":"unfin"}`,
				`inference-done {"a":"b","c":"unfin"}`, `response {"a":"b","c":"unfin"}`,
			}
			if diff := cmp.Diff(want, log); diff != "" {
				t.Error(diff)
			}
			b.Finish() // again is nothing
			w.wg.Wait()
		})
	})
	t.Run("in a callback", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, hang(`{"a":"b","c":"d"`))
			b := New(w.Env, "b", "", Config{})
			b.Listen(Listener{String: func(StringValue) { b.Finish() }})
			if r, err := chat(t, b); err != nil || string(r.Value) != `{"a":"b","c":"d"}` {
				t.Fatalf("%s, %v", r.Value, err)
			}
		})
	})
	t.Run("before there is a document", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, hang(`Well`))
			b := New(w.Env, "b", "", Config{})
			b.Chat(Message{Text: "go"})
			synctest.Wait()
			b.Finish()
			if r, err := b.Wait(t.Context()); err != nil || string(r.Value) != `null` {
				t.Fatalf("%s, %v", r.Value, err)
			}
		})
	})
	t.Run("before it is started", func(t *testing.T) {
		w := newWorld(t, says("stop", "{}"))
		b := New(w.Env, "b", "", Config{})
		var log []string
		b.Listen(journal(&log))
		b.Finish()
		if r, err := b.Wait(t.Context()); err != nil || string(r.Value) != "null" || b.State() != Finished {
			t.Fatalf("%s, %v", r.Value, err)
		}
		if diff := cmp.Diff([]string{"inference-done null", "response null"}, log); diff != "" {
			t.Error(diff)
		}
	})
}

func TestABotIsNotStartedAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("stop", "{}"))
		b := New(w.Env, "b", "", Config{})
		if _, err := chat(t, b); err != nil {
			t.Fatal(err)
		}
		never := New(w.Env, "c", "", Config{})
		w.cancel(errors.New("over"))
		if err := never.Chat(Message{Text: "go"}); !errors.Is(err, ErrOver) || never.State() != Init {
			t.Errorf("got %v, state %s", err, never.State())
		}
		if _, err := never.Wait(t.Context()); !errors.Is(err, ErrOver) {
			t.Errorf("waiting for a bot that never starts: %v", err)
		}
	})
}

func TestTheEndOfTheRunIsTheBotsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(ctx context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
			<-ctx.Done()
			yield(adapter.Chunk{}, &adapter.Error{Code: adapter.CodeUnavailable, Message: "connection lost"})
		})
		b := New(w.Env, "b", "", Config{})
		b.Chat(Message{Text: "go"})
		synctest.Wait()
		gone := errors.New("gone")
		w.cancel(gone)
		if _, err := b.Wait(t.Context()); !errors.Is(err, gone) || b.State() != Error {
			t.Fatal(err)
		}
	})
}

// TB-02
func TestABotsFilterHidesWhatIsBelowItsRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("stop", `{"a":1,"b":2}`))
		b := New(w.Env, "b", "x", Config{})
		b.AddFilter(tube.URI("x/a"))
		if _, err := chat(t, b); err != nil {
			t.Fatal(err)
		}
		if d, _ := w.Tube.Snapshot(false); string(d) != `{"x":{"b":2}}` {
			t.Errorf("clients see %s", d)
		}
		b.ClearFilters()
		w.Tube.Send(tube.Event{Kind: tube.Set, URI: []byte("x/a"), Value: []byte("3")})
		if d, _ := w.Tube.Snapshot(false); string(d) != `{"x":{"b":2,"a":3}}` {
			t.Errorf("after ClearFilters clients see %s", d)
		}
	})
}

func TestABotThatHasWrittenTooMuchIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("stop", `{"a":"`, strings.Repeat("x", 50), strings.Repeat("y", 50), strings.Repeat("z", 50), `"}`))
		written := 0
		w.Written = func(n int) bool { written += n; return written <= 100 }
		if _, err := chat(t, New(w.Env, "b", "", Config{})); err == nil {
			t.Fatal("it went on")
		}
		if d, _ := w.Tube.Snapshot(true); strings.Contains(string(d), "z") {
			t.Errorf("it wrote on: %s", d)
		}
	})
}

// DESIGN: a chunk costs what the adapter allocates, and nothing of the bot's own.
func TestAChunkAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		first  string
	}{
		{"JSON", Config{NoValue: true}, `{"a":"`},
		{"text", Config{NoValue: true, Format: Text}, "a"},
		{"HTML", Config{NoValue: true, Format: HTML}, "<p>"},
		{"HTML with events", Config{NoValue: true, Format: HTML, HTMLEvents: true}, "<p>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, says("stop"))
			// As a manager watches it: what is written is counted.
			written := 0
			w.Written = func(n int) bool { written += n; return true }
			opened := 0
			w.Writes = func(_ *ChatBot, _ []byte, open bool) {
				if open {
					opened++
				}
			}
			o := newOutput(New(w.Env, "b", "x", c.config))
			o.write(c.first)
			for range 1000 { // fills what grows once
				o.write("word")
				o.reason("hm ")
			}
			// The tube's log grows in blocks, so that what it allocates is a fraction of an event.
			if n := testing.AllocsPerRun(2000, func() { o.write("word") }); n > 0 {
				t.Errorf("%v allocations", n)
			}
			if n := testing.AllocsPerRun(2000, func() { o.reason("word") }); n > 0 {
				t.Errorf("%v allocations of a thought", n)
			}
			if o.failure != nil || opened != 1 {
				t.Fatal(o.failure, opened)
			}
		})
	}
}

func BenchmarkChunk(b *testing.B) {
	for _, c := range []struct {
		name   string
		config Config
		first  string
	}{{"json", Config{NoValue: true}, `{"a":"`}, {"jsonWithValue", Config{}, `{"a":"`}, {"text", Config{NoValue: true, Format: Text}, "a"}, {"html", Config{NoValue: true, Format: HTML}, "<p>"}, {"htmlWithEvents", Config{NoValue: true, Format: HTML, HTMLEvents: true}, "<p>"}} {
		b.Run(c.name, func(b *testing.B) {
			w := newWorld(b, says("stop"))
			o := newOutput(New(w.Env, "b", "x", c.config))
			o.write(c.first)
			n := 0
			for b.Loop() {
				if n++; n%100_000 == 0 { // before the document's limit
					b.StopTimer()
					w = newWorld(b, says("stop"))
					o = newOutput(New(w.Env, "b", "x", c.config))
					o.write(c.first)
					b.StartTimer()
				}
				if o.write("word") != nil {
					b.Fatal(o.failure)
				}
			}
		})
	}
}

// BO-02, SE-03: prompts see what was asked of the model, as plain data.
func TestPromptsSeeTheConfiguration(t *testing.T) {
	w := newWorld(t, says("stop", "{}"))
	f, n := 0.25, 7
	b := New(w.Env, "quiz", "a/b", Config{
		Model: "x:y", Schema: json.RawMessage(`{"type":"object"}`), SchemaName: "quiz",
		Options: adapter.Options{Temperature: &f, TopP: &f, MaxTokens: &n, Seed: &n, Stop: []string{"END"}}, Quiet: true,
	})
	if err := b.AddPrompt("{{ chatConfig }}\n{{ chatOptions }}", nil); err != nil {
		t.Fatal(err)
	}
	want := `{"bot":"quiz","model":"x:y","model_name":"x:y"}` + "\n" +
		`{"max_tokens":7,"quiet":true,"response_format":{"name":"quiz","root":"a/b","schema":{"type":"object"},"type":"json_schema"},` +
		`"seed":7,"stop":["END"],"temperature":0.25,"top_p":0.25}`
	if diff := cmp.Diff(want, b.prompts[0].Content); diff != "" {
		t.Error(diff)
	}
}

func TestDescribeShowsOnlyWhatMayBeShown(t *testing.T) {
	secret := errors.New("sk-CANARY at https://internal.example")
	_, templateError := prompt.Parse("p", "{{ x")
	for _, c := range []struct {
		name  string
		err   error
		want  Failure
		known bool
	}{
		{"a failure", fmt.Errorf("wrapped %w: %w", secret, &Failure{Code: CodeConflict, Message: "m", Pointer: "/a", Retryable: true}), Failure{Code: CodeConflict, Message: "m", Pointer: "/a", Retryable: true}, true},
		{"a failure without a code", &Failure{Message: "m", Cause: secret}, Failure{Code: CodeInternal, Message: "m"}, true},
		{"a provider's error", &adapter.Error{Code: adapter.CodeAuth, Message: "refused", Cause: secret}, Failure{Code: adapter.CodeAuth, Message: "refused"}, true},
		{"a template's error", templateError, Failure{Code: CodeInvalid, Message: "cannot render a prompt: p:1:1: the tag, variable or comment is not closed on its line"}, true},
		{"a deadline", context.DeadlineExceeded, Failure{Code: adapter.CodeTimeout, Message: "the time limit was reached", Retryable: true}, true},
		{"a cancellation", context.Canceled, Failure{Code: CodeInternal, Message: "canceled"}, true},
		{"anything else", secret, Failure{Code: CodeInternal, Message: "internal error"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, known := Describe(c.err)
			got.Cause = nil
			if diff := cmp.Diff(c.want, got); diff != "" || known != c.known {
				t.Error(diff, known)
			}
		})
	}
}

// RFC 6901
func TestPointersAreEscaped(t *testing.T) {
	for uri, want := range map[string]string{"": "", "a/0/b": "/a/0/b", `a\/b/~`: "/a~1b/~0", `\e`: "/", `\$x`: "/$x"} {
		if got := Pointer(uri); got != want {
			t.Errorf("%q became %q", uri, got)
		}
	}
}
