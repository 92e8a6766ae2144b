package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

// inTurn answers the first request as the first of these does, the second as the second; more are a mistake. It keeps the
// requests.
func inTurn(requests *[]adapter.Request, answers ...script) script {
	return func(ctx context.Context, r adapter.Request, yield func(adapter.Chunk, error) bool) {
		n := len(*requests)
		*requests = append(*requests, r)
		if n >= len(answers) {
			yield(adapter.Chunk{}, errors.New("nobody should ask"))
			return
		}
		answers[n](ctx, r, yield)
	}
}

// fails begins an answer and breaks it off.
func fails(code string, pieces ...string) script {
	return func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
		for _, p := range pieces {
			if !yield(adapter.Chunk{Text: p, Model: "fake:m"}, nil) {
				return
			}
		}
		yield(adapter.Chunk{}, &adapter.Error{Code: code, Message: "it broke"})
	}
}

var titled = json.RawMessage(`{"type":"object","required":["title"],"additionalProperties":false,` +
	`"properties":{"title":{"type":"string","maxLength":5},"tags":{"type":"array","items":{"type":"string"}}}}`)

// BO-04, BO-05
func TestAnAnswerThatDoesNotFitIsAskedForOnceMoreAndReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests []adapter.Request
		w := newWorld(t, inTurn(&requests, says("stop", `{"title":"Much too`, ` long","tags":[1]}`), says("stop", `{"title":"Sk`, `y",}`)))
		b := New(w.Env, "outline", "article", Config{Schema: titled, OnInvalid: Retry, Done: true})
		var log []string
		b.Listen(journal(&log))
		b.SetPrompt("Write.", nil)
		r, err := chat(t, b)
		if err != nil {
			t.Fatal(err)
		}
		both := adapter.Usage{PromptTokens: 6, CompletionTokens: 8, TotalTokens: 14}
		want := Response{Value: json.RawMessage(`{"title":"Sky"}`), Model: "fake:m", Usage: both, Repairs: map[string]int{"trailing comma": 1}}
		if r.Repairs != nil { // whatever its name is
			want.Repairs = r.Repairs
		}
		if diff := cmp.Diff(want, r); diff != "" || len(r.Repairs) != 1 {
			t.Error(diff, r.Repairs)
		}
		if diff := cmp.Diff([]string{ // of the answer that stays, each once
			`string article/title=Sky`,
			`object article={"title":"Sky"}`,
			`inference-done {"title":"Sky"}`,
			`response {"title":"Sky"}`,
		}, log); diff != "" {
			t.Error(diff)
		}
		used := `{"event":"usage","data":{"bot":"outline","model":"fake:m","prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`
		if diff := cmp.Diff([]string{
			`{"uri":"article","delta":{}}`,
			`{"uri":"article/title","delta":"Much too"}`,
			`{"uri":"article/title","delta":" long"}`,
			`{"uri":"article/tags","delta":[]}`,
			`{"uri":"article/tags/0","delta":1}`,
			used,
			`{"uri":"article","delta":null}`,
			`{"uri":"article","delta":{}}`,
			`{"uri":"article/title","delta":"Sk"}`,
			`{"uri":"article/title","delta":"y"}`,
			used,
			`{"uri":"article/title","done":true}`,
			`{"uri":"article","done":true}`,
		}, w.lines()); diff != "" {
			t.Error(diff)
		}
		if len(w.reported) != 1 {
			t.Fatal(w.reported)
		}
		f, _ := Describe(w.reported[0])
		if f.Code != CodeOutputInvalid || !strings.HasPrefix(f.Pointer, "/article/") || strings.Count(f.Message, "/article/") != 2 || !strings.HasSuffix(f.Message, "; the server retries once") {
			t.Errorf("%+v", f)
		}
		if len(requests) != 2 {
			t.Fatal(requests)
		}
		first, second := requests[0], requests[1]
		if diff := cmp.Diff(first.Messages, second.Messages[:len(first.Messages)]); diff != "" || !cmp.Equal(first.Format, second.Format) {
			t.Error("the question is another one:", diff)
		}
		more := second.Messages[len(first.Messages):]
		if len(more) != 2 || more[0].Role != adapter.Assistant || more[0].Content != `{"title":"Much too long","tags":[1]}` || more[1].Role != adapter.User {
			t.Fatalf("%+v", more)
		}
		for _, part := range []string{"- /title: ", "- /tags/0: ", "whole document", string(titled)} {
			if !strings.Contains(more[1].Content, part) {
				t.Errorf("the model is not told %q:\n%s", part, more[1].Content)
			}
		}
	})
}

// BO-05
func TestWhatBecomesOfTheFirstAnswerDependsOnTheSecond(t *testing.T) {
	const wrong = `{"title":"Much too long"}`
	for _, c := range []struct {
		name          string
		first, second script
		root          string
		want          string   // of the document
		reported      []string // beginnings of messages
		err           string
	}{
		{
			"the second fits", says("stop", wrong), says("stop", `{"title":"Sky"}`), "",
			`{"title":"Sky"}`,
			[]string{"the output does not match its schema"},
			"",
		},
		{
			"the second fits, without a root, with other members", says("stop", `{"titel":"Sky"}`), says("stop", `{"title":"Sky"}`), "",
			`{"title":"Sky"}`,
			[]string{"the output does not match its schema"},
			"",
		},
		{
			"the second does not fit either", says("stop", wrong), says("stop", `{"title":7}`), "a",
			`{"a":{"title":7}}`,
			[]string{"the output does not match its schema", "the output does not match its schema"},
			"",
		},
		{
			"the second is empty", says("stop", wrong), says("stop", `{}`), "",
			`{}`,
			[]string{"the output does not match its schema", "the output does not match its schema"},
			"",
		},
		{
			"the first is a list", says("stop", `[1,2]`), says("stop", `{"title":"Sky"}`), "",
			`{"title":"Sky"}`,
			[]string{"the output does not match its schema"},
			"",
		},
		{
			"the first is a text", says("stop", `"Sky"`), says("stop", `{"title":"Sky"}`), "a/b",
			`{"a":{"b":{"title":"Sky"}}}`,
			[]string{"the output does not match its schema"},
			"",
		},
		{
			"the second is another text", says("stop", `"Sky"`), says("stop", `"Sea"`), "",
			`"Sea"`,
			[]string{"the output does not match its schema", "the output does not match its schema"},
			"",
		},
		{
			"the model is not reached again", says("stop", wrong), fails(adapter.CodeUnavailable), "a",
			`{"a":{"title":"Much too long"}}`,
			[]string{"the output does not match its schema", "it broke", "the output does not match its schema"},
			"",
		},
		{
			"the second holds no document", says("stop", wrong), says("stop", "I cannot."), "a",
			`{"a":{"title":"Much too long"}}`,
			[]string{"the output does not match its schema", "the model's output contains no JSON", "the output does not match its schema"},
			"",
		},
		{
			"the second breaks off", says("stop", wrong), fails(adapter.CodeProtocol, `{"title":"S`), "a",
			`{"a":{"title":"S"}}`,
			[]string{"the output does not match its schema"},
			"it broke",
		},
		{
			"the first holds no document", says("stop", "I would say that"), says("stop", `{"title":"Sky"}`), "a",
			`{"a":{"title":"Sky"}}`,
			[]string{"the model's output contains no JSON document; the server retries once"},
			"",
		},
		{
			"neither holds a document", says("stop", "I would"), says("stop", "I would not"), "a",
			`{}`,
			[]string{"the model's output contains no JSON document; the server retries once"},
			"the model's output contains no JSON document",
		},
		{
			"no document, and then no model", says("stop", "I would"), fails(adapter.CodeUnavailable), "a",
			`{}`,
			[]string{"the model's output contains no JSON document; the server retries once"},
			"it broke",
		},
		{
			"the first says nothing", says("stop"), says("stop", `{"title":"Sky"}`), "a",
			`{"a":{"title":"Sky"}}`,
			[]string{"the model's output contains no JSON document; the server retries once"},
			"",
		},
		{
			"the first fits", says("stop", `{"title":"Sky"}`), fails(adapter.CodeUnavailable), "a",
			`{"a":{"title":"Sky"}}`, nil, "",
		},
		{
			"the first is too large to be checked", says("stop", `{"title":"Sky","tags":[1e9999]}`), says("stop", `{"title":"Sea"}`), "a",
			`{"a":{"title":"Sky","tags":[1e9999]}}`,
			[]string{"the output was not checked against its schema: it cannot be checked"},
			"",
		},
		{
			"the first breaks off", fails(adapter.CodeProtocol, `{"title":"Much too long`), says("stop", `{"title":"Sky"}`), "a",
			`{"a":{"title":"Much too long"}}`, nil, "it broke",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests []adapter.Request
				w := newWorld(t, inTurn(&requests, c.first, c.second))
				b := New(w.Env, "outline", c.root, Config{Schema: titled, OnInvalid: Retry})
				var log []string
				b.Listen(journal(&log))
				_, err := chat(t, b)
				if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("%v", err)
				}
				document, _ := w.Tube.Snapshot(true)
				if diff := cmp.Diff(c.want, string(document)); diff != "" {
					t.Error(diff)
				}
				var reported []string
				for i, err := range w.reported {
					text := err.Error()
					if i < len(c.reported) && strings.HasPrefix(text, c.reported[i]) {
						text = c.reported[i]
					}
					reported = append(reported, text)
				}
				if diff := cmp.Diff(c.reported, reported); diff != "" {
					t.Error(diff)
				}
				ends := 0
				for _, line := range log {
					if strings.HasPrefix(line, "response ") || strings.HasPrefix(line, "error ") {
						ends++
					}
				}
				if ends != 1 || err != nil && len(log) != 1 {
					t.Error(log)
				}
			})
		})
	}
}

// BO-04
func TestListenersAreToldOfTheAnswerThatStaysAsOfOneThatCameAtOnce(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Custom(func(t *rapid.T) any { return anyValue(t, 3) })
		text, err := json.Marshal(value.Draw(t, "document"))
		if err != nil {
			t.Fatal(err)
		}
		root := rapid.SampledFrom([]string{"", "a", "a/b"}).Draw(t, "root")
		told := func(c Config) (log []string) {
			w := newWorld(outer, says("stop", string(text)))
			b := New(w.Env, "b", root, c)
			b.Listen(journal(&log))
			if err := b.Chat(Message{Text: "go"}); err != nil {
				t.Fatal(err)
			}
			w.wg.Wait()
			return log
		}
		if diff := cmp.Diff(told(Config{}), told(Config{OnInvalid: Retry})); diff != "" {
			t.Fatal(diff)
		}
	})
}

func anyValue(t *rapid.T, deep int) any {
	kinds := []string{"text", "number", "literal", "object", "list"}
	if deep == 0 {
		kinds = kinds[:3]
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "text":
		return rapid.String().Draw(t, "text")
	case "number":
		return rapid.Int().Draw(t, "number")
	case "literal":
		return rapid.SampledFrom([]any{true, false, nil}).Draw(t, "literal")
	case "object":
		object := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			object[rapid.String().Draw(t, "key")] = anyValue(t, deep-1)
		}
		return object
	}
	list := []any{}
	for range rapid.IntRange(0, 3).Draw(t, "elements") {
		list = append(list, anyValue(t, deep-1))
	}
	return list
}

func TestOnlyMembersAreTakenBackWhereOthersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests []adapter.Request
		w := newWorld(t, inTurn(&requests, says("stop", `{"titel":"Sky","a/b":{"c":1},"titel":"Sea"}`), says("stop", `{"title":"Sky"}`)))
		w.Alone = func(*ChatBot, func(json.RawMessage) bool) bool { return false }
		w.Tube.Send(tube.Event{Kind: tube.Set, URI: []byte("article/other"), Value: []byte("1")})
		if _, err := chat(t, New(w.Env, "outline", "article", Config{Schema: titled, OnInvalid: Retry})); err != nil {
			t.Fatal(err)
		}
		document, _ := w.Tube.Snapshot(true)
		if diff := cmp.Diff(`{"article":{"other":1,"titel":null,"a/b":null,"title":"Sky"}}`, string(document)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhoSeesOnlyAPartSeesItReplaced(t *testing.T) {
	for _, c := range []struct {
		name   string
		filter tube.Filter
		want   string
	}{
		{"included", tube.Filter{Include: []tube.Matcher{tube.URI("article/title")}}, `{"article":{"title":"Sky"}}`},
		{"excluded", tube.Filter{Exclude: []tube.Matcher{tube.URI("article/tags"), tube.URI("article/tags/0")}}, `{"article":{"title":"Sky"}}`},
		{"only the root is hidden", tube.Filter{Exclude: []tube.Matcher{tube.URI("article")}}, `{"article":{"title":"Sky","tags":["b"]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests []adapter.Request
				w := newWorld(t, inTurn(&requests, says("stop", `{"title":"Much too long","tags":["a"]}`), says("stop", `{"title":"Sky","tags":["b"]}`)))
				w.Tube.AddFilter(c.filter)
				if _, err := chat(t, New(w.Env, "outline", "article", Config{Schema: titled, OnInvalid: Retry})); err != nil {
					t.Fatal(err)
				}
				seen, _ := w.Tube.Snapshot(false)
				if diff := cmp.Diff(c.want, string(seen)); diff != "" {
					t.Error(diff)
				}
				all, _ := w.Tube.Snapshot(true)
				if diff := cmp.Diff(`{"article":{"title":"Sky","tags":["b"]}}`, string(all)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestAQuietBotIsQuietAboutItsSecondAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests []adapter.Request
		w := newWorld(t, inTurn(&requests, says("stop", `{"title":"Much too long"}`), says("stop", `{"title":"Sky"}`)))
		if _, err := chat(t, New(w.Env, "outline", "", Config{Schema: titled, OnInvalid: Retry, Quiet: true})); err != nil {
			t.Fatal(err)
		}
		for _, line := range w.lines() {
			if !strings.HasPrefix(line, "hidden ") {
				t.Error(line)
			}
		}
	})
}

// PROTOCOL 1.1: a reader that comes in the middle has the fold of what came before.
func TestASnapshotInTheMiddleIsTheFoldOfTheEventsSoFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests []adapter.Request
		slow := func(pieces ...string) script {
			return func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
				for _, p := range pieces {
					time.Sleep(time.Second)
					if !yield(adapter.Chunk{Text: p}, nil) {
						return
					}
				}
				yield(adapter.Chunk{Finish: "stop"}, nil)
			}
		}
		w := newWorld(t, inTurn(&requests, slow(`{"title":"Much`, ` too long"`, `}`), slow(`{"tit`, `le":"S`, `ky"}`)))
		b := New(w.Env, "outline", "", Config{Schema: titled, OnInvalid: Retry})
		if err := b.Chat(Message{Text: "go"}); err != nil {
			t.Fatal(err)
		}
		var seen []string
		time.Sleep(time.Second / 2)
		for range 8 {
			synctest.Wait()
			document, _ := w.Tube.Snapshot(false)
			var fold jsonuri.Document
			if n := w.Tube.Len(); n > 0 {
				for e := range w.Tube.AllEvents(t.Context(), 0) {
					switch e.Kind {
					case tube.Append:
						fold.Append(e.URI, e.Value)
					case tube.Set:
						fold.Set(e.URI, e.Value)
					}
					if e.N+1 >= n {
						break
					}
				}
				if diff := cmp.Diff(string(fold.AppendJSON(nil)), string(document)); diff != "" {
					t.Error(diff)
				}
			}
			if len(seen) == 0 || seen[len(seen)-1] != string(document) {
				seen = append(seen, string(document))
			}
			time.Sleep(time.Second)
		}
		w.wg.Wait()
		want := []string{`{}`, `{"title":"Much"}`, `{"title":"Much too long"}`, `{"title":"S"}`, `{"title":"Sky"}`}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Error(diff)
		}
	})
}

func TestASecondAnswerCanBeEndedByHandAndWithItsRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  string
		second []string // before it hangs
		cancel bool
		want   string // the document
		err    bool
	}{
		{"by hand, before it begins", `{"title":7}`, nil, false, `{"title":7}`, false},
		{"by hand, after it has begun", `{"title":7}`, []string{`{"title":"S`}, false, `{"title":"S"}`, false},
		{"by hand, without any document", `I would`, nil, false, `{}`, false},
		{"with its run", `{"title":7}`, nil, true, `{"title":7}`, true},
		{"with its run, after it has begun", `{"title":7}`, []string{`{"title":"S`}, true, `{"title":"S"}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests []adapter.Request
				w := newWorld(t, inTurn(&requests, says("stop", c.first), func(ctx context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
					for _, p := range c.second {
						yield(adapter.Chunk{Text: p}, nil)
					}
					<-ctx.Done()
					yield(adapter.Chunk{}, context.Cause(ctx))
				}))
				b := New(w.Env, "outline", "", Config{Schema: titled, OnInvalid: Retry})
				if err := b.Chat(Message{Text: "go"}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				stop := errors.New("stop")
				if c.cancel {
					w.cancel(stop)
				} else {
					b.Finish()
				}
				if _, err := b.Wait(t.Context()); c.err != errors.Is(err, stop) {
					t.Error(err)
				}
				document, _ := w.Tube.Snapshot(true)
				if diff := cmp.Diff(c.want, string(document)); diff != "" {
					t.Error(diff)
				}
				if len(requests) != 2 {
					t.Error("asked", len(requests))
				}
			})
		})
	}
}

func TestAModelThatDidNotStopIsAskedAgainAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests []adapter.Request
		endless := func(ctx context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
			yield(adapter.Chunk{Text: `{"title":7}`}, nil)
			<-ctx.Done() // it is cut off, and its context with it
			yield(adapter.Chunk{}, context.Cause(ctx))
		}
		w := newWorld(t, inTurn(&requests, endless, says("stop", `{"title":"Sky"}`)))
		r, err := chat(t, New(w.Env, "outline", "", Config{Schema: titled, OnInvalid: Retry}))
		if err != nil || string(r.Value) != `{"title":"Sky"}` {
			t.Errorf("%s, %v", r.Value, err)
		}
	})
}

func TestWhatTheModelIsToldOfItsAnswerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, first := range map[string]string{
			"document": `{"title":"` + strings.Repeat("é", 1<<20) + `"}`,
			"prose":    strings.Repeat("é ", 1<<20),
			"many":     `{"title":"a","tags":[` + strings.Repeat("1,", 10_000) + `1]}`,
			"long key": `{"title":"a","` + strings.Repeat("k", 60_000) + `":1}`,
		} {
			var requests []adapter.Request
			w := newWorld(t, inTurn(&requests, says("length", first), says("stop", `{"title":"Sky"}`)))
			r, err := chat(t, New(w.Env, "outline", "", Config{Schema: titled, OnInvalid: Retry}))
			if err != nil || string(r.Value) != `{"title":"Sky"}` || r.Truncated {
				t.Errorf("%s: %.100s, %v", name, r.Value, err)
			}
			size := 0
			for _, m := range requests[1].Messages[len(requests[0].Messages):] {
				size += len(m.Content)
			}
			if size > maxEcho+maxEchoSchema+16<<10 {
				t.Errorf("%s: the model is told %d bytes", name, size)
			}
			last := requests[1].Messages[len(requests[1].Messages)-1].Content
			if n := strings.Count(last, "\n- /"); n > maxViolations {
				t.Errorf("%s: the model is told of %d violations", name, n)
			}
			if !strings.Contains(last, "be shorter") {
				t.Errorf("%s: the model is not told that it was cut off", name)
			}
			for _, err := range w.reported {
				if f, _ := Describe(err); len(f.Message)+len(f.Pointer) > 4<<10 {
					t.Errorf("%s: a report of %d bytes", name, len(f.Message)+len(f.Pointer))
				}
			}
		}
	})
}

func TestThoughtsOfBothAnswersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thinks := func(thought, text string) script {
			return func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
				if yield(adapter.Chunk{Reasoning: thought}, nil) && yield(adapter.Chunk{Text: text}, nil) {
					yield(adapter.Chunk{Finish: "stop"}, nil)
				}
			}
		}
		var requests []adapter.Request
		w := newWorld(t, inTurn(&requests, thinks("first", `{"title":7}`), thinks("second", `{"title":"Sky"}`)))
		if _, err := chat(t, New(w.Env, "outline", "a", Config{Schema: titled, OnInvalid: Retry})); err != nil {
			t.Fatal(err)
		}
		_, beside := w.Tube.Snapshot(true)
		if diff := cmp.Diff(`{"a/$reasoning_context":"first\n\nsecond"}`, string(beside)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAPanicOfAListenerThatIsToldLateIsTheBotsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("stop", `{"title":"Sky"}`))
		b := New(w.Env, "outline", "", Config{OnInvalid: Retry})
		b.Listen(Listener{String: func(StringValue) { panic("oh") }})
		if _, err := chat(t, b); err == nil || b.State() != Error {
			t.Error(err, b.State())
		}
	})
}

func TestBothAnswersCountAsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests []adapter.Request
		written := 0
		w := newWorld(t, inTurn(&requests, says("stop", `{"title":7}`), says("stop", `{"title":"Sky"}`)))
		w.Written = func(n int) bool { written += n; return true }
		if _, err := chat(t, New(w.Env, "outline", "", Config{Schema: titled, OnInvalid: Retry})); err != nil {
			t.Fatal(err)
		}
		if want := len(`{"title":7}{"title":"Sky"}`); written != want {
			t.Error(fmt.Sprint(written, " bytes, want ", want))
		}
	})
}

// DN-11: what failed a bot says each place, and the limit of tokens before the misfits that follow from it.
func TestAMisfitNamesEachPlaceAndTheTokenLimit(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["n","m"],"properties":{"n":{"type":"integer"},"list":{"items":{"type":"string"}}}}`)
	for _, test := range []struct {
		name, finish, answer string
		onInvalid            OnInvalid
		want                 string // the message
		pointer              string
	}{
		{"one", "stop", `{"n":1}`, Fail, "the output does not match its schema: this property is required", "/r/m"},
		{"several", "stop", `{"n":"x","list":["a",2]}`, Fail, "the output does not match its schema: /r/list/1: expected a string, got a number; /r/m: this property is required; /r/n: expected an integer, got a string", "/r/list/1"},
		{"the limit, and the bot fails", "length", `{"n":1,"list":["a`, Fail, "the answer is incomplete, because the model reached its token limit; the output does not match its schema: this property is required", "/r/m"},
		{"the limit, and the bot reports it", "length", `{"n":1,"list":["a`, Report, "the answer is incomplete, because the model reached its token limit; the output does not match its schema: this property is required", "/r/list/0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, says(test.finish, test.answer))
				_, err := chat(t, New(w.Env, "b", "r", Config{Schema: schema, SchemaName: "thing", OnInvalid: test.onInvalid}))
				if err == nil {
					if len(w.reported) != 1 {
						t.Fatalf("%v", w.reported)
					}
					err = w.reported[0]
				}
				if f, _ := Describe(err); f.Message != test.want || f.Pointer != test.pointer || f.Code != CodeOutputInvalid {
					t.Errorf("got  %q at %s\nwant %q at %s", f.Message, f.Pointer, test.want, test.pointer)
				}
			})
		})
	}
}
