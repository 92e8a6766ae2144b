package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

type beforeModel func(context.Context, *adapter.Request, turn.State) (*Reply, error)

func (f beforeModel) BeforeModel(ctx context.Context, r *adapter.Request, s turn.State) (*Reply, error) {
	return f(ctx, r, s)
}

type afterModel func(context.Context, *Reply, turn.State) error

func (f afterModel) AfterModel(ctx context.Context, r *Reply, s turn.State) error {
	return f(ctx, r, s)
}

type afterTool func(context.Context, *tool.Tool, tool.Call, tool.Result) (tool.Result, error)

func (f afterTool) AfterTool(ctx context.Context, t *tool.Tool, c tool.Call, r tool.Result) (tool.Result, error) {
	return f(ctx, t, c, r)
}

// AG-28: a hook changes the request or answers it, and one that fails changes nothing and stops nobody.
func TestHooksSeeEachModelCall(t *testing.T) {
	answer := beforeModel(func(_ context.Context, r *adapter.Request, _ turn.State) (*Reply, error) {
		if strings.HasSuffix(r.Messages[len(r.Messages)-1].Content, "cached") {
			return &Reply{Text: "from the cache"}, nil
		}
		r.Messages = append(r.Messages, adapter.Message{Role: adapter.User, Content: "be nice"})
		return nil, nil
	})
	fails := beforeModel(func(_ context.Context, r *adapter.Request, _ turn.State) (*Reply, error) {
		r.Messages[0].Content = "changed"
		r.Messages = nil
		return &Reply{Text: "no"}, errBroken
	})
	panics := beforeModel(func(context.Context, *adapter.Request, turn.State) (*Reply, error) { panic("x") })
	shouts := afterModel(func(_ context.Context, r *Reply, s turn.State) error {
		if s[KeySession] != "s" {
			t.Error(s)
		}
		r.Text = strings.ToUpper(r.Text)
		return nil
	})
	drops := afterModel(func(_ context.Context, r *Reply, _ turn.State) error { r.Text = ""; return errBroken })
	w := newWorld(t, newFake(answers("hello")), Options{}, answer, shouts, drops, panics, fails)
	if h := w.say("hi"); h.Output != "hello" { // what was streamed was streamed
		t.Errorf("%q", h.Output)
	}
	r := w.model.requests()[0]
	if n := len(r.Messages); n != 3 || r.Messages[2].Content != "be nice" || r.Messages[0].Content == "changed" {
		t.Errorf("%+v", r.Messages)
	}
	if h := w.say("cached"); h.Output != "from the cache" || len(w.model.requests()) != 1 {
		t.Errorf("%q", h.Output)
	}
	got := strings.Join(w.lines(), "\n")
	if !strings.Contains(got, `assistant: "HELLO"`) || !strings.Contains(got, `assistant: "FROM THE CACHE"`) {
		t.Error(got)
	}
	if before, after := turn.Implementers[BeforeModel](w.f), turn.Implementers[AfterModel](w.f); len(before) != 3 || len(after) != 2 {
		t.Errorf("%v", len(before))
	}
}

// AG-28: the calls that the reader has seen are those that run, whatever a hook makes of its copy.
func TestAHookAfterTheModelDoesNotChangeCalls(t *testing.T) {
	w := newWorld(t, newFake(calls("", `c1:echo:{"text":"a"}`, `c2:echo:{"text":"b"}`), answers("ok")), Options{Tools: setOf(t, echoTool(t))},
		afterModel(func(_ context.Context, r *Reply, _ turn.State) error {
			if len(r.Calls) > 0 {
				r.Calls[0].Name = "other"
				r.Calls = r.Calls[:1]
			}
			return nil
		}))
	w.say("go")
	accepted(t, w.model.requests()[1])
	if got := seen(w.model.requests()[1]); got[2] != `assistant:  →c1:echo{"text":"a"} →c2:echo{"text":"b"}` {
		t.Errorf("%q", got)
	}
}

// AG-28
func TestHooksSeeEachToolCall(t *testing.T) {
	before := func(v Verdict, err error) beforeTool {
		return func(_ context.Context, tl *tool.Tool, c tool.Call) (Verdict, error) {
			if tl.Name != "echo" || string(c.Arguments) == "" {
				return Verdict{}, fmt.Errorf("called with %v %v", tl, c)
			}
			return v, err
		}
	}
	answer := tool.Text("answered")
	for name, test := range map[string]struct {
		plugins []any
		want    string
	}{
		"nothing":                     {[]any{before(Verdict{}, nil)}, `"a"`},
		"other arguments":             {[]any{before(Verdict{Arguments: json.RawMessage(`{"text":"b"}`)}, nil)}, `"b"`},
		"arguments of the wrong type": {[]any{before(Verdict{Arguments: json.RawMessage(`{"text":2}`)}, nil)}, `{"error":{"kind":"invalid_arguments","message":"invalid arguments: /text: expected a string, got a number"}}`},
		"an answer":                   {[]any{before(Verdict{Answer: &answer}, nil)}, `"answered"`},
		"a denial":                    {[]any{before(Verdict{Deny: "not today"}, nil)}, `{"error":{"kind":"denied","message":"not today"}}`},
		"a guard that fails":          {[]any{before(Verdict{}, errBroken)}, `{"error":{"kind":"denied","message":"a check before the call failed"}}`},
		"a guard that panics":         {[]any{beforeTool(func(context.Context, *tool.Tool, tool.Call) (Verdict, error) { panic("x") })}, `{"error":{"kind":"denied","message":"a check before the call failed"}}`},
		"a denial before a change":    {[]any{before(Verdict{Arguments: json.RawMessage(`{"text":"b"}`)}, nil), before(Verdict{Deny: "no"}, nil)}, `{"error":{"kind":"denied","message":"no"}}`},
		"another result": {[]any{afterTool(func(_ context.Context, _ *tool.Tool, _ tool.Call, r tool.Result) (tool.Result, error) {
			return tool.Text(r.Text() + "!"), nil
		}), afterTool(func(context.Context, *tool.Tool, tool.Call, tool.Result) (tool.Result, error) {
			return tool.Text("lost"), errBroken
		}), afterTool(func(context.Context, *tool.Tool, tool.Call, tool.Result) (tool.Result, error) { panic("x") })}, `"a!"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newFake(calls("", `c1:echo:{"text":"a"}`), answers("ok")), Options{Tools: setOf(t, echoTool(t))}, test.plugins...)
			h := w.say("go")
			if got := told(h.events)[2]; got != "result c1="+test.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

// noBlobs is a store that cannot store blobs.
type noBlobs struct{ tape.Store }

func (noBlobs) PutBlob(context.Context, string, []byte) (string, error) {
	return "", errors.New("no space")
}

// AG-29
func TestALargeResultGoesToTheBlobs(t *testing.T) {
	text := strings.Repeat("今天天气很好。", 2000)
	large := tool.Must(tool.New("large", "Says much.", func(_ context.Context, in struct {
		Fail bool `json:"fail,omitempty"`
	},
	) (string, error) {
		if in.Fail {
			return "", errors.New(text)
		}
		return text, nil
	}))
	data := tool.Must(tool.New("data", "Says much in JSON.", func(context.Context, struct{}) (map[string]string, error) {
		return map[string]string{"text": text}, nil
	}))
	type result struct {
		Spilled struct {
			Bytes        int
			Handle, Note string
		}
		Head, Tail string
	}
	spilledBy := func(t *testing.T, w *world, call string) (r result, ok bool) {
		w.model.script = []say{calls("", call), answers("ok")}
		w.model.asked = nil
		h := w.say("go")
		m := w.model.requests()[1].Messages
		content := m[len(m)-1].Content
		for _, e := range h.events {
			for _, r := range e.Results {
				if r.Text() != content {
					t.Errorf("the event has %.100s, the model %.100s", r.Text(), content)
				}
			}
		}
		return r, json.Unmarshal([]byte(content), &r) == nil && r.Head != ""
	}
	t.Run("and the entry has a preview", func(t *testing.T) {
		w := newWorld(t, newFake(), Options{Tools: setOf(t, large, data)})
		r, ok := spilledBy(t, w, "c1:large:{}")
		if !ok || r.Spilled.Bytes != len(text) || r.Spilled.Handle == "" || r.Head+r.Tail == text ||
			utf8.RuneCountInString(r.Head)+utf8.RuneCountInString(r.Tail) != 1200 || !strings.HasPrefix(text, r.Head) || !strings.HasSuffix(text, r.Tail) {
			t.Fatalf("%.200v", r)
		}
		var m tape.Meta
		for _, e := range w.entries() {
			if e.Kind == tape.KindToolResult {
				m = tape.MetaOf(e)
			}
		}
		if len(m.Spill) != 1 || m.Spill[0].Handle != r.Spilled.Handle || m.Spill[0].Size != int64(len(text)) {
			t.Errorf("%+v", m)
		}
		// The model reads all of it, in pages of any size, and none of them is spilled.
		for _, limit := range []int64{0, 5000, maxPage} {
			var all strings.Builder
			for next := int64(0); ; {
				w.model.script = []say{calls("", fmt.Sprintf(`c2:spill_read:{"handle":%q,"offset":%d,"limit":%d}`, r.Spilled.Handle, next, limit)), answers("ok")}
				w.model.asked = nil
				w.say("go")
				m := w.model.requests()[1].Messages
				var p page
				if err := json.Unmarshal([]byte(m[len(m)-1].Content), &p); err != nil || !utf8.ValidString(p.Text) || p.Bytes != int64(len(text)) || p.Offset != next {
					t.Fatalf("%v: %.200s", err, m[len(m)-1].Content)
				}
				all.WriteString(p.Text)
				if next = p.Next; next == 0 {
					break
				}
			}
			if all.String() != text {
				t.Errorf("pages of %d give %d bytes, want %d", limit, all.Len(), len(text))
			}
		}
		if r, ok := spilledBy(t, w, "c1:data:{}"); !ok || !strings.HasPrefix(r.Head, `{"text":"今天`) {
			t.Errorf("JSON: %.200v", r)
		}
		// Errors are cut before they are as large as that.
		if r, ok := spilledBy(t, w, `c1:large:{"fail":true}`); ok && r.Spilled.Handle == "" {
			t.Errorf("%v", r)
		}
	})
	t.Run("and says so where they fail", func(t *testing.T) {
		w := newWorld(t, newFake(), Options{Tools: setOf(t, large), Store: noBlobs{tapetest.NewMemory(nil)}})
		if r, ok := spilledBy(t, w, "c1:large:{}"); !ok || r.Spilled.Handle != "" || !strings.Contains(r.Spilled.Note, "could not be stored") {
			t.Errorf("%.200v", r)
		}
	})
}

// AG-29
func TestBadBoundsOfASpillAreAReadableResult(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{})
	w.say("hi")
	handle, err := w.tape().PutBlob(t.Context(), []byte("aé天\xf0\x9f\x98\x80z\xff"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		handle        string
		offset, limit int64
		want          string
	}{
		{handle, -1, 0, "offset: expected 0 or more, got -1"},
		{handle, 0, -5, "limit: expected 1 to 65536 bytes, got -5"},
		{handle, 0, maxPage + 1, "limit: expected 1 to 65536 bytes, got 65537"},
		{handle, 13, 0, "offset: expected at most 12, which is the end, got 13"},
		{"nothing", 0, 0, `unknown handle "nothing"`},
		{"../../etc/passwd", 0, 0, `unknown handle "../../etc/passwd"`},
	} {
		_, err := readSpill(t.Context(), &run{tape: w.tape()}, spillReadIn{c.handle, c.offset, c.limit})
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Message != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []struct {
		offset, limit int64
		want          page
	}{
		{0, 1, page{"a", 0, 1, 12}},
		{1, 1, page{"é", 1, 3, 12}}, // a whole character, whatever the limit
		{2, 1, page{"é", 1, 3, 12}},
		{3, 4, page{"天", 3, 6, 12}},
		{8, 3, page{"😀", 6, 10, 12}},
		{10, 9, page{"z\uFFFD", 10, 0, 12}},
		{12, 1, page{"", 12, 0, 12}},
	} {
		got, err := readSpill(t.Context(), &run{tape: w.tape()}, spillReadIn{handle, c.offset, c.limit})
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%d, %d: %v %s", c.offset, c.limit, err, diff)
		}
	}
}

// DC-16, AG-29, MO-25: images and files of a result lie in the blobs, are no text for the model, and reach it in a message of the user.
func TestImagesOfAResultFollowItAsTheUsers(t *testing.T) {
	camera := &tool.Tool{Name: "camera", Run: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: json.RawMessage(`"here"`), Parts: []tool.Part{{Type: "image_url", Image: "data:image/png;base64," + strings.Repeat("A", 40_000)}, {Type: "file", File: "data:application/pdf;base64,JVBERg==", Name: "a.pdf"}}}, nil
	}}
	w := newWorld(t, newFake(calls("", "c1:camera:{}"), answers("ok")), Options{Tools: setOf(t, camera)})
	w.say("look")
	m := w.model.requests()[1].Messages
	if got := m[len(m)-2]; got.Content != "here" || got.Parts != nil {
		t.Errorf("%.200v", got)
	}
	if p := m[len(m)-1].Parts; len(p) != 3 || p[0].Text != "Images and files of the tool camera:" || len(p[1].Image) < 40_000 || p[2].File != "data:application/pdf;base64,JVBERg==" || p[2].Name != "a.pdf" {
		t.Errorf("%.300v", p)
	}
	for _, e := range w.entries() {
		if e.Kind == tape.KindToolResult && (len(e.Payload) > 500 || len(tape.MetaOf(e).Spill) != 1) {
			t.Errorf("%.300s %s", e.Payload, e.Meta)
		}
	}
}

// AG-29: media that are stored beside the tape are in the request.
func TestMediaBesideTheTapeAreInTheRequest(t *testing.T) {
	w := newWorld(t, newFake(answers("ok"), answers("ok")), Options{})
	w.say("hi")
	tp := w.tape()
	blob := func(text string) string {
		handle, err := tp.PutBlob(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return tape.BlobURL(handle)
	}
	text := blob("no media")
	if _, err := tp.Append(t.Context(), tape.NewMessage(adapter.User, []turn.Part{
		{Type: "image_url", ImageURL: &turn.PartURL{URL: blob("data:image/png;base64,AAAA")}},
		{Type: "input_audio", InputAudio: &turn.InputAudio{Data: blob("BBBB"), Format: "mp3"}},
		{Type: "image_url", ImageURL: &turn.PartURL{URL: "https://example.com/?" + text}},
		{Type: "image_url", ImageURL: &turn.PartURL{URL: tape.BlobURL("0000")}},
		{Type: "text", Text: text},
	})); err != nil {
		t.Fatal(err)
	}
	w.say("look")
	m := w.model.requests()[1].Messages
	want := []adapter.Part{
		{Type: "image_url", Image: "data:image/png;base64,AAAA"},
		{Type: "file", File: "data:audio/mpeg;base64,BBBB"},
		{Type: "image_url", Image: "https://example.com/?" + text},
		{Type: "text", Text: "[media is not available]"},
		{Type: "text", Text: text},
	}
	if diff := cmp.Diff(want, m[len(m)-2].Parts); diff != "" {
		t.Error(diff)
	}
}

// AG-30
func TestTheModelOfASessionIsASetting(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{Model: "fake:a", Choices: []string{"fake:b"}})
	w.say("hi")
	if h := w.say(",model fake:b"); h.Output != "`fake:b` now answers in this session." {
		t.Errorf("%q", h.Output)
	}
	if h := w.say(",model fake:c"); !strings.Contains(h.Output, "Unknown model") {
		t.Errorf("%q", h.Output)
	}
	w.say("hi")
	w.say(",tape.handoff lunch")
	w.say("hi")
	again := newWorldIn(t, w.dir, w.model, Options{Model: "fake:a", Store: w.store}) // a restart
	again.say("hi")
	if h := again.process(t.Context(), &turn.Envelope{SessionID: "other", Content: "hi"}); h.err != nil {
		t.Error(h.err)
	}
	if diff := cmp.Diff([]string{"fake:a", "fake:b", "fake:b", "fake:b", "fake:a"}, w.model.names); diff != "" {
		t.Error(diff)
	}
}

// AG-31
func TestASubagentWorksInAForkThatIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(
			calls("", `c1:subagent:{"task":"find out","tools":["echo","subagent"]}`),
			calls("I look", `d1:echo:{"text":"42"}`),
			answers("It is 42."),
			answers("Forty-two."),
		), Options{Tools: setOf(t, echoTool(t))})
		h := w.say("what is it?")
		if h.Output != "Forty-two." || h.Usage.TotalTokens != 28 {
			t.Errorf("%q %+v", h.Output, h.Usage)
		}
		if diff := cmp.Diff([]string{
			`call "" c1:subagent{"task":"find out","tools":["echo","subagent"]}`, `result c1="It is 42."`, `event loop.step ok`,
			`assistant: "Forty-two."`, `event loop.step ok`, `event turn.end ok`,
		}, w.lines()[4:]); diff != "" {
			t.Error(diff)
		}
		sub := w.model.requests()[2]
		if len(sub.Tools) != 1 || sub.Tools[0].Name != "echo" {
			t.Errorf("%+v", sub.Tools)
		}
		if diff := cmp.Diff([]string{"system", `assistant: [Anchor created: subagent]: {"owner":"agent"}`, "user: find out", `assistant: I look →d1:echo{"text":"42"}`, "tool: 42 ←d1"}, seen(sub)); diff != "" {
			t.Error(diff)
		}
		n := 0
		for range w.store.Sessions(t.Context(), tape.SessionQuery{}) {
			n++
		}
		if n != 1 {
			t.Errorf("%d sessions", n)
		}
		if got := told(h.events); got[len(got)-1] != `final true "Forty-two." stop` || strings.Contains(strings.Join(got, "\n"), "I look") {
			t.Errorf("%q", got)
		}
	})
}

// AG-31, AG-40: a subagent that asks for approval asks whoever follows the turn.
func TestASubagentAsksThroughItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(
			calls("", `c1:subagent:{"task":"find out"}`), calls("", `d1:echo:{"text":"42"}`), answers("It is 42."), answers("ok"),
		), Options{Tools: setOf(t, echoTool(t, tool.WithApproval(tool.Always)))})
		h := w.asking(t, "go", func(q Question) {
			if err := w.Answer(t.Context(), Answer{Session: "s", ID: q.ID, Approve: true, Remember: true}); err != nil {
				t.Error(err)
			}
		})
		got := strings.Join(told(h.events), "\n")
		if h.err != nil || !strings.Contains(got, `"call":"d1","subagent":"c1","tool":"echo"`) || !strings.Contains(got, `"call":"d1","subagent":"c1","decision":"approve","remember":"session"}`) {
			t.Errorf("%v\n%s", h.err, got)
		}
		if got := strings.Join(w.lines(), "\n"); !strings.Contains(got, "event approval approve") || !strings.Contains(got, "event setting approval.echo") {
			t.Error(got)
		}
	})
}

// AG-31: a subagent that fails is a result, and its time is bounded.
func TestASubagentThatFailsIsAResult(t *testing.T) {
	for name, test := range map[string]struct {
		say  say
		task string
		want string
	}{
		"its model fails":  {fails(downError), "x", "the helper failed: the model's server is down"},
		"its model hangs":  {hangs(), "x", "the tool did not finish within 10m0s"},
		"there is no task": {answers("no"), " ", "task: expected some text"},
		"it goes round":    {calls("", `c:echo:{"text":"x"}`), "x", "the helper failed: the model kept calling tools and did not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := []say{calls("", fmt.Sprintf(`c1:subagent:{"task":%q}`, test.task)), test.say, answers("ok")}
				if name == "it goes round" {
					script = []say{script[0], test.say, test.say, test.say, answers("ok")}
				}
				if name == "there is no task" {
					script = []say{script[0], answers("ok")}
				}
				w := newWorld(t, newFake(script...), Options{Tools: setOf(t, echoTool(t)), MaxSteps: 3})
				begin := time.Now()
				h := w.say("go")
				if took := time.Since(begin); took > subagentTimeout+time.Minute {
					t.Errorf("took %v", took)
				}
				got := strings.Join(told(h.events), "\n")
				if !strings.Contains(got, `result c1={"error":{"kind":`) || !strings.Contains(got, test.want) {
					t.Error(got)
				}
			})
		})
	}
}

// The default tools look at the tape (AG-62).
func TestTheToolsOfTheTape(t *testing.T) {
	w := newWorld(t, newFake(calls("", "c1:tape_info:{}", `c2:tape_search:{"query":"天气"}`, "c3:tape_anchors:{}", `c4:tape_search:{"query":" "}`, `c5:tape_handoff:{"name":"\n","summary":""}`), answers("ok")), Options{})
	h := w.say("今天天气很好")
	got := map[string]string{}
	for _, e := range h.events {
		for _, r := range e.Results {
			got[r.ID] = string(r.Value())
		}
	}
	for id, want := range map[string]string{
		"c1": `{"entries":`, "c2": `[{"id":4,"kind":"message"`, "c3": `[{"id":1,"name":"session/start"`,
		"c4": `{"error":{"kind":"invalid_arguments"`, "c5": `{"error":{"kind":"invalid_arguments"`,
	} {
		if !strings.HasPrefix(got[id], want) && !strings.Contains(got[id], strings.TrimPrefix(want, "[")) {
			t.Errorf("%s: %s", id, got[id])
		}
	}
	tl, _ := w.Tools().Find("tape.info")
	if _, err := tl.Run(t.Context(), tool.Call{Arguments: json.RawMessage("{}")}); err == nil {
		t.Error("outside of a turn")
	}
}

// TA-24: what a search has found is no hit of the next one.
func TestASearchDoesNotFindTheResultsOfSearches(t *testing.T) {
	search := `:tape_search:{"query":"天气"}`
	w := newWorld(t, newFake(calls("", "c1"+search), calls("", "c2"+search), answers("ok")), Options{})
	for _, e := range w.say("今天天气很好").events {
		for _, r := range e.Results {
			if text := string(r.Value()); !strings.Contains(text, "今天天气很好") || strings.Contains(text, "tool_result") {
				t.Errorf("%s: %s", r.ID, text)
			}
		}
	}
}

// AG-26: a result that no entry can hold, of images that are small each, is a result that says so.
func TestAResultThatNoEntryHoldsIsAnError(t *testing.T) {
	image := tool.Part{Type: "image_url", Image: "data:image/png;base64," + strings.Repeat("A", spillBytes-100)}
	huge := &tool.Tool{Name: "huge", Run: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Parts: slices.Repeat([]tool.Part{image}, 2*tape.MaxEntry/spillBytes)}, nil
	}}
	w := newWorld(t, newFake(calls("", "c1:huge:{}"), answers("ok")), Options{Tools: setOf(t, huge)})
	h := w.say("go")
	if got := told(h.events)[2]; got != `result c1={"error":{"kind":"failed","message":"the result is too large to store"}}` {
		t.Errorf("%.200s", got)
	}
}

// AG-22, AG-26: calls that have one id, or none, are told apart, and each has its own result.
func TestCallsWithOneIDHaveTheirOwnResults(t *testing.T) {
	one := func(index int, id, text string) adapter.Chunk {
		return adapter.Chunk{ToolCall: &adapter.ToolCall{Index: index, ID: id, Name: "echo", Arguments: `{"text":"` + text + `"}`}}
	}
	script := chunks(one(0, "same", "a"), one(1, "same", "b"), one(2, "", "c"), one(3, "", "d"), adapter.Chunk{Finish: adapter.FinishToolCalls})
	w := newWorld(t, newFake(script, answers("ok")), Options{Tools: setOf(t, echoTool(t))})
	h := w.say("go")
	asked, got := map[string]string{}, map[string]string{}
	for _, e := range h.events {
		for _, c := range e.Calls {
			asked[c.ID] = string(c.Arguments)
		}
		for _, r := range e.Results {
			got[r.ID] = fmt.Sprintf(`{"text":%s}`, r.Value())
		}
	}
	if diff := cmp.Diff(asked, got); diff != "" || len(got) != 4 {
		t.Errorf("%v\n%s", got, diff)
	}
	accepted(t, w.model.requests()[1])
}

// A provider that runs tools of its own has the calls and the results of these on the tape, and they are not run here.
func TestCallsThatTheProviderMadeAreNotRun(t *testing.T) {
	w := newWorld(t, newFake(chunks(
		adapter.Chunk{ToolCall: &adapter.ToolCall{Index: 0, ID: "p1", Name: "echo", Arguments: `{"text":"x"}`}},
		adapter.Chunk{ToolCall: &adapter.ToolCall{Index: 1, ID: "p2", Name: "echo", Arguments: `{"text":"y"}`}},
		adapter.Chunk{ToolResult: &adapter.ToolResult{Index: 1, ID: "p2", Failed: true}},
		adapter.Chunk{ToolResult: &adapter.ToolResult{Index: 0, ID: "p1", Content: "from the provider"}},
		adapter.Chunk{Text: "Here."}, adapter.Chunk{Finish: adapter.FinishStop},
	), answers("ok")), Options{Tools: setOf(t, echoTool(t))})
	h := w.say("go")
	if diff := cmp.Diff([]string{
		`call p1:echo{"text":"x"}`, `call p2:echo{"text":"y"}`,
		`result p2={"error":{"kind":"failed","message":"a tool of the model's server failed"}}`,
		`result p1="from the provider"`, `text Here.`, `final true "Here." stop`,
	}, told(h.events)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		`call "" p1:echo{"text":"x"} p2:echo{"text":"y"}`,
		`result p1="from the provider" p2={"error":{"kind":"failed","message":"a tool of the model's server failed"}}`,
		`assistant: "Here."`,
	}, w.lines()[4:7]); diff != "" {
		t.Error(diff)
	}
	w.say("and?")
	accepted(t, w.model.requests()[1])
}

// Replies of several steps are paragraphs of one output, however they begin and end.
func TestRepliesOfSeveralStepsAreParagraphs(t *testing.T) {
	for name, row := range map[string]struct{ first, second, want string }{
		"nothing between them":    {"Let me see.", "It is sunny.", "Let me see.\n\nIt is sunny."},
		"a line that has ended":   {"Let me see.\n", "It is sunny.", "Let me see.\n\nIt is sunny."},
		"a paragraph that ended":  {"Let me see.\n\n", "It is sunny.", "Let me see.\n\nIt is sunny."},
		"one that begins so":      {"Let me see.", "\n\nIt is sunny.", "Let me see.\n\nIt is sunny."},
		"half of it on each side": {"Let me see.\n", "\nIt is sunny.", "Let me see.\n\nIt is sunny."},
		"no words before a tool":  {"", "It is sunny.", "It is sunny."},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newFake(calls(row.first, `c1:echo:{"text":"sunny"}`), answers(row.second)), Options{Tools: setOf(t, echoTool(t))})
			if h := w.say("Is it?"); h.Output != row.want {
				t.Errorf("output %q, want %q", h.Output, row.want)
			}
		})
	}
}

// DV-05
func TestATurnWaitsForItsTools(t *testing.T) {
	for _, comes := range []time.Duration{2 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			set := new(tool.Set)
			connected := make(chan struct{})
			time.AfterFunc(comes, func() {
				_ = set.Add(echoTool(t))
				close(connected)
			})
			w := newWorld(t, newFake(answers("ok")), Options{Tools: set, Bare: true, AwaitTools: func(ctx context.Context) []string {
				select {
				case <-connected:
					return nil
				case <-ctx.Done():
					return []string{"github"}
				}
			}})
			begun := time.Now()
			h := w.say("go")
			tools, told := len(w.model.requests()[0].Tools), slices.ContainsFunc(h.events, func(e turn.Event) bool {
				return e.Kind == turn.ErrorEvent && strings.Contains(e.Err.Message, "github")
			})
			if late := comes > toolsWait; time.Since(begun) != min(comes, toolsWait) || (tools == 0) != late || told != late {
				t.Errorf("after %s: %d tools, told %t", time.Since(begun), tools, told)
			}
			<-connected
		})
	}
}

// DV-12: text that turns out to be thoughts is taken out of the answer, on the tape too.
func TestTextThatTurnsOutToBeThoughtsIsReasoning(t *testing.T) {
	thinks := chunks(adapter.Chunk{Text: "They ask."}, adapter.Chunk{Restart: true, Text: "It is sunny."}, adapter.Chunk{Finish: adapter.FinishStop})
	w := newWorld(t, newFake(calls("Let me see.", `c1:echo:{"text":"sunny"}`), thinks, answers("Yes.")), Options{Tools: setOf(t, echoTool(t))})
	if h := w.say("Is it?"); h.Output != "Let me see.\n\nIt is sunny." {
		t.Errorf("output %q", h.Output)
	}
	lines := strings.Join(w.lines(), "\n")
	if !strings.Contains(lines, `They ask.`) || !strings.Contains(lines, `assistant: "It is sunny."`) {
		t.Error(lines)
	}
}

// DV-10: a session that begins without words is called what was sent, not what is known of it.
func TestAMessageWithoutWordsHasATitle(t *testing.T) {
	facts := tape.NewMessage("user", "<message>\nsender: Ann\n</message>")
	for want, e := range map[string]*turn.Envelope{
		"[image] [file]": {Media: []turn.Media{{Type: "image"}, {Type: "image"}, {}}},
		"[message]":      {OwnWords: new(" ")},
		"hi":             {Content: "hi", Media: []turn.Media{{Type: "image"}}},
	} {
		if got := tape.MetaOf(titled(facts, e)).Title; got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
}
