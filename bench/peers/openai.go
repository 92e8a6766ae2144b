package main

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// The question that all clients ask has 20 characters, which the stand-in counts as 5 tokens.
var (
	answer = fakeproviders.Answer{Tokens: nasty}
	text   = strings.Join(nasty, "")
	spent  = &usage{5, len(nasty), 5 + len(nasty)}

	thoughts = fakeproviders.Answer{Reasoning: "Light is scattered.", Tokens: nasty}
	// The reasoning has 19 characters, 5 tokens.
	spentThinking = &usage{5, 5 + len(nasty), 10 + len(nasty)}

	twoCalls = fakeproviders.Answer{Tokens: []string{"I", " look"}, ToolCalls: []fakeproviders.ToolCall{
		{ID: "call_1", Name: "weather", Arguments: `{"city":"Zürich","days":[1,2]}`}, {ID: "call_2", Name: "time", Arguments: `{}`},
	}}
	calls = []call{{"call_1", "weather", `{"city":"Zürich","days":[1,2]}`}, {"call_2", "time", `{}`}}
	tools = map[string]any{"tools": []any{tool("weather"), tool("time")}}
)

// nasty is text that a parser may stumble over.
var nasty = []string{
	"He said ", `"blue" \ `, "& <b>green</b>\n\tdata: x\r\n\r\n", "é ☀ 🌈 空\u2028\u0001", `\u0041 [DONE]`, " ",
}

func tool(name string) map[string]any {
	return map[string]any{"type": "function", "function": map[string]any{
		"name": name, "description": "looks it up", "parameters": map[string]any{"type": "object", "properties": map[string]any{}},
	}}
}

// endless is an answer that does not end while somebody reads it.
var endless = fakeproviders.Answer{Text: strings.Repeat("blue ", 100_000), Pace: 200}

// refused is an answer with an error status.
func refused(status int, header ...string) fakeproviders.Answer {
	a := fakeproviders.Answer{Status: status, Header: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		a.Header.Set(header[i], header[i+1])
	}
	return a
}

func one(a fakeproviders.Answer) []fakeproviders.Answer { return []fakeproviders.Answer{a} }

func openaiChecks() []check {
	said := func(first string, more ...fakeproviders.Raw) []fakeproviders.Answer {
		frame := `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"` + first +
			`"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
		return one(fakeproviders.Answer{Raw: append([]fakeproviders.Raw{{Bytes: frame}}, more...)})
	}
	return []check{
		{
			name: "text in pieces", do: "stream", answers: one(answer),
			want: seen{Text: text, Finish: "stop", Usage: spent},
			asked: func(r fakeproviders.Request) error {
				return errors.Join(
					differs(fakeproviders.Request{
						Model: "gpt-script", Messages: []fakeproviders.Message{{Role: "user", Content: "Why is the sky blue?"}}, Stream: true, Usage: true,
					}, bare(r)),
					differs("Bearer sk-peer", r.Header.Get("Authorization")),
				)
			},
		},
		{name: "text, joined by the client", do: "helper", answers: one(answer), want: seen{Text: text, Heard: text, Finish: "stop", Usage: spent}},
		{name: "text in one piece", do: "whole", answers: one(answer), want: seen{Text: text, Finish: "stop", Usage: spent}},
		{name: "no text at all", do: "helper", answers: one(fakeproviders.Answer{}), want: seen{Finish: "stop", Usage: &usage{5, 0, 5}}},
		{name: "text at a pace", do: "stream", answers: one(fakeproviders.Answer{Tokens: nasty, Pace: 100, Delay: 50 * time.Millisecond}), want: seen{Text: text, Finish: "stop", Usage: spent}},
		{name: "an end by length", do: "helper", answers: one(fakeproviders.Answer{Tokens: nasty, Finish: "length"}), want: seen{Text: text, Heard: text, Finish: "length", Usage: spent}},
		{name: "reasoning in pieces", do: "stream", answers: one(thoughts), want: seen{Text: text, Reasoning: thoughts.Reasoning, Finish: "stop", Usage: spentThinking}},
		{ // It knows no reasoning: of members that it does not know, it keeps the last.
			name: "reasoning, joined by the client", do: "helper", answers: one(thoughts),
			want: seen{Text: text, Heard: text, Reasoning: "ed.", Finish: "stop", Usage: spentThinking},
		},
		{name: "reasoning in one piece", do: "whole", answers: one(thoughts), want: seen{Text: text, Reasoning: thoughts.Reasoning, Finish: "stop", Usage: spentThinking}},
		{
			name: "two tool calls in pieces", do: "stream", answers: one(twoCalls), request: tools,
			want:  seen{Text: "I look", Calls: calls, Finish: "tool_calls", Usage: &usage{5, 11, 16}},
			asked: func(r fakeproviders.Request) error { return differs([]string{"weather", "time"}, r.Tools) },
		},
		{
			name: "two tool calls, joined by the client", do: "helper", answers: one(twoCalls), request: tools,
			want: seen{Text: "I look", Heard: `I lookweather{"city":"Zürich","days":[1,2]};time{};`, Calls: calls, Finish: "tool_calls", Usage: &usage{5, 11, 16}},
		},
		{name: "two tool calls in one piece", do: "whole", answers: one(twoCalls), request: tools, want: seen{Text: "I look", Calls: calls, Finish: "tool_calls", Usage: &usage{5, 11, 16}}},
		{
			name: "tool calls and nothing else", do: "whole", answers: one(fakeproviders.Answer{ToolCalls: twoCalls.ToolCalls}), request: tools,
			want: seen{Calls: calls, Finish: "tool_calls", Usage: &usage{5, 9, 14}},
		},
		{
			name: "a JSON Schema", do: "stream", answers: one(fakeproviders.Answer{Tokens: []string{`{"a"`, `:1}`}}),
			request: map[string]any{"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{
				"name": "a", "schema": map[string]any{"type": "object"},
			}}},
			want: seen{Text: `{"a":1}`, Finish: "stop", Usage: &usage{5, 2, 7}},
			asked: func(r fakeproviders.Request) error {
				return errors.Join(differs(true, r.JSON), differs(`{"type":"object"}`, string(r.Schema)))
			},
		},
		{
			name: "Azure's addresses", do: "azure", answers: one(answer), want: seen{Text: text, Finish: "stop", Usage: spent},
			asked: func(r fakeproviders.Request) error { return differs("azure-peer", r.Header.Get("Api-Key")) },
		},
		{name: "the list of models", do: "list", answers: one(answer), want: seen{List: listed}, requests: -1},
		{name: "the list of models of Lingserve itself", do: "lingserve", answers: one(answer), want: seen{List: []string{"demo:demo", "demo:fast"}}, requests: -1},
		{name: "an answer of Lingserve itself", do: "completion", answers: one(answer), want: seen{Finish: "stop"}, requests: -1},
		{name: "chunks of Lingserve itself", do: "chunks", answers: one(answer), want: seen{Finish: "stop"}, requests: -1},

		{name: "400", do: "stream", answers: one(refused(400)), want: seen{Error: &thrown{"BadRequestError", 400, "Bad Request"}}},
		{name: "401", do: "stream", answers: one(refused(401)), want: seen{Error: &thrown{"AuthenticationError", 401, "Unauthorized"}}},
		{name: "404", do: "whole", answers: one(refused(404)), want: seen{Error: &thrown{"NotFoundError", 404, "Not Found"}}},
		{
			name: "429, three times over", do: "stream", answers: one(refused(429, "Retry-After-Ms", "1")), requests: 3,
			want: seen{Error: &thrown{"RateLimitError", 429, "Too Many Requests"}},
		},
		{
			name: "500, three times over", do: "whole", answers: one(refused(500, "Retry-After-Ms", "1")), requests: 3,
			want: seen{Error: &thrown{"InternalServerError", 500, "Internal Server Error"}},
		},
		{
			name: "429 and 503, then an answer", do: "stream", requests: 3, want: seen{Text: text, Finish: "stop", Usage: spent},
			answers: []fakeproviders.Answer{refused(429, "Retry-After-Ms", "1"), refused(503, "Retry-After-Ms", "1"), answer},
		},
		{
			name: "an error of a gateway that is not JSON", do: "stream", requests: 3,
			answers: one(fakeproviders.Answer{Status: 502, Body: "<h1>Bad Gateway</h1>", Header: http.Header{"Content-Type": {"text/html"}, "Retry-After-Ms": {"1"}}}),
			want:    seen{Error: &thrown{"InternalServerError", 502, "<h1>"}},
		},
		{
			name: "an error in mid-stream", do: "stream", want: seen{Text: "The", Error: &thrown{"APIError", 0, "overloaded"}},
			answers: said("The", fakeproviders.Raw{Bytes: "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\",\"code\":null,\"param\":null}}\n\n"}),
			// The client reads no further, and closes.
			requests: 1,
		},
		{name: "a connection that breaks", do: "stream", answers: said("The", fakeproviders.Raw{Cut: true}), want: seen{Text: "The", Error: &thrown{"TypeError", 0, "terminated"}}},
		{name: "an answer without an end", do: "stream", answers: one(fakeproviders.Answer{Tokens: nasty, Finish: "-"}), want: seen{Text: text}},
		{
			name: "an answer without an end, joined by the client", do: "helper", answers: one(fakeproviders.Answer{Tokens: nasty, Finish: "-"}),
			want: seen{Heard: text, Error: &thrown{"OpenAIError", 0, "missing finish_reason"}},
		},
		{name: "rubbish", do: "stream", answers: said("The", fakeproviders.Raw{Bytes: "data: {oops\n\n"}), loud: true, want: seen{Text: "The", Error: &thrown{"SyntaxError", 0, ""}}},
		{name: "comments between events", do: "stream", answers: said("The", fakeproviders.Raw{Bytes: ": keep-alive\n\n: keep-alive\n\n"}, fakeproviders.Raw{Bytes: "data: [DONE]\n\n"}), want: seen{Text: "The"}},
		{name: "leaving the loop", do: "leave", answers: one(endless), canceled: true, want: seen{Text: "blue"}},
		{name: "aborting", do: "abort", answers: one(endless), canceled: true, want: seen{Text: "blue"}},
	}
}

// bare is a request without what is looked at apart.
func bare(r fakeproviders.Request) fakeproviders.Request {
	r.Header, r.Body, r.Attempt, r.Path = nil, nil, 0, ""
	return r
}
