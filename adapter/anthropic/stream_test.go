package anthropic

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
)

// events writes a stream of events, each by its data.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		var e struct{ Type string }
		json.Unmarshal([]byte(d), &e)
		if e.Type != "" {
			b.WriteString("event: " + e.Type + "\n")
		}
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

const (
	started = `{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":10,"output_tokens":1}}}`
	ended   = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`
	stopped = `{"type":"message_stop"}`
)

func blockStart(index, block string) string {
	return `{"type":"content_block_start","index":` + index + `,"content_block":` + block + `}`
}

func blockDelta(index, delta string) string {
	return `{"type":"content_block_delta","index":` + index + `,"delta":` + delta + `}`
}

func blockStop(index string) string { return `{"type":"content_block_stop","index":` + index + `}` }

// MO-10, MO-12, MO-14, MO-30: what Anthropic documents, and what other servers of its wire send.
func TestStreams(t *testing.T) {
	text := blockStart("0", `{"type":"text","text":""}`)
	hi := blockDelta("0", `{"type":"text_delta","text":"hi"}`)
	usage := adapter.Usage{PromptTokens: 35, CompletionTokens: 7, TotalTokens: 42, CachedTokens: 20, CacheWriteTokens: 10}
	begun := adapter.Usage{PromptTokens: 35, CompletionTokens: 1, TotalTokens: 36, CachedTokens: 20, CacheWriteTokens: 10} // DH-04
	plain := []adapter.MadePart(nil)
	for name, row := range map[string]struct {
		stream string
		want   read
		made   []adapter.MadePart
	}{
		"plain": {events(started, `{"type":"ping"}`, text, hi, blockStop("0"), ended, stopped), read{Text: "hi", Usage: usage, Finish: "stop"}, plain},
		"unknown events, members and deltas": {
			events(started, `{"type":"news","x":1}`, text, blockDelta("0", `{"type":"news_delta","text":"x"}`), `{"type":"content_block_delta","x":"y","index":0,"delta":{"text":"hi","type":"text_delta"}}`, ended, stopped),
			read{Text: "hi", Usage: usage, Finish: "stop"},
			plain,
		},
		"no blocks begin": {events(hi, hi, ended, stopped), read{Text: "hihi", Usage: adapter.Usage{CompletionTokens: 7, TotalTokens: 7}, Finish: "stop"}, plain},
		"no index": {
			events(`{"type":"content_block_start","content_block":{"type":"thinking","thinking":"so"}}`, `{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":" on"}}`, `{"type":"content_block_stop"}`,
				`{"type":"content_block_start","content_block":{"type":"text","text":"h"}}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"i"}}`, `{"type":"content_block_stop"}`, ended, stopped),
			read{Text: "hi", Reasoning: "so on", Usage: adapter.Usage{CompletionTokens: 7, TotalTokens: 7}, Finish: "stop"},
			[]adapter.MadePart{{Type: "reasoning", Text: "so on", Data: json.RawMessage("{}")}, {Type: "text", Text: "hi"}},
		},
		"no types of events, members in the order of names": {
			strings.ReplaceAll(events(text, `{"delta":{"text":"h","type":"text_delta"},"index":0,"type":"content_block_delta"}`, `{"delta":{"text":"i","type":"text_delta"},"index":0,"type":"content_block_delta"}`, ended, stopped), "event: content_block_delta\n", ""),
			read{Text: "hi", Usage: adapter.Usage{CompletionTokens: 7, TotalTokens: 7}, Finish: "stop"},
			plain,
		},
		"no end of blocks, and all of a call at once": {
			events(started, blockStart("0", `{"type":"tool_use","id":"a","name":"look","input":{"q":"é"}}`), blockStart("1", `{"type":"tool_use","id":"b","name":"see","input":{}}`), `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}`, stopped),
			read{Calls: []adapter.ToolCall{{ID: "a", Name: "look", Arguments: `{"q":"é"}`}, {Index: 1, ID: "b", Name: "see", Arguments: "{}"}}, Usage: usage, Finish: "tool_calls"},
			plain,
		},
		"a call of one who says end_turn": {
			events(started, blockStart("0", `{"type":"tool_use","id":"a","name":"look","input":{}}`), blockDelta("0", `{"type":"input_json_delta","partial_json":"{}"}`), blockStop("0"), ended, stopped),
			read{Calls: []adapter.ToolCall{{ID: "a", Name: "look", Arguments: "{}"}}, Usage: usage, Finish: "tool_calls"},
			plain,
		},
		"who called": {
			events(started, blockStart("0", `{"type":"tool_use","id":"a","name":"look","input":{},"caller":{"type":"direct"}}`), blockStop("0"), ended, stopped),
			read{Calls: []adapter.ToolCall{{ID: "a", Name: "look", Arguments: "{}"}}, Usage: usage, Finish: "tool_calls"},
			[]adapter.MadePart{{Type: "tool_call", Call: "a", Data: json.RawMessage(`{"caller":{"type":"direct"}}`)}},
		},
		"interleaved thinking": {
			events(started, blockStart("0", `{"type":"thinking","thinking":"","signature":""}`), blockDelta("0", `{"type":"thinking_delta","thinking":"a"}`), blockDelta("0", `{"type":"signature_delta","signature":"s\/1"}`), blockStop("0"),
				blockStart("1", `{"type":"redacted_thinking","data":"x=="}`), blockStop("1"), blockStart("2", `{"type":"tool_use","id":"a","name":"look","input":{}}`), blockStop("2"),
				blockStart("3", `{"type":"thinking","thinking":"","signature":""}`), blockDelta("3", `{"type":"signature_delta","signature":"s2"}`), blockStop("3"), text, hi, blockStop("0"), ended, stopped),
			read{Text: "hi", Reasoning: "a", Calls: []adapter.ToolCall{{ID: "a", Name: "look", Arguments: "{}"}}, Usage: usage, Finish: "tool_calls"},
			[]adapter.MadePart{
				{Type: "reasoning", Text: "a", Data: json.RawMessage(`{"signature":"s\/1"}`)},
				{Type: "other", Data: json.RawMessage(`{"type":"redacted_thinking","data":"x=="}`)},
				{Type: "tool_call", Call: "a"},
				{Type: "reasoning", Data: json.RawMessage(`{"signature":"s2"}`)},
				{Type: "text", Text: "hi"},
			},
		},
		"two texts": {
			events(started, text, hi, blockStop("0"), blockStart("1", `{"type":"text","text":"ho"}`), blockStop("1"), ended, stopped),
			read{Text: "hiho", Usage: usage, Finish: "stop"},
			[]adapter.MadePart{{Type: "text", Text: "hi", Data: json.RawMessage("{}")}, {Type: "text", Text: "ho"}},
		},
		"blocks of other types": {
			events(started, blockStart("0", `{"type":"server_tool_use","id":"s","name":"bash","input":{},"x":[1]}`), blockDelta("0", `{"type":"input_json_delta","partial_json":"{\"a\":"}`), blockDelta("0", `{"type":"input_json_delta","partial_json":"\"\\n<\"}"}`), blockStop("0"),
				blockStart("1", `{"type":"compaction","content":null}`), blockDelta("1", `{"type":"compaction_delta","content":"it "}`), blockDelta("1", `{"type":"compaction_delta","content":"was"}`), blockStop("1"), text, hi, ended, stopped),
			read{Text: "hi", Usage: usage, Finish: "stop"},
			[]adapter.MadePart{{Type: "other", Data: json.RawMessage(`{"type":"server_tool_use","id":"s","name":"bash","input":{"a":"\n<"},"x":[1]}`)}, {Type: "other", Data: json.RawMessage(`{"type":"compaction","content":"it was"}`)}, {Type: "text", Text: "hi"}},
		},
		"members of a block of another type, in the same order each time": {
			events(started, blockStart("1", `{"type":"compaction"}`), blockDelta("1", `{"type":"compaction_delta","d":"4","b":"2","a":"1","c":"3"}`), blockDelta("1", `{"type":"compaction_delta","a":"5"}`), blockStop("1"), text, hi, ended, stopped),
			read{Text: "hi", Usage: usage, Finish: "stop"},
			[]adapter.MadePart{{Type: "other", Data: json.RawMessage(`{"type":"compaction","a":"15","b":"2","c":"3","d":"4"}`)}, {Type: "text", Text: "hi"}},
		},
		"usage in the last event only, and an end without a reason": {
			events(text, hi, `{"type":"message_delta","delta":{},"usage":{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":10,"output_tokens":7,"output_tokens_details":{"thinking_tokens":3}}}`, stopped),
			read{Text: "hi", Usage: adapter.Usage{PromptTokens: 35, CompletionTokens: 7, TotalTokens: 42, CachedTokens: 20, CacheWriteTokens: 10, ReasoningTokens: 3}, Finish: "stop"},
			plain,
		},
		"counts of 0 that were told before": {events(started, text, hi, `{"type":"message_delta","delta":{"stop_reason":"stop_sequence"},"usage":{"input_tokens":0,"output_tokens":7}}`, stopped), read{Text: "hi", Usage: usage, Finish: "stop"}, plain},
		"the limit":                         {events(started, text, hi, strings.Replace(ended, "end_turn", "max_tokens", 1), stopped), read{Text: "hi", Usage: usage, Finish: "length"}, plain},
		"the context":                       {events(started, text, hi, strings.Replace(ended, "end_turn", "model_context_window_exceeded", 1), stopped), read{Text: "hi", Usage: usage, Finish: "length"}, plain},
		"a pause":                           {events(started, text, hi, strings.Replace(ended, "end_turn", "pause_turn", 1), stopped), read{Text: "hi", Usage: usage, Finish: "length"}, plain},
		"a refusal":                         {events(started, text, hi, strings.Replace(ended, "end_turn", "refusal", 1), stopped), read{Text: "hi", Usage: usage, Finish: "refusal"}, plain},
		"a silent refusal":                  {events(started, strings.Replace(ended, `"end_turn"`, `"refusal","stop_details":{"type":"refusal","explanation":"I will not."}`, 1), stopped), read{Text: "I will not.", Usage: usage, Finish: "refusal"}, plain},
		"a filter":                          {events(started, text, hi, strings.Replace(ended, "end_turn", "sensitive", 1), stopped), read{Text: "hi", Usage: usage, Finish: "content_filter", Code: adapter.CodeProtocol}, plain},
		"an error after the end (MO-14)":    {events(started, text, hi, ended, `{"type":"error","error":{"type":"api_error","message":"x"}}`), read{Text: "hi", Usage: usage, Finish: "stop"}, plain},
		"an error":                          {events(started, text, hi, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, hi), read{Text: "hi", Usage: begun, Code: adapter.CodeUnavailable}, plain},
		"arguments of no call":              {events(started, blockDelta("0", `{"type":"input_json_delta","partial_json":"{}"}`), ended, stopped), read{Usage: begun, Code: adapter.CodeProtocol}, plain},
		"a mark of OpenAI's":                {events(text, hi) + "data: [DONE]\n\n", read{Text: "hi", Finish: "stop"}, plain},
	} {
		t.Run(name, func(t *testing.T) {
			got, msg := readOurs(t, "m", streaming(row.stream), adapter.Request{})
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
			var made []adapter.MadePart
			if msg.Made != nil {
				made = msg.Made.Parts
			}
			if diff := cmp.Diff(row.made, made); diff != "" {
				t.Errorf("made:\n%s", diff)
			}
		})
	}
}

// MO-15: a source is of the text of its block.
func TestCitationsHaveTheirPlace(t *testing.T) {
	web := `{"type":"web_search_result_location","url":"https://h/a","title":"A","cited_text":"said","encrypted_index":"x"}`
	stream := events(started, blockStart("0", `{"type":"text","text":"É: "}`), blockStop("0"),
		blockStart("1", `{"type":"text","text":"","citations":[]}`), blockDelta("1", `{"type":"citations_delta","citation":`+web+`}`), blockDelta("1", `{"type":"text_delta","text":"so \ud83d"}`),
		blockDelta("1", `{"type":"text_delta","text":"\ude00"}`), blockDelta("1", `{"type":"citations_delta","citation":{"type":"page_location","cited_text":"p","document_title":"B","document_index":0,"start_page_number":1,"end_page_number":2}}`), blockStop("1"),
		blockStart("2", `{"type":"text","text":"."}`), ended, stopped)
	got, msg := readOurs(t, "claude-haiku-4-5", streaming(stream), adapter.Request{})
	want := []adapter.Citation{{URL: "https://h/a", Title: "A", Text: "said", Start: 3, End: 7}, {Title: "B", Text: "p", Start: 3, End: 7}}
	if diff := cmp.Diff(want, got.Citations); diff != "" {
		t.Error(diff)
	}
	turns, body := sentFor(t, "claude-haiku-4-5", adapter.Request{Messages: []adapter.Message{user("?"), msg}})
	if content := turns[1]["content"].([]any); len(content) != 3 || !strings.Contains(string(body), `{"type":"text","text":"so 😀","citations":[`+web) {
		t.Errorf("%s", body)
	}
}

// MO-16: errors in the middle of an answer have a type in place of a status.
func TestErrorsInMidStreamAreToldByTheirType(t *testing.T) {
	for kind, want := range map[string]struct {
		code  string
		again bool
	}{
		"overloaded_error":      {adapter.CodeUnavailable, true},
		"api_error":             {adapter.CodeUnavailable, true},
		"rate_limit_error":      {adapter.CodeRateLimited, true},
		"timeout_error":         {adapter.CodeTimeout, true},
		"authentication_error":  {adapter.CodeAuth, false},
		"permission_error":      {adapter.CodeAuth, false},
		"billing_error":         {adapter.CodeRateLimited, false},
		"not_found_error":       {adapter.CodeProtocol, false},
		"invalid_request_error": {adapter.CodeProtocol, false},
		"request_too_large":     {adapter.CodeInvalid, false},
		"something_new":         {adapter.CodeProtocol, false},
	} {
		for _, whole := range []bool{false, true} {
			said := `{"type":"error","error":{"type":"` + kind + `","message":"words"},"request_id":"req_1"}`
			from := streaming(events(started, said))
			if whole {
				from = answering("application/json", said)
			}
			m, err := newProvider(t, Options{Transport: from, Key: "k"}).Model("m")
			if err != nil {
				t.Fatal(err)
			}
			for c, err := range m.Stream(t.Context(), adapter.Request{}) {
				if c.Usage != nil && err == nil { // DH-04: what was counted
					continue
				}
				e, ok := errors.AsType[*adapter.Error](err)
				if !ok || e.Code != want.code || e.Retryable != want.again || strings.Contains(e.Message, "words") || !strings.Contains(e.Cause.Error(), "words") {
					t.Errorf("%s: %+v %+v", kind, c, e)
				}
			}
		}
	}
}

// An answer in one piece without a reason for its end is not taken for complete.
func TestAWholeAnswerNeedsAnEnd(t *testing.T) {
	for _, body := range []string{`{"content":[{"type":"text","text":"a"}]}`, `{"content":[],"stop_reason":null}`, `{"content":"a","stop_reason":"end_turn"}`, `{"content":[1],"stop_reason":"end_turn"}`, `{"content":[],"stop_reason":"end_turn"`} {
		got, _ := readOurs(t, "m", answering("application/json", body), adapter.Request{})
		if got.Code != adapter.CodeProtocol || got.Finish != "" || got.Text != "" {
			t.Errorf("%s: %+v", body, got)
		}
	}
}

// What stands beside an answer's text is bounded, as its calls and open blocks are.
func TestWhatIsBesideTheTextIsBounded(t *testing.T) {
	big := strings.Repeat("x", 3<<20)
	for name, data := range map[string]string{
		"signatures": events(append([]string{blockStart("0", `{"type":"thinking"}`)}, repeat(12, blockDelta("0", `{"type":"signature_delta","signature":"`+big+`"}`))...)...),
		"blocks":     events(repeat(12, blockStart("0", `{"type":"other","data":"`+big+`"}`))...),
		"calls":      events(repeat(2000, blockStart("0", `{"type":"tool_use","id":"a","name":"b","input":{}}`))...),
	} {
		got, _ := readOurs(t, "m", streaming(data+events(ended, stopped)), adapter.Request{})
		if got.Code != adapter.CodeProtocol {
			t.Errorf("%s: %q", name, got.Code)
		}
	}
}

func repeat(n int, s string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}
