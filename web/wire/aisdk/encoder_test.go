package aisdk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/aisdk"
	"github.com/lingserve/lingserve/web/wire/aisdk/aisdktest"
)

const runID = "q6myrp4qkegvdwscbennnkcpyq"

func newTube(most int) *tube.Tube {
	t := tube.New(runID, &tube.Options{MaxBytes: most})
	_, _ = t.Send(named("started", `{"run":"`+runID+`","agent":"assistant","session":"s"}`))
	return t
}

func named(name, data string) tube.Event {
	return tube.Event{Kind: tube.Named, Name: name, Value: []byte(data)}
}

func text(uri, content string) tube.Event {
	return tube.Event{Kind: tube.Append, URI: []byte(uri), Value: []byte(content)}
}

func set(uri, value string) tube.Event {
	return tube.Event{Kind: tube.Set, URI: []byte(uri), Value: []byte(value)}
}

// follow writes what a reader has to an encoder's client.
func follow(t testing.TB, r *tube.Reader, e *aisdk.Encoder, m *aisdktest.Message) {
	t.Helper()
	for ev := range r.Waiting() {
		if err := m.Write(e.Append(nil, ev)); err != nil {
			t.Fatal(err)
		}
	}
}

// told is what a client has of the events, all of them.
func told(t testing.TB, version int, events ...tube.Event) *aisdktest.Message {
	t.Helper()
	tb := newTube(0)
	for _, e := range events {
		if _, err := tb.Send(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := tb.Close("completed"); err != nil {
		t.Fatal(err)
	}
	m := &aisdktest.Message{Version: version}
	follow(t, tb.NewReader(0), aisdk.New(aisdk.Options{Run: runID, Version: version}), m)
	return m
}

// shown are the parts as one reads them.
func shown(m *aisdktest.Message) []string {
	var list []string
	for _, p := range m.Parts {
		line := []string{p.Type}
		for _, more := range []string{p.URI, p.ID, p.Call, p.Tool, p.State, p.Text, string(p.Input), string(p.Output), string(p.Data)} {
			if more != "" {
				line = append(line, more)
			}
		}
		list = append(list, strings.Join(line, " "))
	}
	return list
}

func same(t interface {
	Helper()
	Fatalf(string, ...any)
}, what, want, got string,
) {
	t.Helper()
	decode := func(s string) (v any) {
		dec := json.NewDecoder(strings.NewReader(s))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s: %v in %s", what, err, s)
		}
		return v
	}
	if diff := cmp.Diff(decode(want), decode(got)); diff != "" {
		t.Fatalf("%s:\n%s", what, diff)
	}
}

func TestAnAgentsAnswerIsTextReasoningAndToolsInSteps(t *testing.T) {
	m := told(t, 5,
		text("$reasoning_context", "A tool "), text("$reasoning_context", "helps."),
		text("", "Let me "), text("", "see."),
		set("$tools/0", `{"id":"c1","name":"weather","arguments":{"place":"here"}}`),
		set("$tools/1", `{"id":"c2","name":"time","arguments":{}}`),
		set("$tool_results/1", `"noon"`),
		set("$tool_results/0", `{"sky":"clear"}`),
		named("usage", `{"bot":"assistant"}`),
		text("$reasoning_context", "Now I know."),
		text("", "\\n\\nIt is clear."),
	)
	if diff := cmp.Diff([]string{
		"step-start", "reasoning A tool helps.", "text Let me see.",
		`dynamic-tool $tools/0 weather output-available {"place":"here"} {"sky":"clear"}`, `dynamic-tool $tools/1 time output-available {} "noon"`,
		"step-start", "reasoning Now I know.", "text It is clear.",
	}, shown(m)); diff != "" {
		t.Error(diff)
	}
	if m.ID != runID || m.Finish != "stop" || !m.Done || m.Metadata["session"] != "s" || len(m.Transient) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestAWorkflowsRootsAreTextsOrData(t *testing.T) {
	m := told(t, 5,
		set("article", "{}"), text("answer", "Hel"), text("article/title", "Sky"), text("answer", "lo"), set("article/n", "1.10"), set("list", "[]"),
		text(`a\/b`, "x"), text("article/$reasoning_context", "hm"), set("$other/1", "1"),
	)
	if diff := cmp.Diff([]string{
		"step-start", `data-ling article {"title":"Sky","n":1.10}`, "text answer Hello", `data-ling list []`, `text a\/b x`, "reasoning article hm",
	}, shown(m)); diff != "" {
		t.Error(diff)
	}
	document, err := m.Document()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "document", `{"article":{"title":"Sky","n":1.10},"answer":"Hello","list":[],"a/b":"x"}`, document)
	var deltas []string
	for _, p := range m.Transient {
		deltas = append(deltas, p.Type+string(p.Data))
	}
	if diff := cmp.Diff([]string{
		`data-delta{"uri":"article","delta":{}}`, `data-delta{"uri":"article/title","delta":"Sky"}`, `data-delta{"uri":"article/n","delta":1.10}`,
		`data-delta{"uri":"list","delta":[]}`,
	}, deltas); diff != "" {
		t.Error(diff)
	}
}

func TestWhatWasTakenBackIsToldAsData(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []tube.Event
		want   []string
		doc    string
	}{
		{
			"a text",
			[]tube.Event{text("a", "no"), set("a", "null"), text("a", "yes")},
			[]string{"step-start", "text a no", `data-ling a "yes"`},
			`{"a":"yes"}`,
		},
		{
			"a text becomes an object",
			[]tube.Event{text("a", "no"), text("a/b", "yes")},
			[]string{"step-start", "text a no", `data-ling a {"b":"yes"}`},
			`{"a":{"b":"yes"}}`,
		},
		{
			"a value",
			[]tube.Event{set("a", `{"b":[1,2]}`), set("a", "null"), set("a", "{}"), set("a/c", "3")},
			[]string{"step-start", `data-ling a {"c":3}`},
			`{"a":{"c":3}}`,
		},
		{
			"the whole document",
			[]tube.Event{set("a", "1"), text("b", "t"), set("", "null"), set("c", "3"), text("d", "t")},
			[]string{"step-start", "data-ling a 1", "text b t", `data-ling {"c":3,"d":"t"}`},
			`{"c":3,"d":"t"}`,
		},
		{
			"a text at the root, by another bot",
			[]tube.Event{text("", "t"), set("a/b", "1")},
			[]string{"step-start", "text t", `data-ling {"a":{"b":1}}`},
			`{"a":{"b":1}}`,
		},
		{
			"members, by a text at the root",
			[]tube.Event{set("a/b", "1"), text("", "t")},
			[]string{"step-start", `data-ling a {"b":1}`, `data-ling "t"`},
			`"t"`,
		},
		{
			"some members",
			[]tube.Event{set("a", "1"), text("b", "t"), set("", `{"b":"tt","c":"new"}`)},
			[]string{"step-start", "data-ling a 1", "text b t", `data-ling {"b":"tt","c":"new"}`},
			`{"b":"tt","c":"new"}`,
		},
		{
			"nothing: a document that was set grows",
			[]tube.Event{set("a", "1"), text("b", "t"), set("", `{"a":{},"b":"tt","c":"new"}`)},
			[]string{"step-start", "data-ling a {}", "text b tt", "text c new"},
			`{"a":{},"b":"tt","c":"new"}`,
		},
		{
			"nothing: a list",
			[]tube.Event{set("", "[]"), text("0", "x"), text("0", "y")},
			[]string{"step-start", `data-ling ["xy"]`},
			`["xy"]`,
		},
		{"nothing: a number", []tube.Event{set("", "7")}, []string{"step-start", `data-ling 7`}, `7`},
		{"nothing: an empty text", []tube.Event{text("", "")}, []string{"step-start", "text"}, `""`},
		{"nothing: an object that is there", []tube.Event{set("", "{}"), set("a", "1"), set("", "{}")}, []string{"step-start", "data-ling a 1"}, `{"a":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := told(t, 5, c.events...)
			if diff := cmp.Diff(c.want, shown(m)); diff != "" {
				t.Error(diff)
			}
			for what, of := range map[string]func() (string, error){"parts": m.Document, "deltas": m.Deltas} {
				document, err := of()
				if err != nil {
					t.Fatal(err)
				}
				same(t, what, c.doc, document)
			}
		})
	}
}

func TestWhatBecameOfCalls(t *testing.T) {
	call := func(n int, id string) tube.Event {
		return set(fmt.Sprint("$tools/", n), `{"id":"`+id+`","name":"t","arguments":{}}`)
	}
	failed := named("error", `{"code":"internal","message":"the tool t has failed","bot":"a","retryable":false,"fatal":false}`)
	for _, c := range []struct {
		name   string
		events []tube.Event
		want   []string
	}{
		{"one that has failed", []tube.Event{call(0, "c"), set("$tool_results/0", "null"), failed}, []string{"dynamic-tool $tools/0 t output-error the tool t has failed {}"}},
		{"two that fail", []tube.Event{call(0, "c"), call(1, "d"), set("$tool_results/1", "null"), failed, set("$tool_results/0", "null"), failed}, []string{
			"dynamic-tool $tools/0 t output-error the tool t has failed {}", "dynamic-tool $tools/1 t output-error the tool t has failed {}",
		}},
		{"one without an end", []tube.Event{call(0, "c")}, []string{"dynamic-tool $tools/0 t output-error the answer ended before this was done {}"}},
		{"a result without a call", []tube.Event{set("$tool_results/4", `[1]`)}, []string{"dynamic-tool $tools/4 tool output-available {} [1]"}},
		{"ids that come again", []tube.Event{
			call(0, "c"), set("$tool_results/0", "1"), call(1, "c"), set("$tool_results/1", "2"), call(2, ""), set("$tool_results/2", "3"),
		}, []string{
			"dynamic-tool $tools/0 t output-available {} 1", "step-start", "dynamic-tool $tools/1 t output-available {} 2", "step-start",
			"dynamic-tool $tools/2 t output-available {} 3",
		}},
		{"one that changes", []tube.Event{call(0, "c"), set("$tools/0", `{"id":"c","name":"t","arguments":{"a":1}}`), set("$tool_results/0", "1")}, []string{`dynamic-tool $tools/0 t output-available {"a":1} 1`}},
		{"those of two bots", []tube.Event{
			set("a/$tools/0", `{"id":"c","name":"t","arguments":{}}`), set("b/$tools/0", `{"id":"c","name":"u","arguments":{}}`), set("b/$tool_results/0", "1"), set("a/$tool_results/0", "2"),
		}, []string{"dynamic-tool a/$tools/0 t output-available {} 2", "dynamic-tool b/$tools/0 u output-available {} 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(append([]string{"step-start"}, c.want...), shown(told(t, 5, c.events...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheEndsOfARun(t *testing.T) {
	broken := named("error", `{"code":"upstream_auth","message":"the model's server refused the key","retryable":false,"fatal":true}`)
	minor := named("error", `{"code":"conflict","message":"two bots write to one place","retryable":false,"fatal":false}`)
	handled := named("error", `{"code":"upstream_timeout","message":"the first choice is slow","retryable":true,"fatal":false,"handled":true}`)
	for _, c := range []struct {
		name      string
		events    []tube.Event
		end       func(*tube.Tube) error
		truncated bool
		finish    string
		wrong     string
	}{
		{"completed", nil, func(t *tube.Tube) error { return t.Close("completed") }, false, "stop", ""},
		{"cut off by a limit of tokens", nil, func(t *tube.Tube) error { return t.Close("completed") }, true, "length", ""},
		{"failed", []tube.Event{minor, broken, minor}, func(t *tube.Tube) error { return t.Close("failed") }, false, "error", "the model's server refused the key"},
		{"failed of what was not fatal", []tube.Event{minor}, func(t *tube.Tube) error { return t.Close("failed") }, false, "error", "two bots write to one place"},
		{"failed after another failure was handled (DW-04)", []tube.Event{minor, handled}, func(t *tube.Tube) error { return t.Close("failed") }, false, "error", "two bots write to one place"},
		{"failed without a word", nil, func(t *tube.Tube) error { return t.Close("failed") }, false, "error", "the answer is incomplete"},
		{"interrupted", nil, func(t *tube.Tube) error { return t.Close("interrupted") }, false, "error", "the server shut down before the answer was complete"},
		{"canceled", nil, func(t *tube.Tube) error { return t.Cancel("canceled by request") }, false, "other", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tb := newTube(0)
			for _, e := range append([]tube.Event{text("", "be"), set("$tools/0", `{"id":"c","name":"t","arguments":{}}`)}, c.events...) {
				if _, err := tb.Send(e); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.end(tb); err != nil {
				t.Fatal(err)
			}
			m := &aisdktest.Message{Version: 5}
			follow(t, tb.NewReader(0), aisdk.New(aisdk.Options{Run: runID, Summary: func() ([]byte, bool) {
				return []byte(`{"status":"x"}`), c.truncated
			}}), m)
			if m.Finish != c.finish || m.Error != c.wrong || !m.Done || m.Metadata["status"] != "x" || m.Aborted != (c.name == "canceled") {
				t.Errorf("%+v", m)
			}
			for _, p := range m.Parts {
				if p.Open || p.State == "input-available" {
					t.Errorf("%+v is not ended", p)
				}
			}
		})
	}
}

// documents are runs of several bots, each of which writes a document or a text below its root, in pieces and in any order.
func documents(t *rapid.T) []tube.Event {
	var queues [][]tube.Event
	bots := rapid.IntRange(1, 4).Draw(t, "bots")
	for i := range bots {
		root := rapid.SampledFrom([]string{"", "a", "b/c", `d\/e`, `\$x`})
		r := root.Draw(t, "root")
		if i > 0 && r == "" {
			r = fmt.Sprint("r", i)
		}
		var q []tube.Event
		if rapid.Bool().Draw(t, "text") {
			for _, piece := range rapid.SliceOf(rapid.String()).Draw(t, "pieces") {
				if r == "" { // a part of the text at the root never begins with an empty line
					piece = strings.ReplaceAll(piece, "\n", " ")
				}
				q = append(q, text(r, string(jsonuri.AppendEscaped(nil, piece))))
			}
		} else {
			doc := value(rapid.IntRange(0, 3).Draw(t, "depth")).Draw(t, "document")
			whole, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			p := jsonuri.NewParser(jsonuri.Handler{Delta: func(d jsonuri.Delta) {
				q = append(q, tube.Event{Kind: tube.Kind(d.Op), URI: bytes.Clone(d.URI), Value: bytes.Clone(d.Value)})
			}}, &jsonuri.Options{Root: r})
			for len(whole) > 0 {
				n := rapid.IntRange(1, 40).Draw(t, "cut")
				n = min(n, len(whole))
				if _, err := p.Write(whole[:n]); err != nil {
					t.Fatal(err)
				}
				whole = whole[n:]
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if rapid.Bool().Draw(t, "thinks") {
			q = append([]tube.Event{text(jsonuri.Join(r, "$reasoning_context"), "hm "), text(jsonuri.Join(r, "$reasoning_context"), "hm")}, q...)
		}
		if rapid.Bool().Draw(t, "calls") {
			q = append(q, set(jsonuri.Join(r, "$tools/0"), `{"id":"c","name":"t","arguments":{"a":1}}`), set(jsonuri.Join(r, "$tool_results/0"), rapid.SampledFrom([]string{`"x"`, "null", "{}"}).Draw(t, "result")))
		}
		if rapid.IntRange(0, 9).Draw(t, "again") == 0 {
			q = append(q, set(r, "null"), set(r, `{"again":"yes"}`))
		}
		if q = append(q, named("usage", `{"bot":"b"}`)); rapid.IntRange(0, 9).Draw(t, "done") == 0 {
			q = append(q, tube.Event{Kind: tube.Done, URI: []byte(r)})
		}
		queues = append(queues, q)
	}
	var events []tube.Event
	for len(queues) > 0 {
		i := rapid.IntRange(0, len(queues)-1).Draw(t, "next")
		events = append(events, queues[i][0])
		if queues[i] = queues[i][1:]; len(queues[i]) == 0 {
			queues = append(queues[:i], queues[i+1:]...)
		}
	}
	return events
}

func value(depth int) *rapid.Generator[any] {
	keys := rapid.SampledFrom([]string{"a", "b", "", "$x", "a/b", `\`, "..", "__proto__", "long\nkey", "é"})
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 4
		if depth > 0 {
			kinds = 6
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.String().Draw(t, "string")
		case 1:
			return rapid.IntRange(-9, 1e6).Draw(t, "number")
		case 2:
			return rapid.Bool().Draw(t, "bool")
		case 3:
			return nil
		case 4:
			return rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "list")
		default:
			return rapid.MapOfN(keys, value(depth-1), 0, 5).Draw(t, "object")
		}
	})
}

// One log, several encodings: what the chunks fold to is the document that everybody else gets, whenever the client comes, however
// slow it is, and whatever has left the log meanwhile.
func TestWhatTheChunksFoldToIsTheRunsDocument(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		events := documents(rt)
		tb := newTube(rapid.SampledFrom([]int{0, 2 << 10}).Draw(rt, "max"))
		type client struct {
			r *tube.Reader
			e *aisdk.Encoder
			m *aisdktest.Message
		}
		var clients []client
		come := func(r *tube.Reader) {
			version := rapid.IntRange(5, 7).Draw(rt, "version")
			clients = append(clients, client{r, aisdk.New(aisdk.Options{Run: runID, Version: version}), &aisdktest.Message{Version: version}})
		}
		read := func(c client) {
			for ev := range c.r.Waiting() {
				if err := c.m.Write(c.e.Append(nil, ev)); err != nil {
					rt.Fatalf("%v\nbehind %q", err, shown(c.m))
				}
			}
		}
		come(tb.NewReader(0))
		for i, e := range events {
			if _, err := tb.Send(e); err != nil {
				rt.Fatal(err)
			}
			switch rapid.IntRange(0, 9).Draw(rt, "meanwhile") {
			case 0:
				come(tb.NewReader(0))
			case 1:
				if i > 0 {
					come(tb.SnapshotReader())
				}
			case 2, 3, 4:
				read(clients[rapid.IntRange(0, len(clients)-1).Draw(rt, "reader")])
			}
		}
		if err := tb.Close("completed"); err != nil {
			rt.Fatal(err)
		}
		come(tb.NewReader(0))
		want, _ := tb.Snapshot(false)
		for _, c := range clients {
			read(c)
			if !c.m.Done || c.m.ID != runID {
				rt.Fatalf("the stream has no end: %q", shown(c.m))
			}
			parts, err := c.m.Document()
			if err != nil {
				rt.Fatal(err)
			}
			same(rt, fmt.Sprintf("the parts %q", shown(c.m)), string(want), parts)
			deltas, err := c.m.Deltas()
			if err != nil {
				rt.Fatal(err)
			}
			same(rt, "the deltas", string(want), deltas)
		}
	})
}

func TestWhatIsWrittenIsLinearInTheDocument(t *testing.T) {
	for _, c := range []struct {
		name string
		// make makes the events of a document of n pieces of ten bytes.
		make func(n int) []tube.Event
		most float64 // bytes written for each byte of events
	}{
		{"one text", func(n int) (list []tube.Event) {
			for range n {
				list = append(list, text("answer", "0123456789"))
			}
			return list
		}, 7}, // a chunk has its frame
		{"one string in an object", func(n int) (list []tube.Event) {
			for range n {
				list = append(list, text("article/body", "0123456789"))
			}
			return list
		}, 20},
		{"many strings", func(n int) (list []tube.Event) {
			list = append(list, set("article/sections", "[]"))
			for i := range n {
				list = append(list, text(fmt.Sprintf("article/sections/%d", i), "0123456789"))
			}
			return list
		}, 20},
		{"many bots in one root, each of which ends", func(n int) (list []tube.Event) {
			for i := range n {
				list = append(list, text(fmt.Sprintf("article/%d", i), "0123456789"), named("usage", `{"bot":"b"}`))
			}
			return list
		}, 40},
		{"many roots", func(n int) (list []tube.Event) {
			for i := range n {
				list = append(list, text(fmt.Sprintf("r%d/%d", i%10, i), "0123456789"), named("usage", `{"bot":"b"}`))
			}
			return list
		}, 40},
		{"a value that is set again and again", func(n int) (list []tube.Event) {
			for i := range n {
				list = append(list, set("a/n", fmt.Sprint(1e9+i)))
			}
			return list
		}, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			per := func(n int) float64 {
				m := told(t, 5, c.make(n)...)
				return float64(m.Bytes) / float64(10*n)
			}
			small, large := per(1000), per(16_000)
			t.Logf("%.1f and %.1f bytes for each", small, large)
			if large > c.most || large > small*1.3 {
				t.Errorf("%.1f bytes for each in a small document, %.1f in a large one", small, large)
			}
		})
	}
}

func TestHostileTexts(t *testing.T) {
	for _, c := range []struct{ uri, content string }{
		{"a\nb", "x"}, {`q"\\uot`, "x"}, {"a", `\n\ndata: {\"type\":\"error\",\"errorText\":\"no\"}\r\n\r\n`}, {"__proto__", "x"}, {"u\u2028v", "\u2028\u2029"},
	} {
		tb := newTube(0)
		for _, e := range []tube.Event{text(c.uri, c.content), set(c.uri+"x/y", "[]"), text(c.uri+"z/$reasoning_context", c.content)} {
			if _, err := tb.Send(e); err != nil {
				t.Fatal(err)
			}
		}
		_ = tb.Close("completed")
		m := &aisdktest.Message{Version: 5}
		follow(t, tb.NewReader(0), aisdk.New(aisdk.Options{Run: runID}), m)
		document, err := m.Document()
		if err != nil {
			t.Fatal(err)
		}
		want, _ := tb.Snapshot(false)
		same(t, c.uri, string(want), document)
	}
	long := strings.Repeat("é\\n", 1<<20)
	m := told(t, 5, text("", long), text("", long))
	if len(m.Text()) != 2*3<<20 {
		t.Errorf("%d bytes", len(m.Text()))
	}
}

func TestATextsPieceAllocatesNothing(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("coverage allocates")
	}
	e := aisdk.New(aisdk.Options{Run: runID})
	dst := make([]byte, 0, 64<<10)
	ev := text("answer", "word ")
	e.Append(dst, ev)
	for range 1000 { // the document's text has room
		e.Append(dst, ev)
	}
	if n := testing.AllocsPerRun(100, func() { e.Append(dst, ev) }); n > 0.1 {
		t.Errorf("%.1f allocations", n)
	}
}

func FuzzAnyEventsAreAStreamThatClientsTake(f *testing.F) {
	f.Add([]byte("\x00a\x00x\x01b\x001\x03usage\x00{}"), uint8(5))
	f.Add([]byte("\x01$tools/0\x00{\"id\":\"c\",\"name\":\"t\"}\x03approval_required\x00{\"call\":\"c\"}\x01$tool_results/0\x00null"), uint8(7))
	f.Fuzz(func(t *testing.T, script []byte, version uint8) {
		v := 5 + int(version%3)
		tb := newTube(2 << 10)
		r, e, m := tb.NewReader(0), aisdk.New(aisdk.Options{Run: runID, Version: v, Answered: func(uint64, string) bool { return true }}), &aisdktest.Message{Version: v}
		rng := rand.New(rand.NewPCG(uint64(len(script)), 1))
		for _, line := range bytes.FieldsFunc(script, func(r rune) bool { return r < 4 && r > 0 }) {
			uri, val, _ := bytes.Cut(line, []byte{0})
			ev := tube.Event{Kind: tube.Kind(len(line) % 4), URI: uri, Name: string(uri), Value: val}
			_, _ = tb.Send(ev)
			_, _ = tb.Send(tube.Event{Kind: tube.Set, URI: uri, Value: val})
			if rng.IntN(2) == 0 {
				follow(t, r, e, m)
			}
		}
		_ = tb.Close("completed")
		follow(t, r, e, m)
		if !m.Done {
			t.Error("no end")
		}
		want, _ := tb.Snapshot(false)
		document, err := m.Document()
		if err != nil {
			t.Fatal(err)
		}
		same(t, "document", string(want), document)
	})
}
