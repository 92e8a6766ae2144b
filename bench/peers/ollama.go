package main

import (
	"errors"
	"net/http"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

func ollamaChecks() []check {
	said := func(more ...fakeproviders.Raw) []fakeproviders.Answer {
		return one(fakeproviders.Answer{Raw: append([]fakeproviders.Raw{
			{Bytes: `{"model":"script:8b","created_at":"2026-01-02T03:04:05.6Z","message":{"role":"assistant","content":"The"},"done":false}` + "\n"},
		}, more...)})
	}
	return []check{
		{
			name: "text in pieces", do: "stream", answers: one(answer), want: seen{Text: text, Finish: "stop", Usage: spent},
			asked: func(r fakeproviders.Request) error {
				return differs(fakeproviders.Request{
					Model: "script:8b", Messages: []fakeproviders.Message{{Role: "user", Content: "Why is the sky blue?"}}, Stream: true, Usage: true,
				}, bare(r))
			},
		},
		{name: "text in one piece", do: "whole", answers: one(answer), want: seen{Text: text, Finish: "stop", Usage: spent}},
		{name: "text at a pace", do: "stream", answers: one(fakeproviders.Answer{Tokens: nasty, Pace: 100}), want: seen{Text: text, Finish: "stop", Usage: spent}},
		{name: "an end by length", do: "stream", answers: one(fakeproviders.Answer{Tokens: nasty, Finish: "length"}), want: seen{Text: text, Finish: "length", Usage: spent}},
		{name: "thinking in pieces", do: "stream", answers: one(thoughts), want: seen{Text: text, Reasoning: thoughts.Reasoning, Finish: "stop", Usage: spentThinking}},
		{name: "thinking in one piece", do: "whole", answers: one(thoughts), want: seen{Text: text, Reasoning: thoughts.Reasoning, Finish: "stop", Usage: spentThinking}},
		{
			name: "two tool calls in pieces", do: "stream", answers: one(twoCalls), request: tools,
			want:  seen{Text: "I look", Calls: calls, Finish: "stop", Usage: &usage{5, 11, 16}},
			asked: func(r fakeproviders.Request) error { return differs([]string{"weather", "time"}, r.Tools) },
		},
		{name: "two tool calls in one piece", do: "whole", answers: one(twoCalls), request: tools, want: seen{Text: "I look", Calls: calls, Finish: "stop", Usage: &usage{5, 11, 16}}},
		{
			name: "a JSON Schema", do: "whole", answers: one(fakeproviders.Answer{Tokens: []string{`{"a"`, `:1}`}}),
			request: map[string]any{"format": map[string]any{"type": "object"}},
			want:    seen{Text: `{"a":1}`, Finish: "stop", Usage: &usage{5, 2, 7}},
			asked: func(r fakeproviders.Request) error {
				return errors.Join(differs(true, r.JSON), differs(`{"type":"object"}`, string(r.Schema)), differs(false, r.Stream))
			},
		},
		{name: "the list of models", do: "list", answers: one(answer), want: seen{List: listed}, requests: -1},

		{name: "400", do: "stream", answers: one(refused(400)), want: seen{Error: &thrown{"ResponseError", 400, "bad request"}}},
		{name: "404, a model that was not pulled", do: "stream", answers: one(refused(404)), want: seen{Error: &thrown{"ResponseError", 404, `model "script:8b" not found`}}},
		{name: "429", do: "whole", answers: one(refused(429)), want: seen{Error: &thrown{"ResponseError", 429, "too many requests"}}},
		{name: "500", do: "whole", answers: one(refused(500)), want: seen{Error: &thrown{"ResponseError", 500, "internal server error"}}},
		{
			name: "an error of a gateway that is not JSON", do: "stream", loud: true, // it says that it reads text
			answers: one(fakeproviders.Answer{Status: 502, Body: "<h1>Bad Gateway</h1>", Header: http.Header{"Content-Type": {"text/html"}}}),
			want:    seen{Error: &thrown{"ResponseError", 502, "<h1>"}},
		},
		{
			name: "an error in mid-stream", do: "stream", answers: said(fakeproviders.Raw{Bytes: `{"error":"out of memory"}` + "\n"}),
			want: seen{Text: "The", Error: &thrown{"Error", 0, "out of memory"}},
		},
		{name: "a connection that breaks", do: "stream", answers: said(fakeproviders.Raw{Cut: true}), want: seen{Text: "The", Error: &thrown{"TypeError", 0, "terminated"}}},
		{
			name: "an answer without an end", do: "stream", answers: one(fakeproviders.Answer{Tokens: nasty, Finish: "-"}),
			want: seen{Text: text, Error: &thrown{"Error", 0, "Did not receive done or success response in stream."}},
		},
		{
			name: "rubbish", do: "stream", loud: true, answers: said(fakeproviders.Raw{Bytes: "{oops\n"}),
			want: seen{Text: "The", Error: &thrown{"Error", 0, "Did not receive done"}},
		},
		// Leaving the loop does not close the connection of this client: it wants to be told.
		{name: "aborting", do: "abort", answers: one(endless), canceled: true, want: seen{Text: "blue", Error: &thrown{"DOMException", 0, "aborted"}}},
	}
}
