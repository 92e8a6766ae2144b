package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// difficult is text that has all that wire formats need to escape, and characters of each length.
const difficult = "Röntgen said \"hi\"\n\\ and\tleft \x01\r\n data: x\n\nevent: y\n 🙂👩‍👩‍👧\u2028</script>é"

// testAnswers reads answers of all kinds of content (AD-01).
func testAnswers(t *testing.T, s Subject) {
	for _, row := range []struct {
		name   string
		skip   bool
		answer fakeproviders.Answer
		want   heard
	}{
		{"text", false, fakeproviders.Answer{Text: "Hello, world"}, heard{
			Text: "Hello, world", Finish: adapter.FinishStop, Usage: adapter.Usage{CompletionTokens: 3},
		}},
		{"text of all characters", false, fakeproviders.Answer{Text: difficult}, heard{Text: difficult, Finish: adapter.FinishStop}},
		{
			"text of a character at a time", false,
			fakeproviders.Answer{Tokens: strings.Split(difficult, "")},
			heard{Text: difficult, Finish: adapter.FinishStop},
		},
		{"nothing", false, fakeproviders.Answer{}, heard{Finish: ""}},
		{"reasoning before text", s.NoReasoning, fakeproviders.Answer{Reasoning: "so " + difficult, Text: "Hello"}, heard{
			Reasoning: "so " + difficult, Text: "Hello", Finish: adapter.FinishStop,
		}},
		{"a call of a tool", s.NoTools, fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{{ID: "c1", Name: "look", Arguments: `{"q":1}`}}}, heard{
			Calls: []adapter.ToolCall{{ID: "c1", Name: "look", Arguments: `{"q":1}`}}, Finish: adapter.FinishToolCalls,
		}},
		{
			"calls of tools after text, with arguments in pieces", s.NoTools,
			fakeproviders.Answer{Text: "I look", ToolCalls: []fakeproviders.ToolCall{
				{ID: "c1", Name: "look", Arguments: `{"place":"Zürich \"🙂\"","days":[1,2,3],"deep":{"er":null}}`},
				{ID: "c2", Name: "look", Arguments: `{"place":"日本\n"}`},
				{ID: "c3", Name: "see", Arguments: `{}`},
			}},
			heard{Text: "I look", Calls: []adapter.ToolCall{
				{ID: "c1", Name: "look", Arguments: `{"place":"Zürich \"🙂\"","days":[1,2,3],"deep":{"er":null}}`},
				{Index: 1, ID: "c2", Name: "look", Arguments: `{"place":"日本\n"}`},
				{Index: 2, ID: "c3", Name: "see", Arguments: `{}`},
			}, Finish: adapter.FinishToolCalls},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.skip {
				t.Skip("the wire cannot say it")
			}
			synctest.Test(t, func(t *testing.T) {
				up := &fakeproviders.Server{Script: always(row.answer)}
				defer up.Close()
				req := question()
				for _, c := range row.answer.ToolCalls {
					req.Tools = append(req.Tools, adapter.Tool{Name: c.Name})
				}
				m := guarded(t, s.Prefix, s.Model, s.provider(t, up), nil)
				got := hear(t, t.Context(), m.Stream(t.Context(), req), nil)
				if row.want.Finish == "" { // DV-11
					if e, ok := errors.AsType[*adapter.Error](got.err); !ok || e.Code != adapter.CodeProtocol || e.Retryable {
						t.Errorf("%+v", got)
					}
					return
				}
				if got.err != nil {
					t.Fatal(got.err)
				}
				row.want.Model = s.Prefix + ":" + s.Model
				if diff := cmp.Diff(row.want, got, s.compare()...); diff != "" {
					t.Error(diff)
				}
				if u := got.Usage; !s.NoUsage && (u.PromptTokens <= 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens ||
					row.want.Usage.CompletionTokens != 0 && u.CompletionTokens != row.want.Usage.CompletionTokens) {
					t.Errorf("usage %+v", u)
				}
				ids := map[string]bool{}
				for _, c := range got.Calls {
					if ids[c.ID] || c.ID == "" {
						t.Errorf("the id of a call is missing or not its own: %q", c.ID)
					}
					ids[c.ID] = true
				}
			})
		})
	}
}

// compare says when two answers are the same: arguments are JSON, of which the white space does not matter.
func (s *Subject) compare() cmp.Options {
	return cmp.Options{
		cmpopts.IgnoreUnexported(heard{}),
		cmpopts.IgnoreFields(heard{}, "Usage"),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Arguments" }, cmp.Transformer("JSON", func(args string) any {
			var v any
			if err := json.Unmarshal([]byte(args), &v); err != nil {
				return "not JSON: " + args
			}
			return v
		})),
		cmp.FilterPath(func(p cmp.Path) bool { return s.OwnToolIDs && p.Last().String() == ".ID" }, cmp.Ignore()),
	}
}

// testRequests looks at what arrives at the provider.
func testRequests(t *testing.T, s Subject) {
	ask := func(t *testing.T, script func(fakeproviders.Request) fakeproviders.Answer, req adapter.Request) []fakeproviders.Request {
		t.Helper()
		var mu sync.Mutex
		var asked []fakeproviders.Request
		up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, r)
			return script(r)
		}}
		defer up.Close()
		m := guarded(t, s.Prefix, s.Model, s.provider(t, up), nil)
		if got := hear(t, t.Context(), m.Stream(t.Context(), req), nil); got.err != nil || got.Text != "ok" {
			t.Fatalf("%+v", got)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, r := range asked {
			if strings.Contains(string(r.Body), "CANARY") {
				t.Error("the key is in the body")
			}
			if s.KeyName != "" && !carries(r.Header, Key) {
				t.Error("the key is not in the header")
			}
		}
		return asked
	}
	ok := always(fakeproviders.Answer{Text: "ok"})
	inBubble := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	inBubble("a conversation", func(t *testing.T) {
		asked := ask(t, ok, adapter.Request{Messages: []adapter.Message{
			{Role: adapter.System, Content: "You are kind."},
			{Role: adapter.User, Content: "Hi \"you\""},
			{Role: adapter.Assistant, Content: "Hello 🙂"},
			{Role: adapter.User, Content: "Why?\nHow?"},
		}})[0]
		if !asked.Stream {
			t.Error("no stream was asked for")
		}
		if asked.Model != s.Model {
			t.Errorf("the model %q was asked", asked.Model)
		}
		var said []string
		for _, m := range asked.Messages {
			if m.Role == adapter.User || m.Role == adapter.Assistant {
				said = append(said, m.Role+": "+m.Content)
			}
		}
		if diff := cmp.Diff([]string{"user: Hi \"you\"", "assistant: Hello 🙂", "user: Why?\nHow?"}, said); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(string(asked.Body), "You are kind.") {
			t.Errorf("the system's message is not in %s", asked.Body)
		}
	})
	inBubble("what calls of tools have given", func(t *testing.T) {
		if s.NoTools {
			t.Skip("the wire cannot say it")
		}
		asked := ask(t, ok, adapter.Request{
			Messages: []adapter.Message{
				{Role: adapter.User, Content: "What is the weather?"},
				{Role: adapter.Assistant, ToolCalls: []adapter.ToolCall{{ID: "c1", Name: "look", Arguments: `{"place":"Timbuktu"}`}}},
				{Role: adapter.ToolRole, ToolCallID: "c1", Content: "dry and hot"},
			},
			Tools: []adapter.Tool{{Name: "look"}},
		})[0]
		for _, part := range []string{"Timbuktu", "look", "dry and hot"} {
			if !strings.Contains(string(asked.Body), part) {
				t.Errorf("%q is not in %s", part, asked.Body)
			}
		}
	})
	inBubble("the schema of an answer", func(t *testing.T) {
		asked := ask(t, ok, adapter.Request{
			Messages: question().Messages,
			Format:   adapter.Format{JSON: true, Name: "weather", Schema: json.RawMessage(`{"type":"object","properties":{"humidity":{"type":"number"}}}`)},
		})[0]
		if !strings.Contains(string(asked.Body), "humidity") {
			t.Errorf("the schema is not in %s", asked.Body)
		}
	})
	inBubble("asked again in the same words (AD-06)", func(t *testing.T) {
		asked := ask(t, func(r fakeproviders.Request) fakeproviders.Answer {
			return fakeproviders.Answer{Text: "ok", Status: map[bool]int{true: 503}[r.Attempt < 3]}
		}, question())
		if len(asked) != 3 || string(asked[0].Body) != string(asked[1].Body) || string(asked[0].Body) != string(asked[2].Body) {
			t.Errorf("%d requests: %s", len(asked), asked[len(asked)-1].Body)
		}
	})
	inBubble("nothing is asked under a context that has ended (AD-01)", func(t *testing.T) {
		up := &fakeproviders.Server{Script: ok}
		defer up.Close()
		why := errors.New("the run was canceled")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		got := hear(t, ctx, s.bare(t, Options{Transport: up.Transport()}).Stream(ctx, question()), nil)
		if !errors.Is(got.err, why) || up.Requests() != 0 {
			t.Errorf("%v, %d requests", got.err, up.Requests())
		}
	})
	inBubble("a context's cause is the error, in the middle too (AD-01)", func(t *testing.T) {
		up := &fakeproviders.Server{Script: always(fakeproviders.Answer{Text: strings.Repeat("word", 1000), Pace: 10})}
		defer up.Close()
		why := errors.New("the run was canceled")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		got := hear(t, ctx, s.bare(t, Options{Transport: up.Transport()}).Stream(ctx, question()), nil)
		if got.err != why || got.Text == "" {
			t.Errorf("%q %v", got.Text, got.err)
		}
	})
	inBubble("a panic in the loop ends the request, and passes through (AD-01)", func(t *testing.T) {
		up := &fakeproviders.Server{Script: always(fakeproviders.Answer{Text: strings.Repeat("word", 1000), Pace: 10})}
		defer up.Close()
		m := s.bare(t, Options{Transport: up.Transport()})
		func() {
			defer func() {
				if p := recover(); p != "in the loop" {
					t.Errorf("recovered %v", p)
				}
			}()
			for range m.Stream(t.Context(), question()) {
				panic("in the loop")
			}
		}()
		synctest.Wait()
		if up.Open() != 0 || up.Canceled() != 1 {
			t.Errorf("open %d, canceled %d", up.Open(), up.Canceled())
		}
	})
}

func carries(h http.Header, secret string) bool {
	for _, values := range h {
		if strings.Contains(strings.Join(values, " "), secret) {
			return true
		}
	}
	return false
}

// testFinish ends answers for other reasons than the usual (AD-08).
func testFinish(t *testing.T, s Subject) {
	for _, row := range []struct {
		name   string
		skip   bool
		finish string
		code   string
	}{
		{"length is an end", s.NoLength, adapter.FinishLength, ""},
		{"content_filter is an error (AD-08)", s.NoContentFilter, adapter.FinishContentFilter, adapter.CodeProtocol},
		{"none is an error (FT-06)", false, "-", adapter.CodeProtocol},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.skip {
				t.Skip("the wire cannot say it")
			}
			synctest.Test(t, func(t *testing.T) {
				up := &fakeproviders.Server{Script: always(fakeproviders.Answer{Text: "Hello", Finish: row.finish})}
				defer up.Close()
				m := guarded(t, s.Prefix, s.Model, s.provider(t, up), nil)
				got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil)
				if got.Text != "Hello" || up.Requests() != 1 {
					t.Errorf("%q after %d requests", got.Text, up.Requests())
				}
				e, _ := errors.AsType[*adapter.Error](got.err)
				switch {
				case row.code == "":
					if got.err != nil || got.Finish != row.finish {
						t.Errorf("%q %v", got.Finish, got.err)
					}
				case e == nil || e.Code != row.code:
					t.Errorf("%v", got.err)
				case row.finish == "-" && got.Finish != "":
					t.Errorf("the finish %q of an answer without one", got.Finish)
				}
			})
		})
	}
}

// testWhole reads one answer.
func testWhole(t *testing.T, name string, open func(testing.TB) adapter.Model) {
	synctest.Test(t, func(t *testing.T) {
		got := hear(t, t.Context(), open(t).Stream(t.Context(), question()), nil)
		if got.err != nil || got.Text == "" || got.Finish != adapter.FinishStop || got.Model != name {
			t.Errorf("%+v", got)
		}
		if u := got.Usage; u.CompletionTokens <= 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
			t.Errorf("usage %+v", u)
		}
	})
}

// testLeaving leaves answers; the bubble notices what goes on.
func testLeaving(t *testing.T, _ string, open func(testing.TB) adapter.Model) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t)
		hear(t, t.Context(), m.Stream(t.Context(), question()), func(h heard) bool { return h.Text == "" })
		why := errors.New("the run was canceled")
		ctx, cancel := context.WithCancelCause(t.Context())
		began := time.Now()
		var canceled time.Time
		got := hear(t, ctx, m.Stream(ctx, question()), func(h heard) bool {
			if h.Text != "" && canceled.IsZero() {
				canceled = time.Now()
				cancel(why)
			}
			return true
		})
		// An answer that is not paced may be complete before its end is noticed.
		if got.err == nil && time.Since(began) == 0 {
			return
		}
		if !errors.Is(got.err, why) || time.Since(canceled) > 0 {
			t.Errorf("%v, %v after it", got.err, time.Since(canceled))
		}
	})
}

// testAtOnce reads many answers at once: to the same question, the same answer.
func testAtOnce(t *testing.T, _ string, open func(testing.TB) adapter.Model) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t)
		want := hear(t, t.Context(), m.Stream(t.Context(), question()), nil)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				got := hear(t, t.Context(), m.Stream(t.Context(), question()), nil)
				if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(heard{})); diff != "" {
					t.Error(diff)
				}
			})
		}
		wg.Wait()
	})
}

// testMany reads many streams at once on one provider, of which some are left and some canceled.
func testMany(t *testing.T, s Subject) {
	synctest.Test(t, func(t *testing.T) {
		up := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
			return fakeproviders.Answer{Text: strings.Repeat(string(rune('a'+r.Attempt/26))+string(rune('a'+r.Attempt%26))+"..", 50), Pace: 20}
		}}
		defer up.Close()
		m := guarded(t, s.Prefix, s.Model, s.provider(t, up), nil)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%4 == 1 {
					time.AfterFunc(time.Second, cancel)
				}
				got := hear(t, ctx, m.Stream(ctx, question()), func(h heard) bool { return i%4 != 2 || len(h.Text) < 40 })
				if (got.err != nil) != (i%4 == 1) {
					t.Errorf("%v", got.err)
				}
				if text := got.Text; text == "" || text != strings.Repeat(text[:4], len(text)/4) {
					t.Errorf("mixed up: %q", text)
				}
				if i%2 == 0 && i%4 == 0 && len(got.Text) != 200 || i%4 == 3 && len(got.Text) != 200 {
					t.Errorf("%d characters", len(got.Text))
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if up.Open() != 0 || up.Canceled() != 100 || up.Requests() != 200 {
			t.Errorf("open %d, canceled %d, requests %d", up.Open(), up.Canceled(), up.Requests())
		}
	})
}
