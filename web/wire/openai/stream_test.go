package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/openai"
)

var head = openai.Head{ID: "r", Model: `a "model"`, Created: 7}

func completed() openai.End {
	return openai.End{Finish: openai.Stop, Usage: adapter.Usage{PromptTokens: 4, CompletionTokens: 6, CachedTokens: 3, CacheWriteTokens: 1, ReasoningTokens: 5, Cost: 12_345}}
}

func grow(uri, text string) tube.Event {
	return tube.Event{Kind: tube.Append, URI: []byte(uri), Value: []byte(text)}
}

func set(uri, value string) tube.Event {
	return tube.Event{Kind: tube.Set, URI: []byte(uri), Value: []byte(value)}
}

func part(e tube.Event) tube.Event {
	e.Part = true
	return e
}

var over = tube.Event{Kind: tube.Named, Name: "finished", Value: []byte(`{"status":"completed"}`)}

// write writes a stream of these events.
func write(s *openai.Stream, events ...tube.Event) string {
	dst := s.Open(nil)
	for _, e := range events {
		if !s.Over() {
			dst = s.Append(dst, e)
		}
	}
	return string(dst)
}

// deltas are the values of a member of the deltas of a stream.
func deltas(t testing.TB, stream, member string) (list []string) {
	t.Helper()
	for line := range strings.SplitSeq(stream, "\n\n") {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		var c struct {
			Choices []struct{ Delta map[string]any }
		}
		if err := json.Unmarshal([]byte("{"+data), &c); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		for _, choice := range c.Choices {
			if text, ok := choice.Delta[member].(string); ok && text != "" {
				list = append(list, text)
			}
		}
	}
	return list
}

func TestAStreamByteForByte(t *testing.T) {
	s := openai.NewStream(head, true, openai.Shape{Text: true}, completed)
	got := write(s, tube.Event{Kind: tube.Named, Name: "started", Value: []byte("{}")}, grow("$reasoning_context", `h\n`), set("$tools/0", `{"id":"c"}`), grow("", `x\"`), over)
	const chunk = `data: {"id":"chatcmpl-r","object":"chat.completion.chunk","created":7,"model":"a \"model\"","choices":[{"index":0,"delta":{%s},"logprobs":null,"finish_reason":%s}],"usage":null}` + "\n\n"
	want := fmt.Sprintf(chunk, `"role":"assistant","content":"","refusal":null`, "null") +
		fmt.Sprintf(chunk, `"reasoning_content":"h\n","reasoning":"h\n"`, "null") +
		fmt.Sprintf(chunk, `"content":"x\""`, "null") +
		fmt.Sprintf(chunk, ``, `"stop"`) +
		`data: {"id":"chatcmpl-r","object":"chat.completion.chunk","created":7,"model":"a \"model\"","choices":[],"usage":{"prompt_tokens":4,"completion_tokens":6,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":1},"completion_tokens_details":{"reasoning_tokens":5},"cost":0.012345}}` + "\n\n" +
		"data: [DONE]\n\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestARunWithoutADocumentIsAnEmptyTextOrAnEmptyObject(t *testing.T) {
	for text, want := range map[bool][]string{true: nil, false: {"{}"}} {
		if d := cmp.Diff(want, deltas(t, write(openai.NewStream(head, false, openai.Shape{Text: text}, completed), over), "content")); d != "" {
			t.Error(d)
		}
	}
}

func TestASnapshotTellsNoThoughtTwice(t *testing.T) {
	got := write(openai.NewStream(head, false, openai.Shape{Text: true}, completed),
		grow("$reasoning_context", "one "), grow("", "a"),
		set("", "null"), grow("", "ab"), part(set("$reasoning_context", "null")), part(grow("$reasoning_context", "one two")), grow("$reasoning_context", " three"),
		grow("b/$reasoning_context", "other"), over)
	if d := cmp.Diff([]string{"one ", "two", " three", "\n\nother"}, deltas(t, got, "reasoning_content")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a", "b"}, deltas(t, got, "content")); d != "" {
		t.Error(d)
	}
}

func TestWhatCannotGoOnIsAnErrorAtOnce(t *testing.T) {
	s := openai.NewStream(head, false, openai.Shape{}, completed)
	got := write(s, set("", "[]"), set("0", "1"), set("0", "2"), over)
	if !s.Over() || !strings.Contains(got, `"code":"taken_back"`) || strings.Contains(got, "[DONE]") {
		t.Errorf("%s", got)
	}
	if text := strings.Join(deltas(t, got, "content"), ""); text != "[1" {
		t.Errorf("%q", text)
	}
}

// A stream of a run that goes on after a restart begins when the run has taken back what it writes again.
func TestAnswerThatIsWrittenAgainAfterARestartIsToldOnce(t *testing.T) {
	const attempt = 1 << 32 // events that each attempt may have
	restarted := func(parts string) tube.Event {
		return tube.Event{Kind: tube.Named, Name: "restarted", Value: []byte(`{"attempt":2,"bots":[],"parts":` + parts + `}`)}
	}
	for _, c := range []struct {
		name          string
		text          bool
		before, after []tube.Event
		rest          []tube.Event // when the stream has begun
		want          string
	}{
		{
			"an agent's text", true,
			[]tube.Event{grow("$reasoning_context", "hm"), grow("", "Half an ans")},
			[]tube.Event{restarted(`["","$reasoning_context"]`), set("$reasoning_context", "null"), set("", "null"), set("", "{}")},
			[]tube.Event{grow("$reasoning_context", "Aha."), grow("", "All "), grow("", "of it.")},
			"All of it.",
		},
		{
			"a text that has begun again", true,
			[]tube.Event{grow("", "Half an ans")},
			[]tube.Event{restarted(`[""]`), set("", "null"), set("", "{}"), grow("", "All ")},
			[]tube.Event{grow("", "of it.")},
			"All of it.",
		},
		{
			"a document", false,
			[]tube.Event{grow("a", "kept"), grow("b/c", "half"), grow("b/d", "half")},
			[]tube.Event{restarted(`["b/c","b/d"]`), set("b/c", "null"), set("b/d", "null")},
			[]tube.Event{grow("b/c", "all"), grow("b/d", "all")},
			`{"a":"kept","b":{"c":"all","d":"all"}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tb := tube.New("r", &tube.Options{})
			send := func(events []tube.Event) {
				for _, e := range events {
					if _, err := tb.Send(e); err != nil {
						t.Fatal(err)
					}
				}
			}
			send(c.before)
			tb.Leap(attempt)
			send(c.after)
			s, reader := openai.NewStream(head, false, openai.Shape{Text: c.text}, completed), tb.NewReader(0)
			dst := s.Open(nil)
			read := func() {
				for e := range reader.Waiting() {
					dst = s.Append(dst, e)
				}
			}
			read()
			send(c.rest)
			_ = tb.Close("completed")
			read()
			if got := strings.Join(deltas(t, string(dst), "content"), ""); got != c.want || !strings.HasSuffix(string(dst), "[DONE]\n\n") {
				t.Errorf("%s", dst)
			}
			if got := strings.Join(deltas(t, string(dst), "reasoning_content"), ""); strings.Contains(got, "hm") {
				t.Errorf("%s", got)
			}
		})
	}
}

func TestAnErrorEndsAStream(t *testing.T) {
	s := openai.NewStream(head, true, openai.Shape{}, func() openai.End {
		return openai.End{Err: &openai.Error{Status: 502, Code: "upstream_auth", Message: `the "key"`}}
	})
	got := write(s, grow("a", "x"), over)
	if !strings.HasSuffix(got, `data: {"error":{"message":"the \"key\"","type":"server_error","param":null,"code":"upstream_auth"}}`+"\n\n") {
		t.Errorf("%s", got)
	}
	if text := strings.Join(deltas(t, got, "content"), ""); text != `{"a":"x"}` {
		t.Errorf("%q", text)
	}
}

// Whoever streams has what who does not gets, and both have the fold of the run.
func TestAStreamAndAnAnswerHaveTheSameContent(t *testing.T) {
	uris := []string{"a", "b", "a/b", "a/0", "c/d/e", "c", `x\/y`, "$reasoning_context", "a/$reasoning_context", "$tools/0"}
	rapid.Check(t, func(t *rapid.T) {
		// Whoever reads rarely falls out of a log that is small, and goes on from a snapshot.
		tb := tube.New("r", &tube.Options{MaxBytes: 1})
		s, reader := openai.NewStream(head, false, openai.Shape{}, completed), tb.NewReader(0)
		dst := s.Open(nil)
		read := func() {
			for e := range reader.Waiting() {
				if !s.Over() {
					dst = s.Append(dst, e)
				}
			}
		}
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			e := tube.Event{URI: []byte(rapid.SampledFrom(uris).Draw(t, "uri"))}
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				e.Kind, e.Value = tube.Set, []byte(rapid.SampledFrom([]string{"null", "1.50", "[]", "{}", `{"k":[1,"é"]}`}).Draw(t, "value"))
			case 1:
				e.Kind = tube.Done
			default:
				e.Value = []byte(rapid.SampledFrom([]string{"word ", `\n`, `\"`, "☀", ""}).Draw(t, "text"))
			}
			for range rapid.SampledFrom([]int{1, 1, 1, 300}).Draw(t, "times") {
				if _, err := tb.Send(e); err != nil {
					t.Fatal(err)
				}
			}
			if rapid.Bool().Draw(t, "reads") {
				read()
			}
		}
		if err := tb.Close("completed"); err != nil {
			t.Fatal(err)
		}
		read()
		document, beside := tb.Snapshot(false)
		var whole struct {
			Choices []struct {
				Message struct {
					Content          string
					ReasoningContent string `json:"reasoning_content"`
				}
			}
		}
		if err := json.Unmarshal(openai.Completion(head, document, beside, completed()), &whole); err != nil {
			t.Fatal(err)
		}
		var streamed strings.Builder
		for line := range strings.SplitSeq(string(dst), "\n\n") {
			var c struct {
				Choices []struct{ Delta struct{ Content string } }
			}
			if data, ok := strings.CutPrefix(line, "data: {"); ok && !strings.HasPrefix(data, `"error"`) {
				if err := json.Unmarshal([]byte("{"+data), &c); err != nil {
					t.Fatal(err)
				}
				streamed.WriteString(c.Choices[0].Delta.Content)
			}
		}
		if strings.Contains(string(dst), `"code":"taken_back"`) {
			return // what was written has changed
		}
		var got, want any
		if err := json.Unmarshal([]byte(streamed.String()), &got); err != nil {
			t.Fatalf("%v in %s", err, streamed.String())
		}
		if err := json.Unmarshal([]byte(whole.Choices[0].Message.Content), &want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%s\n%s", d, streamed.String())
		}
	})
}

func TestATextInTheSteadyStateAllocatesNothing(t *testing.T) {
	for name, uri := range map[string]string{"a text": "", "a document's string": "article/sections/0/body", "thoughts": "$reasoning_context"} {
		t.Run(name, func(t *testing.T) {
			s := openai.NewStream(head, true, openai.Shape{}, completed)
			e := grow(uri, "word ")
			dst := make([]byte, 0, 4<<10)
			for range 5000 { // its buffers grow
				dst = s.Append(dst[:0], e)
			}
			if n := testing.AllocsPerRun(1000, func() { dst = s.Append(dst[:0], e) }); n > 0.1 {
				t.Errorf("%v allocations for an event", n)
			}
		})
	}
}
