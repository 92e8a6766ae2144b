package responses

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// streamOf answers with events without an "event:" line, as some servers send them.
func streamOf(events ...string) http.RoundTripper {
	return &adaptertest.Answering{Type: "text/event-stream", Body: strings.NewReader("data: " + strings.Join(events, "\n\ndata: ") + "\n\n")}
}

// completed is the event that ends an answer with these items.
func completed(output string) string {
	return `{"type":"response.completed","response":{"status":"completed","output":[` + output + `],"usage":{"input_tokens":7,"output_tokens":5,` +
		`"input_tokens_details":{"cached_tokens":3,"cache_write_tokens":1},"output_tokens_details":{"reasoning_tokens":2}}}}`
}

// What has come is passed on once: in deltas, in what ends a part, in what ends an item, or in the whole response only; whatever a server has for
// ids and places.
func TestNothingIsLostAndNothingDoubled(t *testing.T) {
	const (
		thought = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"x"}`
		message = `{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Hé"},{"type":"output_text","text":"llo"}]}`
		first   = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"look","arguments":"{\"n\":1}"}`
		second  = `{"type":"function_call","id":"fc_2","call_id":"c2","name":"look","arguments":"{}"}`
		all     = thought + "," + message + "," + first + "," + second
	)
	want := adaptertest.Answer{
		Text: "Héllo", Reasoning: "ab", Finish: adapter.FinishToolCalls,
		Calls: []adapter.ToolCall{{ID: "c1", Name: "look", Arguments: `{"n":1}`}, {Index: 1, ID: "c2", Name: "look", Arguments: `{}`}},
		Usage: adapter.Usage{PromptTokens: 7, CompletionTokens: 5, TotalTokens: 12, CachedTokens: 3, CacheWriteTokens: 1, ReasoningTokens: 2},
	}
	done := func(index int, item string) string {
		return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item)
	}
	for name, list := range map[string][]string{
		"in the response only": {completed(all)},
		"in items only":        {done(0, thought), done(1, message), done(2, first), done(3, second), completed("")},
		"in items, and again in the response with other ids": {
			done(0, thought), done(1, message), done(2, first), done(3, second), completed(strings.ReplaceAll(all, `_1"`, `_9"`)),
		},
		"some in items, the rest in the response": {done(0, thought), done(1, message), completed(all)},
		"in what ends parts": {
			`{"type":"response.reasoning_summary_text.done","output_index":0,"summary_index":0,"text":"a"}`,
			`{"type":"response.reasoning_summary_text.done","output_index":0,"summary_index":1,"text":"b"}`,
			`{"type":"response.output_text.done","output_index":1,"content_index":0,"text":"Hé"}`,
			`{"type":"response.output_text.done","output_index":1,"content_index":1,"text":"llo"}`,
			`{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"look","arguments":""}}`,
			`{"type":"response.function_call_arguments.done","output_index":2,"item_id":"fc_1","arguments":"{\"n\":1}"}`,
			completed(all),
		},
		"in deltas, at places counted otherwise, with an id of its own in each": {
			`{"type":"response.output_item.added","output_index":4,"item":{"type":"reasoning","id":"1"}}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":4,"item_id":"2","summary_index":1,"delta":"a"}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":4,"item_id":"3","summary_index":2,"delta":"b"}`,
			`{"type":"response.output_text.delta","output_index":5,"item_id":"4","content_index":1,"delta":"H\u00e9"}`,
			`{"type":"response.output_text.delta","output_index":5,"item_id":"5","content_index":2,"delta":"llo"}`,
			completed(all),
		},
		"in deltas without places": {
			`{"type":"response.output_item.added","item":{"type":"reasoning","id":"rs_1"}}`,
			`{"type":"response.reasoning_text.delta","item_id":"rs_1","delta":"a"}`,
			`{"type":"response.reasoning_text.delta","item_id":"rs_1","delta":"b"}`,
			`{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","delta":"in other words"}`,
			`{"type":"response.output_item.added","item":{"type":"message","id":"msg_1"}}`,
			`{"type":"response.output_text.delta","delta":"Hé"}`,
			`{"type":"response.output_text.delta","delta":"llo"}`,
			`{"type":"response.output_item.added","item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"look"}}`,
			`{"type":"response.output_item.added","item":{"type":"function_call","id":"fc_2","call_id":"c2","name":"look"}}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"{\"n\":"}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_2","delta":"{}"}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"1}"}`,
			completed(all),
		},
		"all at place 0": {
			done(0, thought), done(0, message),
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"look"}}`,
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_2","call_id":"c2","name":"look"}}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc_1","delta":"{\"n\":1}"}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc_2","delta":"{}"}`,
			done(0, first), done(0, second), completed(all),
		},
		"arguments before the name, and as an object": {
			done(0, thought), done(1, message),
			`{"type":"response.function_call_arguments.delta","output_index":2,"item_id":"fc_1","delta":"{\"n\":1}"}`,
			done(2, first), done(3, strings.Replace(second, `"{}"`, `{}`, 1)), completed(""),
		},
		"OpenRouter's names, and what is not known": {
			done(0, thought),
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1"}}`,
			`{"type":"response.content_part.delta","output_index":1,"content_index":0,"delta":"Hé"}`,
			`{"type":"response.content_part.delta","output_index":1,"content_index":1,"delta":"llo"}`,
			`{"type":"response.dream.delta","delta":"zzz","text":5,"item":"?","output_index":"?"}`,
			`{"type":"response.output_text.delta","delta":{"not":"a text"}}`,
			strings.Replace(completed(all), "response.completed", "response.done", 1), "[DONE]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := answerOf(t, modelAt(t, streamOf(list...)), ask("?"))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// MO-14, MO-16: how answers end.
func TestEnds(t *testing.T) {
	hello := `{"type":"response.output_text.delta","output_index":0,"delta":"Hello"}`
	for name, row := range map[string]struct {
		events       []string
		text, finish string
		code         string
		again        bool
	}{
		"a refusal": {
			[]string{
				`{"type":"response.refusal.delta","output_index":0,"delta":"I can"}`, `{"type":"response.refusal.delta","output_index":0,"delta":"not"}`,
				`{"type":"response.refusal.done","output_index":0,"refusal":"I cannot"}`,
				completed(`{"type":"message","content":[{"type":"refusal","refusal":"I cannot"}]}`),
			},
			"I cannot", adapter.FinishRefusal, "", false,
		},
		"a refusal in one piece": {[]string{completed(`{"type":"message","content":[{"type":"refusal","refusal":"no"}]}`)}, "no", adapter.FinishRefusal, "", false},
		"length": {
			[]string{hello, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`},
			"Hello", adapter.FinishLength, "", false,
		},
		"length without a status": {[]string{hello, `{"type":"response.incomplete","response":{"incomplete_details":null}}`}, "Hello", adapter.FinishLength, "", false},
		"a filter": {
			[]string{hello, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`},
			"Hello", adapter.FinishContentFilter, adapter.CodeProtocol, false,
		},
		"[DONE]": {[]string{hello, "[DONE]"}, "Hello", adapter.FinishStop, "", false},
		"failed": {
			[]string{hello, `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow down"}}}`},
			"Hello", "", adapter.CodeRateLimited, true,
		},
		"failed without a reason": {[]string{hello, `{"type":"response.failed","response":{"status":"failed","error":null}}`}, "Hello", "", adapter.CodeUnavailable, true},
		"completed, but failed":   {[]string{`{"type":"response.completed","response":{"status":"failed","error":{"code":"server_error","message":"?"}}}`}, "", "", adapter.CodeUnavailable, true},
		"an error":                {[]string{hello, `{"type":"error","code":"context_length_exceeded","message":"?","param":"input"}`}, "Hello", "", adapter.CodeInvalid, false},
		"an error in an object":   {[]string{hello, `{"type":"error","error":{"type":"server_error","code":"server_error","message":"?"}}`}, "Hello", "", adapter.CodeUnavailable, true},
		"an error after the end":  {[]string{hello, completed(""), `{"type":"error","code":"server_error","message":"?"}`}, "Hello", adapter.FinishStop, "", false},
		"cut off":                 {[]string{hello}, "Hello", "", adapter.CodeProtocol, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := answerOf(t, modelAt(t, streamOf(row.events...)), ask("?"))
			if got.Text != row.text || got.Finish != row.finish {
				t.Errorf("%q, finish %q", got.Text, got.Finish)
			}
			e, _ := errors.AsType[*adapter.Error](err)
			if (e != nil) != (row.code != "") || e != nil && (e.Code != row.code || e.Retryable != row.again) {
				t.Errorf("%+v", err)
			}
		})
	}
	for body, code := range map[string]string{
		`{"object":"response","status":"in_progress","output":[]}`:                                                 adapter.CodeProtocol,
		`{"object":"response","status":"failed","error":{"code":"rate_limit_exceeded","message":"?"},"output":[]}`: adapter.CodeRateLimited,
		`{"error":{"message":"?","type":"server_error"}}`:                                                          adapter.CodeUnavailable,
		`{"choices":[]}`: adapter.CodeProtocol,
		`<html>`:         adapter.CodeProtocol,
	} {
		_, _, err := answerOf(t, modelAt(t, &adaptertest.Answering{Type: "application/json", Body: strings.NewReader(body)}), ask("?"))
		if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != code {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// MO-01, MO-02, MO-15: citations, media, and what the provider wants to have back.
func TestCitationsMediaAndWhatGoesBack(t *testing.T) {
	const (
		cited = `{"type":"url_citation","url":"https://a.test","title":"A","start_index":1,"end_index":3}`
		file  = `{"type":"file_citation","file_id":"f","filename":"b.pdf","index":2}`
		// The text of the message before has two characters.
		message = `{"type":"message","id":"msg_2","status":"completed","role":"assistant","phase":"final_answer","content":[{"type":"output_text","annotations":[` + cited + `,` + file + `],"text":"sky"}]}`
		search  = `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"a<b"}}`
		image   = `{"type":"image_generation_call","id":"ig_1","status":"completed","output_format":"webp","result":"aGk="}`
		thought = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x+/&=="}`
	)
	done := func(item string) string { return `{"type":"response.output_item.done","item":` + item + `}` }
	events := []string{
		done(thought), done(search),
		`{"type":"response.output_text.delta","item_id":"msg_1","delta":"é!"}`,
		done(`{"type":"message","id":"msg_1","role":"assistant","phase":"commentary","content":[{"type":"output_text","annotations":[],"text":"é!"}]}`),
		done(image),
		`{"type":"response.output_text.delta","item_id":"msg_2","delta":"sky"}`,
		`{"type":"response.output_text.annotation.added","item_id":"msg_2","annotation_index":0,"content_index":0,"annotation":` + cited + `}`,
		done(message),
		completed(strings.Join([]string{thought, search, `{"type":"message"}`, image, message}, ",")),
	}
	got, msg, err := answerOf(t, modelAt(t, streamOf(events...)), ask("?"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]adapter.Citation{{URL: "https://a.test", Title: "A", Start: 3, End: 5}, {Title: "b.pdf"}}, got.Citations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]adapter.Media{{Type: "image/webp", URL: "data:image/webp;base64,aGk="}}, got.Media); diff != "" {
		t.Error(diff)
	}
	from := &adaptertest.Answering{Status: 500, Body: http.NoBody}
	answerOf(t, modelAt(t, from), adapter.Request{Messages: []adapter.Message{msg}})
	for _, want := range []string{
		`{"encrypted_content":"x+/&==","summary":[],"type":"reasoning"},{"action":{"type":"search","query":"a<b"},"status":"completed","type":"web_search_call"},` +
			`{"content":"é!","phase":"commentary","role":"assistant"},{"id":"ig_1","output_format":"webp","result":"aGk=","status":"completed","type":"image_generation_call"},` +
			`{"content":[{"type":"output_text","annotations":[` + cited + `,` + file + `],"text":"sky"}],"phase":"final_answer","role":"assistant","type":"message"}]`,
	} {
		if !strings.Contains(string(from.Asked), want) {
			t.Errorf("%s\nexpected\n%s", from.Asked, want)
		}
	}
}

// An answer of more items or parts than any has is refused.
func TestAnAnswerOfTooManyItemsIsRefused(t *testing.T) {
	for _, event := range []string{
		`{"type":"response.output_item.added","output_index":%d,"item":{"type":"message","id":"m%[1]d"}}`,
		`{"type":"response.output_text.delta","output_index":%d,"delta":""}`,
	} {
		var events []string
		for i := range 5000 {
			events = append(events, fmt.Sprintf(event, i))
		}
		_, _, err := answerOf(t, modelAt(t, streamOf(append(events, completed(""))...)), ask("?"))
		if e, ok := errors.AsType[*adapter.Error](err); !ok || e.Code != adapter.CodeProtocol {
			t.Errorf("%s: %v", event, err)
		}
	}
}

// canned is a model whose answer has n tokens.
func canned(t testing.TB, n int) adapter.Model {
	var b bytes.Buffer
	b.WriteString(subject.Wire.Open)
	for i := range n {
		fmt.Fprintf(&b, "event: response.output_text.delta\ndata: "+`{"type":"response.output_text.delta","content_index":0,"delta":"tok%d",`+
			`"item_id":"msg_0252c107a0929a24016a85bfbad03c87d28a3122569b89b6cc","logprobs":[],"obfuscation":"VBzVxyJ4bysK","output_index":1,"sequence_number":%d}`+"\n\n", i%10, i)
	}
	b.WriteString(subject.Wire.Finish)
	return modelAt(t, adaptertest.Canned("text/event-stream", b.Bytes()))
}

// MO-33: the cost of one token, from the connection's buffer to the loop's body.
func BenchmarkStream(b *testing.B) { adaptertest.Measure(b, canned(b, 1000), 1000) }

// MO-33: a delta of text costs its string, and nothing else.
func TestATextDeltaCostsOneAllocation(t *testing.T) {
	adaptertest.OneAllocation(t, func(n int) adapter.Model { return canned(t, n) })
}
