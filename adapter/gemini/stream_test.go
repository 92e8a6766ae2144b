package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// of makes a stream of events, the last of which ends the answer.
func of(events ...string) io.Reader {
	var b strings.Builder
	for _, e := range append(events, `{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}`) {
		b.WriteString("data: " + e + "\r\n\r\n")
	}
	return strings.NewReader(b.String())
}

// parts makes an event with parts.
func parts(all ...string) string {
	return `{"candidates":[{"content":{"parts":[` + strings.Join(all, ",") + `],"role":"model"},"index":0}]}`
}

// all reads everything that a stream yields.
func all(t *testing.T, from io.Reader) (chunks []adapter.Chunk, err error) {
	t.Helper()
	for c, err := range modelAt(t, "gemini-3-flash-preview", stream(from)).Stream(t.Context(), adapter.Request{}) {
		if err != nil {
			return chunks, err
		}
		c.Model = ""
		chunks = append(chunks, c)
	}
	return chunks, nil
}

// MO-01, MO-02: what is signed is a part of its own: it is joined with nothing before or behind it, and an empty part is kept.
func TestSignedPartsAreNotJoined(t *testing.T) {
	_, msg, err := ask(t, stream(of(
		parts(`{"text":"so","thought":true}`), parts(`{"text":" then","thought":true}`), parts(`{"text":"","thought":true,"thoughtSignature":"QQ=="}`),
		parts(`{"text":"a"}`), parts(`{"text":"b"}`), parts(`{"text":"c","thoughtSignature":"Qg=="}`), parts(`{"text":"d"}`),
		parts(`{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"Q1+/"}`, `{"functionCall":{"id":"id2","name":"g","args":{}},"partMetadata":{"k":1}}`),
		parts(`{"executableCode":{"language":"PYTHON","code":"a<b"},"thoughtSignature":"RA=="}`),
		parts(`{"text":"e"}`), parts(`{"thoughtSignature":"RQ=="}`),
	)))
	if err != nil {
		t.Fatal(err)
	}
	sent := sentBy(t, "gemini-3-flash-preview", adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "?"}, msg}}).Contents[1].Parts
	want := `[{"text":"","thought":true,"thoughtSignature":"QQ=="},{"text":"ab"},{"text":"c","thoughtSignature":"Qg=="},{"text":"d"},` +
		`{"functionCall":{"args":{"x":1},"name":"f"},"thoughtSignature":"Q1+/"},{"functionCall":{"args":{},"id":"id2","name":"g"},"partMetadata":{"k":1}},` +
		`{"executableCode":{"code":"a<b","language":"PYTHON"},"thoughtSignature":"RA=="},{"text":"e"},{"text":"","thoughtSignature":"RQ=="}]`
	same(t, "parts", sent, want)
	if msg.Content != "abcde" {
		t.Errorf("text %q", msg.Content)
	}
}

// MO-12: calls come whole, several in an event, without ids or with the same one.
func TestCallsHaveIdsOfTheirOwn(t *testing.T) {
	call := `{"functionCall":{"name":"f","args":{"x":"ü\n"}}}`
	h, msg, err := ask(t, stream(of(parts(call, call), parts(call), parts(`{"functionCall":{"id":"1","name":"g"}}`, `{"functionCall":{"id":"1","name":"g","args":null}}`))))
	if err != nil || h.Finish != adapter.FinishToolCalls || len(msg.ToolCalls) != 5 {
		t.Fatalf("%+v %v", h, err)
	}
	ids := map[string]bool{}
	for i, c := range msg.ToolCalls {
		if ids[c.ID] || c.ID == "" || c.Index != i || i == 4 && c.Arguments != "{}" || i < 3 && c.Arguments != `{"x":"ü\n"}` {
			t.Errorf("%+v", c)
		}
		ids[c.ID] = true
	}
}

// Vertex AI sends a call in pieces only where that was asked for (streamFunctionCallArguments), which we do not do: it is not taken for a whole one.
func TestACallInPiecesIsAnError(t *testing.T) {
	_, _, err := ask(t, stream(of(parts(`{"functionCall":{"name":"f","willContinue":true}}`), parts(`{"functionCall":{}}`))))
	if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeProtocol {
		t.Error(err)
	}
}

// MO-13: counts are cumulative, the last ones hold, and events without them change nothing.
func TestUsageHasAllCounts(t *testing.T) {
	h, _, err := ask(t, stream(of(
		`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":5,"totalTokenCount":5}}`,
		`{"candidates":[{"content":{"parts":[{"text":"b"}]}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3,"totalTokenCount":98,"cachedContentTokenCount":4,`+
			`"thoughtsTokenCount":70,"toolUsePromptTokenCount":20,"promptTokensDetails":[{"modality":"TEXT","tokenCount":3},{"modality":"AUDIO","tokenCount":2}],`+
			`"candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":1}]}}`,
		`{"candidates":[{"content":{"parts":[{"text":"c"}]}}],"usageMetadata":{"trafficType":"ON_DEMAND"}}`,
	)))
	want := adapter.Usage{PromptTokens: 25, CompletionTokens: 73, TotalTokens: 98, CachedTokens: 4, ReasoningTokens: 70, AudioTokens: 3}
	if diff := cmp.Diff(want, h.Usage); diff != "" || err != nil || h.Text != "abc" {
		t.Errorf("%q %v %s", h.Text, err, diff)
	}
}

// MO-13: the counts of the last event that has some are read, whatever comes behind them.
func TestUsageIsThatOfTheLastEventWithCounts(t *testing.T) {
	event := func(text string, n int) string {
		return fmt.Sprintf(`{"candidates": [{"content": {"parts": [{"text": %q}]},"index": 0}],"usageMetadata": {"promptTokenCount": 5,"candidatesTokenCount": %d}}`, text, n)
	}
	for n, rest := range map[string][]string{"10": nil, "11": {event("d", 11)}} {
		h, _, err := ask(t, stream(of(append([]string{event("a", 1), event("b", 9), event(`c\"`, 10)}, rest...)...)))
		if err != nil || fmt.Sprint(h.Usage.CompletionTokens) != n {
			t.Errorf("%+v %v", h.Usage, err)
		}
	}
}

// DH-04: what was counted before an answer broke off is to be paid.
func TestUsageIsCountedOfAnAnswerThatBreaksOff(t *testing.T) {
	cut := `data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2}}` + "\r\n\r\n"
	chunks, err := all(t, strings.NewReader(cut))
	if n := len(chunks); err == nil || n != 2 || chunks[n-1].Usage == nil || chunks[n-1].Usage.TotalTokens != 9 {
		t.Errorf("%+v, %v", chunks, err)
	}
}

// One candidate is read, so one is asked for.
func TestOneCandidateIsAskedFor(t *testing.T) {
	extra := map[string]json.RawMessage{"generationConfig": json.RawMessage(`{"candidateCount":2,"topK":3}`)}
	same(t, "generationConfig", sentBy(t, "m", adapter.Request{Options: adapter.Options{ExtraBody: extra}}).GenerationConfig, `{"topK":3}`)
}

// AD-08, MO-14: each reason has its meaning.
func TestFinishReasons(t *testing.T) {
	for reason, want := range map[string]struct {
		finish string
		code   string
		again  bool
	}{
		"STOP":                    {adapter.FinishStop, "", false},
		"MAX_TOKENS":              {adapter.FinishLength, "", false},
		"SAFETY":                  {adapter.FinishContentFilter, adapter.CodeProtocol, false},
		"RECITATION":              {adapter.FinishContentFilter, adapter.CodeProtocol, false},
		"SPII":                    {adapter.FinishContentFilter, adapter.CodeProtocol, false},
		"IMAGE_SAFETY":            {adapter.FinishContentFilter, adapter.CodeProtocol, false},
		"MALFORMED_FUNCTION_CALL": {"", adapter.CodeProtocol, true},
		"UNEXPECTED_TOOL_CALL":    {"", adapter.CodeProtocol, true},
		"OTHER":                   {"", adapter.CodeProtocol, true},
		"OF_THE_FUTURE":           {"", adapter.CodeProtocol, true},
	} {
		m := modelAt(t, "m", stream(strings.NewReader(`data: {"candidates":[{"finishReason":"`+reason+`","finishMessage":"x"}]}`+"\n\n")))
		var finish string
		var last error
		for c, err := range m.Stream(t.Context(), adapter.Request{}) {
			finish, last = finish+c.Finish, err
		}
		e, _ := errors.AsType[*adapter.Error](last)
		if finish != want.finish || (e == nil) != (want.code == "") || e != nil && (e.Code != want.code || e.Retryable != want.again) {
			t.Errorf("%s: %q %v", reason, finish, last)
		}
	}
	// After text, an end without a reason is an end.
	if h, _, err := ask(t, stream(strings.NewReader(`data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"OTHER"}]}`+"\n\n"))); err != nil || h.Finish != adapter.FinishStop {
		t.Errorf("%+v %v", h, err)
	}
}

// MO-16: a blocked prompt is the filter's error, and nothing is passed on, so that the next model of a chain can be asked.
func TestABlockedPromptIsTheFiltersError(t *testing.T) {
	chunks, err := all(t, strings.NewReader(`data: {"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":3}}`+"\n\n"))
	if e, ok := errors.AsType[*adapter.Error](err); !ok || len(chunks) != 0 || !strings.Contains(e.Message, "content filter") {
		t.Errorf("%v %v", chunks, err)
	}
}

// Models before Gemini 2 say STOP with each piece; and errors after the end are no failure (MO-14).
func TestAnEndWithTextMayBeFollowedByMore(t *testing.T) {
	piece := func(text string) string {
		return `{"candidates":[{"content":{"parts":[{"text":"` + text + `"}]},"finishReason":"STOP"}]}`
	}
	if h, _, err := ask(t, stream(of(piece("a"), piece("b"), piece("c")))); err != nil || h.Text != "abc" || h.Finish != adapter.FinishStop {
		t.Errorf("%+v %v", h, err)
	}
	if h, _, err := ask(t, stream(of(piece("a"), `{"error":{"code":500}}`))); err != nil || h.Text != "a" {
		t.Errorf("%+v %v", h, err)
	}
}

// MO-15: sources have their places in characters, of the whole text, and images are media.
func TestSourcesAndImages(t *testing.T) {
	chunks, err := all(t, of(
		parts(`{"text":"Zürich "}`), parts(`{"text":"is 🙂 nice."}`), parts(`{"inlineData":{"mimeType":"image/png","data":"iVBOR"},"thoughtSignature":"QQ=="}`),
		parts(`{"inlineData":{"mimeType":"image/png","data":"draft"},"thought":true}`),
		`{"candidates":[{"finishReason":"STOP","citationMetadata":{"citations":[{"startIndex":0,"endIndex":7,"uri":"https://q"}]},"groundingMetadata":{"webSearchQueries":["x"],`+
			`"groundingChunks":[{"web":{"uri":"https://a","title":"A"}},{"retrievedContext":{"uri":"gs://b","title":"B","text":"said"}},{"maps":{"uri":"https://c"}}],`+
			`"groundingSupports":[{"segment":{"endIndex":7,"text":"Zürich"},"groundingChunkIndices":[0,1]},{"segment":{"startIndex":11,"endIndex":999},"groundingChunkIndices":[0,7]}]}}]}`,
	))
	if err != nil {
		t.Fatal(err)
	}
	var citations []adapter.Citation
	var media []adapter.Media
	others := 0
	for _, c := range chunks {
		if c.Citation != nil {
			citations = append(citations, *c.Citation)
		}
		if c.Media != nil {
			media = append(media, *c.Media)
		}
		if c.Beside != nil && c.Beside.Type == adapter.PartOther {
			others++
		}
	}
	want := []adapter.Citation{
		{URL: "https://a", Title: "A", End: 6},
		{URL: "gs://b", Title: "B", End: 6, Text: "said"},
		{URL: "https://a", Title: "A", Start: 10, End: 17},
		{URL: "https://c"},
		{URL: "https://q", End: 6},
	}
	if diff := cmp.Diff(want, citations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]adapter.Media{{Type: "image/png", URL: "data:image/png;base64,iVBOR"}}, media); diff != "" || others != 2 {
		t.Errorf("%d other parts %s", others, diff)
	}
}

// Servers that are not asked for an event stream send a list; some send one answer whole.
func TestAnAnswerInOnePiece(t *testing.T) {
	a := `{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}`
	b := `{"candidates":[{"content":{"parts":[{"text":"b"},{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2}}`
	for body, want := range map[string]string{"[" + a + "\n,\r\n" + b + "]": "ab", " " + b: "b"} {
		h, _, err := ask(t, &adaptertest.Answering{Status: 200, Type: "application/json; charset=UTF-8", Body: strings.NewReader(body)})
		if err != nil || h.Text != want || h.Finish != adapter.FinishToolCalls || h.Usage.TotalTokens != 3 {
			t.Errorf("%s: %+v %v", body, h, err)
		}
	}
	for _, body := range []string{"", "[]", "{}", "[" + a + "]", a, `[{"error":{"code":503,"status":"UNAVAILABLE"}}]`, "[" + b, `"x"`, "null"} {
		if _, _, err := ask(t, &adaptertest.Answering{Status: 200, Type: "application/json", Body: strings.NewReader(body)}); err == nil {
			t.Errorf("%s: no error", body)
		}
	}
}

// FT-09: unknown events and members are nothing.
func TestUnknownEventsAndMembersAreNothing(t *testing.T) {
	h, _, err := ask(t, stream(of(
		`{}`, `{"candidates":[]}`, `{"candidates":[{}]}`, `{"candidates":[{"content":{}}]}`, parts(`{}`), parts(`{"thought":true}`), `{"modelStatus":{"a":[1]},"usageMetadata":{"x":{"y":1}}}`,
		`{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model","new":{}},"safetyRatings":[{"category":"X","probabilityScore":0.1}],"tokenCount":1,"urlContextMetadata":{}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"b"}],"role":"model","new":{}},"safetyRatings":[{"category":"X","probabilityScore":0.22}],"tokenCount":1,"urlContextMetadata":{}}]}`,
	)))
	if err != nil || h.Text != "ab" {
		t.Errorf("%+v %v", h, err)
	}
}

// MO-32: all this is the same however it is cut.
func TestPiecesOfBytesGiveTheSame(t *testing.T) {
	events := []string{
		parts(`{"text":"so ü","thought":true}`), parts(`{"text":"a"}`), parts(`{"text":"b\u0027\ud83d"}`), parts(`{"text":"\ude00"}`),
		parts(`{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"QQ=="}`), parts(`{"text":"","thoughtSignature":"Qg=="}`),
	}
	m := func(r io.Reader) string {
		return adaptertest.List(modelAt(t, "m", stream(r)).Stream(t.Context(), adapter.Request{}))
	}
	if diff := cmp.Diff(m(of(events...)), m(iotest.OneByteReader(of(events...)))); diff != "" {
		t.Error(diff)
	}
}

func FuzzStream(f *testing.F) {
	adaptertest.Fuzz(f, subject, []byte("data: "+parts(`{"functionCall":{"name":"f","willContinue":true}}`)+"\n\n"))
}
