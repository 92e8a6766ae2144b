package agui_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/agui"
	"github.com/lingserve/lingserve/web/wire/agui/aguitest"
)

// tb is what a test or a property needs of its T.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// told is a run, and a client that is told of it as it goes on.
type told struct {
	t      tb
	tube   *tube.Tube
	reader *tube.Reader
	*agui.Encoder
	aguitest.Client
}

// newTold starts a run of a workflow.
func newTold(t tb, maxLog int, edit func(*agui.Run)) *told {
	r := agui.Run{Thread: "thread", ID: "run", Of: "ours", State: true}
	if edit != nil {
		edit(&r)
	}
	c := &told{t: t, Encoder: agui.NewEncoder(r)}
	c.tube = tube.New("ours", &tube.Options{MaxBytes: maxLog})
	c.reader = c.tube.NewReader(0)
	c.Read(c.Open(nil))
	return c
}

// tell sends an event to the run: an append where there is a string, otherwise a set; done where the value is "".
func (c *told) tell(uri, value string) {
	e := tube.Event{Kind: tube.Set, URI: []byte(uri), Value: []byte(value)}
	switch {
	case value == "":
		e.Kind = tube.Done
	case value[0] == '"':
		e.Kind, e.Value = tube.Append, e.Value[1:len(value)-1]
	}
	if _, err := c.tube.Send(e); err != nil {
		c.t.Helper()
		c.t.Fatalf("%v", err)
	}
}

func (c *told) name(name, data string) {
	if _, err := c.tube.Send(tube.Event{Kind: tube.Named, Name: name, Value: []byte(data)}); err != nil {
		c.t.Helper()
		c.t.Fatalf("%v", err)
	}
}

// follow lets the client read what there is.
func (c *told) follow() {
	c.t.Helper()
	for e := range c.reader.Waiting() {
		if c.Over() {
			break
		}
		c.Read(c.Append(nil, e))
	}
	if c.Err != nil {
		c.t.Fatalf("the client stops: %v", c.Err)
	}
}

// finish ends the run, and holds what the client has to what the run has made.
func (c *told) finish() {
	c.t.Helper()
	_ = c.tube.Close("completed") // a test may have ended it
	c.follow()
	if !c.Ended || !c.Over() {
		c.t.Fatalf("the client is not told of the end: %q", c.Log)
	}
	document, _ := c.tube.Snapshot(false)
	if diff := cmp.Diff(aguitest.Decode(document), c.State); diff != "" {
		c.t.Errorf("the document (-) is not the state (+):\n%s", diff)
	}
	if diff := cmp.Diff(aguitest.Decode(document), aguitest.Decode(c.End["result"])); diff != "" {
		c.t.Errorf("the document (-) is not the result (+):\n%s", diff)
	}
}

// names are keys that somebody may stumble over.
var names = []string{
	"a", "b", "title", "", "/", "a/b", "~", "~0", "~1", "~01", `\`, `\e`, "$", "$tools", ".", "..", "0", "1", "01", "-", "__proto__",
	"constructor", "prototype", "toString", "hasOwnProperty", "length", `"`, "\n", "é ☀ 🌈", "\u2028", "*",
}

// document draws JSON text.
func document(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		quoted := func(s string) string { return `"` + string(jsonuri.AppendEscaped(nil, s)) + `"` }
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case kind < 2 && depth > 0:
			var members []string
			for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 5).Draw(t, "names") { // some of them twice
				members = append(members, quoted(name)+":"+document(depth-1).Draw(t, "member"))
			}
			return "{" + strings.Join(members, ",") + "}"
		case kind < 4 && depth > 0:
			return "[" + strings.Join(rapid.SliceOfN(document(depth-1), 0, 5).Draw(t, "elements"), ",") + "]"
		case kind < 7:
			return rapid.OneOf(
				rapid.Map(rapid.String(), quoted),
				rapid.Map(rapid.IntRange(0, 60), func(n int) string { return quoted(strings.Repeat("word ", n)) }),
				rapid.SampledFrom([]string{`""`, `"\ud83c\udf08"`, `"\ud800"`, `"\udc00x"`, `"\\u0041\"\n\/"`}),
			).Draw(t, "string")
		default:
			return rapid.SampledFrom([]string{"0", "-1.10", "12345678901234567890", "true", "false", "null", "1e3"}).Draw(t, "scalar")
		}
	})
}

// write lets a parser write a document below a root, in chunks. It returns after each.
func write(c *told, root, text string, cuts []int, done bool) func() bool {
	h := jsonuri.Handler{Delta: func(d jsonuri.Delta) {
		e := tube.Event{Kind: tube.Set, URI: d.URI, Value: d.Value}
		if d.Op == jsonuri.Append {
			e.Kind = tube.Append
		}
		if _, err := c.tube.Send(e); err != nil {
			c.t.Fatalf("%v", err)
		}
	}}
	if done {
		h.Done = func(uri []byte) { c.tell(string(uri), "") }
	}
	p := jsonuri.NewParser(h, &jsonuri.Options{Root: root})
	return func() bool {
		n := len(text)
		if len(cuts) > 0 {
			n, cuts = min(n, cuts[0]), cuts[1:]
		}
		_, _ = p.WriteString(text[:n])
		if text = text[n:]; text == "" {
			_ = p.Close()
			return false
		}
		return true
	}
}

func TestOneLogSeveralEncodingsTheStateIsTheDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var texts []string
		roots := []string{"", "a", "b/0", `~/x\/y`}
		if rapid.Bool().Draw(t, "bots") {
			for _, root := range roots {
				if rapid.Bool().Draw(t, "text") {
					texts = append(texts, root)
				}
			}
		}
		c := newTold(t, rapid.SampledFrom([]int{0, 2 << 10}).Draw(t, "log"), func(r *agui.Run) { r.Texts = texts })
		var writers []func() bool
		for range rapid.IntRange(1, 3).Draw(t, "writers") {
			writers = append(writers, write(c, rapid.SampledFrom(roots).Draw(t, "root"), document(4).Draw(t, "document"),
				rapid.SliceOfN(rapid.IntRange(1, 20), 0, 40).Draw(t, "cuts"), rapid.Bool().Draw(t, "done")))
		}
		for len(writers) > 0 {
			i := rapid.IntRange(0, len(writers)-1).Draw(t, "who")
			if !writers[i]() {
				writers = slices.Delete(writers, i, i+1)
			}
			if rapid.IntRange(0, 3).Draw(t, "reads") > 0 {
				c.follow()
			}
		}
		c.finish()
	})
}

func TestAnyEventsGiveAStateThatIsTheDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newTold(t, rapid.SampledFrom([]int{0, 2 << 10}).Draw(t, "log"), nil)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			uri := jsonuri.Format(rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "uri")...)
			switch rapid.IntRange(0, 5).Draw(t, "form") {
			case 0, 1:
				c.tell(uri, `"`+strings.Repeat("some words ", rapid.IntRange(0, 30).Draw(t, "words"))+`"`)
			case 2:
				c.tell(uri, "")
			case 3:
				c.tell(uri, rapid.SampledFrom([]string{"{}", "[]", "1", "null"}).Draw(t, "value"))
			case 4:
				c.tell(uri, document(3).Draw(t, "document"))
			default:
				c.tell(jsonuri.Join(uri, strconv.Itoa(rapid.IntRange(0, 40).Draw(t, "index"))), "true")
			}
			if rapid.Bool().Draw(t, "reads") {
				c.follow()
			}
		}
		c.finish()
	})
}

func TestPathsAreJSONPointers(t *testing.T) {
	for _, c := range []struct{ name, uri, path string }{
		{"plain", "a/b/0", "/a/b/0"},
		{"a slash in a key", `a\/b`, "/a~1b"},
		{"a tilde", "~/~0", "/~0/~00"},
		{"an empty key", `\e/x/\e`, "//x/"},
		{"a key that begins with a dollar", `\$tools/0`, "/$tools/0"},
		{"dots", `\./\..`, "/./.."},
		{"a backslash", `a\\b`, `/a\b`},
		{"a quote and a line feed", "a\"b\n", "/a\"b\n"},
		{"a backslash before a slash", `a\\\/b`, `/a\~1b`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			e := agui.NewEncoder(agui.Run{State: true})
			segments, err := jsonuri.Parse(c.uri)
			if err != nil {
				t.Fatal(err)
			}
			e.Open(nil)
			for i := range segments { // its parents come first
				value := "{}"
				if i == len(segments)-1 {
					value = "1"
				}
				uri := jsonuri.Format(segments[:i+1]...)
				frame := e.Append(nil, tube.Event{Kind: tube.Set, URI: []byte(uri), Value: []byte(value)})
				var event struct{ Delta []struct{ Path string } }
				if err := json.Unmarshal(frame[len("data: "):], &event); err != nil || len(event.Delta) != 1 {
					t.Fatalf("%v in %s", err, frame)
				}
				got = event.Delta[0].Path
			}
			if got != c.path {
				t.Errorf("%q, want %q", got, c.path)
			}
		})
	}
}

// A JSON Patch cannot append, so what is sent could be the square of what there is.
func TestWhatIsSentIsLinearInWhatTheRunHasSent(t *testing.T) {
	one := func(c *told, tokens int) {
		for range tokens {
			c.tell("text", `"word "`)
		}
	}
	several := func(c *told, tokens int) {
		for i := range tokens {
			c.tell("sections/"+strconv.Itoa(i%8), `"word "`)
		}
	}
	for _, shape := range []struct {
		name  string
		write func(c *told, tokens int)
		most  float64 // bytes that are sent for each of the run's
	}{
		{"one string", one, 2},
		{"eight strings at the same time", func(c *told, tokens int) { c.tell("sections", "[]"); several(c, tokens) }, 2.5},
		{"a string below a key that clients refuse", func(c *told, tokens int) {
			c.tell("__proto__", "{}")
			for range tokens {
				c.tell("__proto__/a", `"word "`)
			}
		}, 2.5},
		{"an array", func(c *told, tokens int) {
			c.tell("list", "[]")
			for i := range tokens {
				c.tell("list/"+strconv.Itoa(i), "1")
			}
		}, 3},
		{"members of one object", func(c *told, tokens int) {
			for i := range tokens {
				c.tell("m"+strconv.Itoa(i), `"x"`)
				c.tell("m"+strconv.Itoa(i), "")
			}
		}, 3},
		{"many strings that turn up again and again", func(c *told, tokens int) {
			for i := range tokens {
				c.tell("s"+strconv.Itoa(i%1000), `"w "`)
			}
		}, 3},
	} {
		t.Run(shape.name, func(t *testing.T) {
			ratio := func(tokens int) float64 {
				c := newTold(t, 0, nil)
				sent := 0
				shape.write(c, tokens)
				for e := range c.tube.NewReader(0).Waiting() {
					sent += len(e.AppendJSON(nil)) + len("id: ours:123456\ndata: \n\n")
				}
				for e := range c.reader.Waiting() {
					c.Bytes += len(c.Append(nil, e))
				}
				_ = c.tube.Close("completed")
				for e := range c.reader.Waiting() {
					c.Bytes += len(c.Append(nil, e))
				}
				return float64(c.Bytes) / float64(sent)
			}
			small, large := ratio(1_000), ratio(16_000)
			t.Logf("%.2f bytes for each of the run's, %.2f where there are sixteen times as many", small, large)
			if large > shape.most || large > small*1.5 {
				t.Errorf("%.2f bytes for each byte of the run, %.2f for sixteen times as many", small, large)
			}
		})
	}
}

func TestTheStateOfALargeDocumentIsNotSentOn(t *testing.T) {
	const large = 64 << 10
	defer agui.SetMaxValue(large)()
	run := newTold(t, 64<<20, nil)
	run.tell("other", "1")
	for range 120 {
		run.tell("s", `"`+strings.Repeat("word ", 200)+`"`)
		run.follow()
	}
	run.tell("later", "2")
	_ = run.tube.Close("completed")
	run.follow()
	state := run.State.(map[string]any)
	if s := state["s"].(string); len(s) < large/2 || !strings.HasPrefix(strings.Repeat("word ", 30_000), s) || state["other"] == nil || state["later"] != nil {
		t.Errorf("%d bytes of s", len(s))
	}
	if run.Notes[len(run.Notes)-1].Name != "too_large" || run.Longest > 2*large || run.End["result"] != nil {
		t.Errorf("%q, an event of %d bytes", run.Notes, run.Longest)
	}
}

func TestTextsThoughtsAndCallsAreMessages(t *testing.T) {
	c := newTold(t, 0, func(r *agui.Run) { r.State = false })
	c.name("started", `{"run":"ours","agent":"assistant"}`)
	c.tell("$reasoning_context", `"I "`)
	c.tell("$reasoning_context", `"look"`)
	c.tell("", `"Let me "`)
	c.tell("", `"see."`)
	c.tell("$tools/0", `{"id":"c1","name":"weather","arguments":{"place":"here"}}`)
	c.tell("$tools/1", `{"id":"c2","name":"time","arguments":"not { JSON"}`)
	c.tell("$tool_results/0", `{"sky":"clear"}`)
	c.tell("$tool_results/1", `null`)
	c.name("error", `{"code":"internal","message":"the tool time has failed","fatal":false}`)
	c.tell("$reasoning_context", `"Clear."`)
	c.tell("", `"\n\nIt is clear."`)
	c.tell("$tools/2", `{"id":"c1","name":"again","arguments":{}}`) // a model may use an id again
	c.tell("$tool_results/2", `"done"`)
	c.tell("", `"\n\nThat is all."`)
	c.tell("", "")
	c.name("usage", `{"bot":"assistant","model":"openai:gpt","prompt_tokens":3,"completion_tokens":4,"total_tokens":9}`)
	c.name("usage", `{"bot":"assistant","model":"openai:gpt","prompt_tokens":3,"completion_tokens":4,"total_tokens":9,"cached_tokens":2,"cache_write_tokens":1,"reasoning_tokens":3,"cost":17}`)
	c.name("usage", `{"bot":"assistant","model":"other"}`)
	_ = c.tube.Close("completed")
	c.follow()
	want := []*aguitest.Message{
		{ID: "ours:m1", Role: "reasoning", Content: "I look"},
		{ID: "ours:m2", Role: "assistant", Content: "Let me see.", Calls: []*aguitest.Call{
			{ID: "ours:0", Name: "weather", Arguments: `{"place":"here"}`}, {ID: "ours:1", Name: "time", Arguments: "not { JSON"},
		}},
		{ID: "ours:0:result", Role: "tool", Content: `{"sky":"clear"}`, Call: "ours:0"},
		{ID: "ours:1:result", Role: "tool", Content: `{"error":"the call has failed"}`, Call: "ours:1"},
		{ID: "ours:m3", Role: "reasoning", Content: "Clear."},
		{ID: "ours:m4", Role: "assistant", Content: "It is clear.", Calls: []*aguitest.Call{{ID: "ours:2", Name: "again", Arguments: "{}"}}},
		{ID: "ours:2:result", Role: "tool", Content: "done", Call: "ours:2"},
		{ID: "ours:m5", Role: "assistant", Content: "That is all."},
	}
	if diff := cmp.Diff(want, c.Messages); diff != "" {
		t.Error(diff)
	}
	if c.State != nil {
		t.Errorf("the page's own state has become %v", c.State)
	}
	if got := string(c.End["result"]); got != `"Let me see.\n\nIt is clear.\n\nThat is all."` {
		t.Error(got)
	}
	if got := string(c.End["usage"]); got != `[{"model":"gpt","provider":"openai","inputTokens":6,"outputTokens":8,"totalTokens":14,"cachedInputTokens":2,"cacheWriteInputTokens":1,"reasoningTokens":3},{"model":"other"}]` {
		t.Error(got)
	}
}

func TestAnOldClientIsNotToldWhatItStopsAt(t *testing.T) {
	c := newTold(t, 0, func(r *agui.Run) { r.Old = true })
	c.Encoder = agui.NewEncoder(agui.Run{
		Thread: "thread", ID: "run", Of: "ours", Old: true, Before: []agui.Message{{ID: "1", Role: agui.Reasoning, Text: "hm"}, {ID: "2", Role: agui.User, Text: "Why?"}},
	})
	c.Client = aguitest.Client{}
	c.Read(c.Open(nil))
	c.tell("$reasoning_context", `"I look"`)
	c.tell("", `"Because."`)
	_ = c.tube.Cancel("canceled by request")
	c.follow()
	if diff := cmp.Diff([]string{"Why?"}, c.Texts("user")); diff != "" || len(c.Texts("reasoning")) > 0 || len(c.Texts("assistant")) != 1 {
		t.Errorf("%q", c.Log)
	}
	for _, line := range c.Log {
		if strings.HasPrefix(line, "REASONING") {
			t.Error(line)
		}
	}
	if c.End["outcome"] != nil || c.End["result"] != nil || c.Notes[len(c.Notes)-1].Name != "canceled" {
		t.Errorf("%s", c.End)
	}
}

func TestAnAgentWhoseDocumentIsMoreThanATextHasAState(t *testing.T) {
	for _, value := range []string{`{"a":[1,{"b":null}]}`, `[1]`, "7", "true"} {
		c := newTold(t, 0, func(r *agui.Run) { r.State = false })
		c.tell("", value)
		c.finish()
	}
}

// DN-03: the events of bots are steps, whatever they write.
func TestBotsAreStepsAndTextsOfBotsAreMessages(t *testing.T) {
	c := newTold(t, 0, func(r *agui.Run) {
		r.Texts = []string{"article/sections/*/body"}
	})
	c.name("bot", `{"bot":"outline","root":"article","state":"started"}`)
	c.tell("article", "{}")
	c.tell("article/title", `"Sky"`)
	c.tell("article/sections", "[]")
	c.tell("article/sections/0", "{}")
	c.name("bot", `{"bot":"section","root":"article/sections/0/body","state":"started"}`)
	c.tell("article/sections/0/body", `"The "`)
	c.tell("article/sections/1", "{}")
	c.name("bot", `{"bot":"section","root":"article/sections/1/body","state":"started"}`)
	c.tell("article/sections/1/body", `"A"`)
	c.tell("article/sections/0/body", `"air."`)
	c.tell("article/sections/0/$reasoning_context", `"hm"`)
	c.tell("article/sections/0/body", "")
	c.name("bot", `{"bot":"section","root":"article/sections/0/body","state":"finished"}`)
	c.name("bot", `{"bot":"outline","root":"article","state":"finished"}`)
	c.tell("article/sections/1/body", `"nd."`)
	c.name("bot", `{"bot":"section","root":"article/sections/1/body","state":"failed"}`)
	c.name("bot", `{"bot":"nobody","root":"","state":"finished"}`)
	c.name("bot", `{"bot":"section","root":"article/sections/2/body","state":"started"}`)
	c.tell("article/sections/2/body", `"Later."`)
	c.name("bot", `{"bot":"quiz","root":"quiz","state":"started"}`)
	c.tell("quiz", "[]")
	c.finish()
	var steps []string
	for _, line := range c.Log {
		if strings.HasPrefix(line, "STEP") {
			steps = append(steps, line)
		}
	}
	want := []string{
		"STEP_STARTED outline", "STEP_STARTED section", "STEP_FINISHED outline", "STEP_FINISHED section",
		"STEP_STARTED section", "STEP_STARTED quiz", "STEP_FINISHED section", "STEP_FINISHED quiz",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"The air.", "And.", "Later."}, c.Texts("assistant")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"hm"}, c.Texts("reasoning")); diff != "" {
		t.Error(diff)
	}
}

func TestATextThatIsWrittenOnceMoreIsAnotherMessage(t *testing.T) {
	c := newTold(t, 0, func(r *agui.Run) { r.Texts = []string{"a"} })
	c.tell("a", `"first"`)
	c.tell("a", "null") // it did not fit
	c.tell("a", `"second"`)
	c.finish()
	if diff := cmp.Diff([]string{"first", "second"}, c.Texts("assistant")); diff != "" {
		t.Error(diff)
	}
}

func TestAReaderThatHasFallenBehindIsToldTheRest(t *testing.T) {
	c := newTold(t, 4<<10, func(r *agui.Run) { r.Texts = []string{"a/*"} })
	c.name("started", `{"run":"ours"}`)
	c.tell("$reasoning_context", `"It "`)
	c.tell("a", "[]")
	c.tell("a/0", `"First words "`)
	c.tell("$tools/0", `{"id":"c1","name":"n","arguments":[1]}`)
	c.follow()
	var text strings.Builder
	text.WriteString("First words ")
	for i := range 2000 { // much more than the log holds
		word := "word" + strconv.Itoa(i) + " "
		text.WriteString(word)
		c.tell("a/0", `"`+word+`"`)
	}
	c.tell("a/1", `"Another."`)
	c.tell("$reasoning_context", `"thinks."`)
	c.tell("$tool_results/0", `"result"`)
	c.tell("$tools/1", `{"id":"c2","name":"n","arguments":[2]}`)
	c.name("noted", "1")
	for range 2000 {
		c.tell("b", `"more words "`)
	}
	c.follow()
	c.tell("a/1", `" And more."`)
	c.finish()
	if diff := cmp.Diff([]string{text.String(), "Another. And more."}, c.Texts("assistant")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"It ", "thinks."}, c.Texts("reasoning")); diff != "" { // with a call between
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"result"}, c.Texts("tool")); diff != "" {
		t.Error(diff)
	}
	if c.Call("ours:1") == nil || c.Notes[len(c.Notes)-1].Name != "noted" {
		t.Errorf("%q", c.Log)
	}
}

func TestEndsOfARun(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(c *told)
		kind  string
		wants []string // parts of the last event
	}{
		{"completed", func(c *told) { _ = c.tube.Close("completed") }, "RUN_FINISHED", []string{`"outcome":{"type":"success"}`, `"result":{"a":"b"}`}},
		{"canceled", func(c *told) { _ = c.tube.Cancel("canceled by request") }, "RUN_FINISHED", []string{`"outcome":{"type":"cancelled"}`}},
		{"failed", func(c *told) {
			c.name("error", `{"code":"internal","message":"something small","fatal":false}`)
			c.name("error", `{"code":"upstream_auth","message":"the key was refused","fatal":true}`)
			c.name("error", `{"code":"internal","message":"something later","fatal":false}`)
			_ = c.tube.Close("failed")
		}, "RUN_ERROR", []string{`"message":"the key was refused"`, `"code":"upstream_auth"`}},
		{"failed of what did not end it", func(c *told) {
			c.name("error", `{"code":"output_invalid","message":"it is no JSON","fatal":false}`)
			_ = c.tube.Close("failed")
		}, "RUN_ERROR", []string{`"message":"it is no JSON"`, `"code":"output_invalid"`}},
		{"failed after another failure was handled (DW-04)", func(c *told) {
			c.name("error", `{"code":"output_invalid","message":"it is no JSON","fatal":false}`)
			c.name("error", `{"code":"upstream_timeout","message":"the first choice is slow","fatal":false,"handled":true}`)
			_ = c.tube.Close("failed")
		}, "RUN_ERROR", []string{`"message":"it is no JSON"`, `"code":"output_invalid"`}},
		{"interrupted by the end of the server", func(c *told) { _ = c.tube.Close("interrupted") }, "RUN_ERROR", []string{`"message":"the run was interrupted"`, `"code":"interrupted"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := newTold(t, 0, func(r *agui.Run) { r.Texts = []string{"a"} })
			run.tell("a", `"b"`)
			run.tell("a/$reasoning_context", `"hm"`) // whatever is open is closed
			c.end(run)
			run.follow()
			last, _ := json.Marshal(run.Client.End)
			for _, want := range c.wants {
				if !strings.Contains(string(last), want) {
					t.Errorf("no %s in %s", want, last)
				}
			}
			if !run.Ended || run.Log[len(run.Log)-1] != c.kind || !run.Over() {
				t.Errorf("%q", run.Log)
			}
		})
	}
}

// question is a run that asks whether a call may run.
func question(t *testing.T, answered bool) *told {
	c := newTold(t, 0, func(r *agui.Run) {
		r.Answered = func(n uint64, id string) bool { return answered && n == 3 && id == "q1" }
	})
	c.name("started", `{"run":"ours"}`)
	c.tell("a", `"Let me "`)
	c.tell("$tools/0", `{"id":"c:1","name":"danger","arguments":{}}`)
	c.name("approval_required", `{"id":"q1","call":"c:1","tool":"danger","arguments":{},"expires":"2026-11-22T00:00:00Z"}`)
	c.tell("$tool_results/0", `"late"`)
	c.follow()
	return c
}

func TestAQuestionInterruptsTheRun(t *testing.T) {
	c := question(t, false)
	if !c.Ended || !c.Over() || len(c.Texts("tool")) != 0 {
		t.Fatalf("%q", c.Log)
	}
	var o struct {
		Type       string
		Interrupts []struct{ ID, Reason, Message, ToolCallID, ExpiresAt string }
	}
	if err := json.Unmarshal(c.End["outcome"], &o); err != nil {
		t.Fatal(err)
	}
	i := o.Interrupts[0]
	if o.Type != "interrupt" || i.Reason != "tool_call" || i.ToolCallID != "ours:0" || i.ExpiresAt != "2026-11-22T00:00:00Z" || i.Message == "" {
		t.Errorf("%+v", o)
	}
	run, n, id, ok := agui.ParseQuestion(i.ID)
	if run != "ours" || n != 3 || id != "q1" || !ok {
		t.Errorf("%q: %s %d %s", i.ID, run, n, id)
	}
	t.Run("and its answer goes on with it", func(t *testing.T) {
		e := agui.NewEncoder(agui.Run{Thread: "thread", ID: "next", Of: "ours", State: true})
		reader := c.tube.NewReader(0)
		for event := range reader.Waiting() {
			if e.Skip(event); event.N == n {
				break
			}
		}
		e.Resume()
		c.Encoder, c.reader, c.t = e, c.tube.NewReader(n+1), t
		c.Read(e.Open(nil))
		c.follow()
		c.tell("a", `"see."`)
		c.finish()
		if diff := cmp.Diff([]string{"late"}, c.Texts("tool")); diff != "" {
			t.Error(diff)
		}
		if got := aguitest.Text(c.End["runId"]); got != "next" {
			t.Error(got)
		}
	})
}

func TestARunThatIsInterruptedAnywhereIsToldAsAWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newTold(t, 0, nil)
		texts := []string{"a"}
		asked := 0
		var open []string
		steps := []func(){
			func() { c.tell("a", `"word "`) }, func() { c.tell("a/$reasoning_context", `"hm "`) }, func() { c.tell("b", "{}") },
			func() { c.tell("b/x", `"some more words "`) }, func() { c.tell("b/y", "[]") },
			func() { c.tell("b/y/"+strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "index")), "true") },
			func() { c.name("usage", `{"bot":"json","model":"m","prompt_tokens":1,"completion_tokens":1}`) },
			func() {
				asked++
				call := "c" + strconv.Itoa(asked)
				open = append(open, call)
				c.tell("$tools/"+strconv.Itoa(asked), `{"id":"c","name":"n","arguments":{"n":`+strconv.Itoa(asked)+`}}`)
				c.name("approval_required", `{"id":"`+call+`","call":"c","tool":"n","arguments":{}}`)
			},
			func() {
				if len(open) > 0 {
					c.name("approval_resolved", `{"id":"`+open[0]+`","call":"c","decision":"approve"}`)
					c.tell("$tool_results/"+strings.TrimPrefix(open[0], "c"), `"done"`)
					open = open[1:]
				}
			},
		}
		answered := func(n uint64, call string) bool {
			for e := range c.tube.NewReader(n + 1).Waiting() {
				if e.Name == "approval_resolved" && strings.Contains(string(e.Value), `"`+call+`"`) {
					return true
				}
			}
			return false
		}
		c.Encoder = agui.NewEncoder(agui.Run{Thread: "thread", ID: "r", Of: "ours", State: true, Texts: texts, Answered: answered})
		c.Client = aguitest.Client{}
		c.Read(c.Open(nil))
		spent := 0
		follow := func() {
			c.follow()
			var usage []struct{ InputTokens int }
			if c.Ended {
				_ = json.Unmarshal(c.End["usage"], &usage)
				for _, u := range usage {
					spent += u.InputTokens
				}
			}
		}
		resume := func() { // whoever is asked answers, and the run is told on from there
			var o struct{ Interrupts []struct{ ID string } }
			_ = json.Unmarshal(c.End["outcome"], &o)
			_, n, call, _ := agui.ParseQuestion(o.Interrupts[0].ID)
			if i := slices.Index(open, call); i >= 0 {
				open[0], open[i] = open[i], open[0]
				steps[len(steps)-1]()
			}
			e := agui.NewEncoder(agui.Run{Thread: "thread", ID: "r", Of: "ours", State: true, Texts: texts, Answered: answered})
			for event := range c.tube.NewReader(0).Waiting() {
				if e.Skip(event); event.N == n {
					break
				}
			}
			e.Resume()
			c.Encoder, c.reader = e, c.tube.NewReader(n+1)
			c.Read(e.Open(nil))
			follow()
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			rapid.SampledFrom(steps).Draw(t, "step")()
			if rapid.Bool().Draw(t, "reads") && !c.Over() {
				follow()
			}
			if c.Over() && rapid.Bool().Draw(t, "resumes") {
				resume()
			}
		}
		if !c.Over() {
			follow()
		}
		for c.Over() {
			resume()
		}
		_ = c.tube.Close("completed")
		follow()
		whole := &told{t: t, tube: c.tube, reader: c.tube.NewReader(0), Encoder: agui.NewEncoder(agui.Run{
			Of: "ours", State: true, Texts: texts, Answered: func(uint64, string) bool { return true },
		})}
		whole.Read(whole.Open(nil))
		whole.finish()
		c.finish()
		for _, role := range []string{"assistant", "reasoning", "tool"} {
			if diff := cmp.Diff(strings.Join(whole.Texts(role), ""), strings.Join(c.Texts(role), "")); diff != "" {
				t.Errorf("%s: who was not asked (-) and who was (+):\n%s", role, diff)
			}
		}
		var usage []struct{ InputTokens int }
		_ = json.Unmarshal(whole.End["usage"], &usage)
		for _, u := range usage { // each part of the run tells of its own
			spent -= u.InputTokens
		}
		if spent != 0 {
			t.Errorf("%d tokens too many are told", spent)
		}
		for n := 1; n <= asked; n++ {
			if call := c.Call("ours:" + strconv.Itoa(n)); call == nil || call.Arguments != `{"n":`+strconv.Itoa(n)+`}` {
				t.Errorf("call %d is %+v", n, call)
			}
		}
	})
}

func TestAQuestionThatIsAnsweredIsNone(t *testing.T) {
	if c := question(t, true); c.Ended || len(c.Texts("tool")) != 1 {
		t.Fatalf("%q", c.Log)
	}
}

func TestIdsOfQuestions(t *testing.T) {
	for _, id := range []string{"", "x", "run:1", "run:x:c", ":1:c", "run:1:", "run:-1:c", "run:18446744073709551615:c"} {
		if _, _, _, ok := agui.ParseQuestion(id); ok {
			t.Errorf("%q is taken", id)
		}
	}
}

func TestAClientThatComesBackIsGivenTheMessagesAndTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newTold(t, 0, nil)
		texts := []string{"a"}
		steps := []func(){
			func() { c.tell("a", `"word "`) }, func() { c.tell("a/$reasoning_context", `"hm\n\u2028 "`) },
			func() { c.tell("b", "{}") }, func() { c.tell("b/x", `"y"`) }, func() { c.name("usage", `{"bot":"json","model":"m"}`) },
			func() {
				c.tell("$tools/"+strconv.Itoa(len(c.Log)), `{"id":"c`+strconv.Itoa(len(c.Log))+`","name":"n","arguments":{}}`)
			},
			func() { c.tell("$tool_results/"+strconv.Itoa(len(c.Log)), `"r"`) },
			func() { c.tell("a", "") },
		}
		whole := &told{t: t, tube: c.tube, reader: c.tube.NewReader(0), Encoder: agui.NewEncoder(agui.Run{Of: "ours", State: true, Texts: texts})}
		c.name("started", "{}")
		for range rapid.IntRange(0, 20).Draw(t, "before") {
			rapid.SampledFrom(steps).Draw(t, "step")()
			c.Log = append(c.Log, "")
		}
		back := &told{t: t, tube: c.tube, reader: c.tube.NewReader(0)}
		back.Encoder = agui.NewEncoder(agui.Run{
			Thread: "thread", ID: "back", Of: "ours", State: true, Texts: texts, Before: []agui.Message{{ID: "u", Role: agui.User, Text: "Why?"}},
		})
		if rapid.Bool().Draw(t, "ended") {
			_ = c.tube.Close("completed")
		}
		back.Read(back.Open(nil))
		select {
		case <-c.tube.Ended():
		default:
			for range rapid.IntRange(0, 20).Draw(t, "after") {
				rapid.SampledFrom(steps).Draw(t, "step")()
				c.Log = append(c.Log, "")
			}
		}
		back.finish()
		whole.Read(whole.Open(nil))
		whole.finish()
		if back.Messages[0].Content != "Why?" {
			t.Errorf("%+v", back.Messages[0])
		}
		sorted := func(list []*aguitest.Message) []*aguitest.Message {
			list = append([]*aguitest.Message{}, list...)
			slices.SortFunc(list, func(a, b *aguitest.Message) int { return strings.Compare(a.ID, b.ID) })
			return list
		}
		if diff := cmp.Diff(sorted(whole.Messages), sorted(back.Messages[1:])); diff != "" {
			t.Errorf("who has read all (-) and who came back (+):\n%s", diff)
		}
	})
}

// A stream of a run that goes on after a restart begins when the run has taken back what it writes again.
func TestAnswerThatIsWrittenAgainAfterARestartIsToldOnce(t *testing.T) {
	texts := []string{"a"}
	const attempt = 1 << 32                     // events that each attempt may have
	for _, begun := range []bool{false, true} { // the text has begun again
		c := newTold(t, 0, nil)
		c.name("bot", `{"bot":"text","root":"a","state":"started"}`)
		c.name("bot", `{"bot":"json","root":"b","state":"started"}`)
		c.tell("a/$reasoning_context", `"hm"`)
		c.tell("a", `"Half an ans"`)
		c.tell("b/c", `"kept"`)
		c.name("bot", `{"bot":"json","root":"b","state":"finished"}`)
		c.follow()
		c.tube.Leap(attempt)
		c.name("restarted", `{"attempt":2,"bots":[{"bot":"text","root":"a"}],"parts":["a","a/$reasoning_context"]}`)
		c.tell("a", "null")
		c.tell("a/$reasoning_context", "null")
		c.name("bot", `{"bot":"text","root":"a","state":"started"}`)
		if begun {
			c.tell("a", `"All "`)
		}
		back := &told{t: t, tube: c.tube, reader: c.tube.NewReader(0)}
		back.Encoder = agui.NewEncoder(agui.Run{Thread: "thread", ID: "back", Of: "ours", State: true, Texts: texts})
		back.Read(back.Open(nil))
		if !begun {
			c.tell("a", `"All "`)
		}
		c.tell("a", `"of it."`)
		c.name("bot", `{"bot":"text","root":"a","state":"finished"}`)
		back.finish()
		if diff := cmp.Diff([]string{"All of it."}, back.Texts("assistant")); diff != "" || len(back.Texts("reasoning")) > 0 {
			t.Errorf("%s%q", diff, back.Log)
		}
		var steps []string
		for _, line := range back.Log {
			if strings.HasPrefix(line, "STEP") {
				steps = append(steps, line)
			}
		}
		if diff := cmp.Diff([]string{"STEP_STARTED text", "STEP_STARTED json", "STEP_FINISHED json", "STEP_FINISHED text", "STEP_STARTED text", "STEP_FINISHED text"}, steps); diff != "" {
			t.Error(diff)
		}
	}
}

func TestNothingIsAllocatedForAWordOfAText(t *testing.T) {
	e := agui.NewEncoder(agui.Run{State: true, Texts: []string{"a"}})
	dst := e.Open(nil)
	event := tube.Event{Kind: tube.Append, URI: []byte("a"), Value: []byte("word ")}
	for range 50_000 {
		dst = e.Append(dst[:0], event)
	}
	// What is left is the string's own growth and its being sent again, once in thousands of words.
	if n := testing.AllocsPerRun(1000, func() { dst = e.Append(dst[:0], event) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The client's call stands for a question only if it is the call that will run.
func TestDA_01_AQuestionNamesTheClientsCallOnlyIfThatRuns(t *testing.T) {
	for name, test := range map[string]struct{ question, call string }{
		"the turn's call":              {`{"id":"q","call":"c","tool":"t","arguments":{"a":"<"}}`, "ours:0"},
		"the same, written in escapes": {`{"id":"q","call":"c","tool":"t","arguments":{ "a":"\u003c"}}`, "ours:0"},
		"changed by a hook":            {`{"id":"q","call":"c","tool":"t","arguments":{"a":"b"}}`, ""},
		"a subagent's":                 {`{"id":"q","call":"c","subagent":"s","tool":"t","arguments":{"a":"<"}}`, ""},
		"a call that is answered":      {`{"id":"q","call":"d","tool":"t","arguments":{"a":"<"}}`, ""},
	} {
		c := newTold(t, 0, nil)
		c.tell("$tools/0", `{"id":"c","name":"t","arguments":{"a":"<"}}`)
		c.tell("$tools/1", `{"id":"d","name":"t","arguments":{"a":"<"}}`)
		c.tell("$tool_results/1", `"done"`)
		c.name("approval_required", test.question)
		c.follow()
		var o struct {
			Interrupts []struct {
				ToolCallID string
				Metadata   json.RawMessage
			}
		}
		if err := json.Unmarshal(c.End["outcome"], &o); err != nil || len(o.Interrupts) != 1 {
			t.Fatalf("%s: %v %s", name, err, c.End["outcome"])
		}
		if i := o.Interrupts[0]; i.ToolCallID != test.call || !rawjson.Same(i.Metadata, json.RawMessage(test.question)) {
			t.Errorf("%s: %+v %s", name, i, i.Metadata)
		}
	}
}

// A value that is sent as a whole because of what it holds is no string that grows: a text of no words takes its place, too.
func TestATextWithoutWordsTakesThePlaceOfWhatHoldsAKeyThatClientsRefuse(t *testing.T) {
	for _, uri := range []string{"", "a"} {
		c := newTold(t, 0, nil)
		for range 2 {
			c.tell(jsonuri.Join(uri, "__proto__"), `"words "`)
		}
		c.tell(uri, `""`)
		c.finish()
	}
}

// What is sent as a whole has no part of the next event, which is told by itself: an element would be there twice.
func TestWhatIsSentAsAWholeIsAsItWasBeforeTheNextEvent(t *testing.T) {
	c := newTold(t, 0, nil)
	c.tell("list", "[]")
	c.tell("text", `"`+strings.Repeat("words ", 20)+`"`)
	c.tell("__proto__", "1")
	c.tell("list/0", "true")
	c.finish()
}
