package main

import (
	"errors"
	"net/http"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

func cozeChecks() []check {
	const bot = "7379462189365198898"
	begins := []string{"conversation.chat.created", "conversation.chat.in_progress"}
	answered := append(begins[:2:2], "conversation.message.delta", "conversation.message.completed", "conversation.chat.completed", "done")
	questions := []string{"And what else?"}
	said := func(more ...fakeproviders.Raw) []fakeproviders.Answer {
		return one(fakeproviders.Answer{Raw: append([]fakeproviders.Raw{{
			Bytes: `event:conversation.message.delta` + "\n" + `data:{"id":"3","conversation_id":"1","bot_id":"` + bot +
				`","role":"assistant","type":"answer","content":"The","content_type":"text","chat_id":"2","section_id":"1","created_at":1}` + "\n\n",
		}}, more...)})
	}
	withStatus200 := fakeproviders.Answer{
		Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}},
		Raw:    []fakeproviders.Raw{{Bytes: `{"code":4100,"msg":"no such token","detail":{"logid":"2026"}}`}},
	}
	return []check{
		{
			name: "text in pieces", do: "stream", answers: one(answer),
			request: map[string]any{"custom_variables": map[string]any{"system_prompt": "Be short.", "tone": "dry"}},
			want:    seen{Text: text, Finish: "completed", Usage: &usage{8, len(nasty), 8 + len(nasty)}, Events: answered, Questions: questions},
			asked: func(r fakeproviders.Request) error {
				return errors.Join(
					differs(fakeproviders.Request{
						Model: bot, Stream: true, Usage: true, Variables: map[string]string{"system_prompt": "Be short.", "tone": "dry"},
						Messages: []fakeproviders.Message{{Role: "system", Content: "Be short."}, {Role: "user", Content: "Why is the sky blue?"}},
					}, bare(r)),
					differs("Bearer pat_peer", r.Header.Get("Authorization")),
				)
			},
		},
		{name: "text at a pace", do: "stream", answers: one(fakeproviders.Answer{Tokens: nasty, Pace: 100}), want: seen{Text: text, Finish: "completed", Usage: spent, Events: answered, Questions: questions}},
		{name: "a chat without a stream", do: "whole", answers: one(answer), want: seen{Finish: "in_progress"}},
		{
			name: "reasoning", do: "stream", answers: one(thoughts),
			want: seen{Text: text, Reasoning: thoughts.Reasoning, Finish: "completed", Usage: spentThinking, Events: answered, Questions: questions},
		},
		{
			name: "calls that Coze makes", do: "stream",
			answers: one(fakeproviders.Answer{Tokens: nasty, ToolCalls: twoCalls.ToolCalls, ToolResults: []string{"sunny", "noon"}}),
			want: seen{
				Text: text, Finish: "completed", Calls: calls, Results: []string{"sunny", "noon"}, Usage: &usage{5, 9 + len(nasty), 14 + len(nasty)},
				Events: append(begins[:2:2], "conversation.message.completed", "conversation.message.delta", "conversation.message.completed", "conversation.chat.completed", "done"), Questions: questions,
			},
		},
		{
			name: "calls that the client makes, and the rest of the answer", do: "outputs", requests: 2,
			answers: []fakeproviders.Answer{{ToolCalls: twoCalls.ToolCalls}, answer},
			want:    seen{Text: text, Wanted: calls, Finish: "completed", Usage: &usage{9, len(nasty), 9 + len(nasty)}, Events: answered, Questions: questions},
			asked: func(r fakeproviders.Request) error {
				return differs([]fakeproviders.Message{{Role: "tool", Content: "weather was called"}, {Role: "tool", Content: "time was called"}}, r.Messages)
			},
		},

		// The client's errors have the status of their class, whatever the answer's was.
		{name: "400", do: "whole", answers: one(refused(400)), want: seen{Error: &thrown{"BadRequestError", 400, "code: 4000, msg: Bad Request, logid: "}}},
		{name: "401", do: "whole", answers: one(refused(401)), want: seen{Error: &thrown{"AuthenticationError", 401, "code: 4100, msg: Unauthorized, logid: "}}},
		{name: "403", do: "whole", answers: one(refused(403)), want: seen{Error: &thrown{"PermissionDeniedError", 403, "code: 4101, msg: Forbidden, logid: "}}},
		{name: "404", do: "whole", answers: one(refused(404)), want: seen{Error: &thrown{"NotFoundError", 404, "code: 4200, msg: Not Found, logid: "}}},
		{name: "429", do: "whole", answers: one(refused(429)), want: seen{Error: &thrown{"RateLimitError", 429, "msg: Too Many Requests, logid: "}}},
		{name: "500", do: "whole", answers: one(refused(500)), want: seen{Error: &thrown{"InternalServerError", 500, "code: 5000, msg: Internal Server Error, logid: "}}},
		// Of the body of an error that comes instead of a stream, the client reads nothing.
		{name: "401 instead of a stream", do: "stream", answers: one(refused(401)), want: seen{Error: &thrown{"AuthenticationError", 401, "logid: "}}},
		{name: "429 instead of a stream", do: "stream", answers: one(refused(429)), want: seen{Error: &thrown{"RateLimitError", 429, "logid: "}}},
		{name: "an error with status 200", do: "whole", answers: one(withStatus200), want: seen{Error: &thrown{"AuthenticationError", 401, "code: 4100, msg: no such token"}}},
		{
			name: "an error with status 200 instead of a stream, which is an event to the client", do: "stream", answers: one(withStatus200),
			want: seen{Events: []string{"error"}, Error: &thrown{"error", 4100, "no such token"}},
		},
		{
			name: "an error in mid-stream", do: "stream", answers: said(fakeproviders.Raw{Bytes: "event:error\ndata:{\"code\":4000,\"msg\":\"no\"}\n\n"}),
			want: seen{Text: "The", Events: []string{"conversation.message.delta", "error"}, Error: &thrown{"error", 4000, "no"}},
		},
		{
			name: "a chat that fails", do: "stream",
			answers: said(fakeproviders.Raw{
				Bytes: `event:conversation.chat.failed` + "\n" + `data:{"id":"2","conversation_id":"1","bot_id":"` + bot +
					`","status":"failed","created_at":1,"failed_at":2,"last_error":{"code":4011,"msg":"no credit"},"usage":{"token_count":0,"output_count":0,"input_count":0}}` +
					"\n\nevent:done\ndata:\"[DONE]\"\n\n",
			}),
			want: seen{
				Text: "The", Finish: "failed", Events: []string{"conversation.message.delta", "conversation.chat.failed", "done"},
				Error: &thrown{"conversation.chat.failed", 4011, "no credit"},
			},
		},
		{name: "a connection that breaks, of which the client says nothing", do: "stream", answers: said(fakeproviders.Raw{Cut: true}), want: seen{Text: "The", Events: []string{"conversation.message.delta"}}},
		{
			name: "rubbish", do: "stream", answers: said(fakeproviders.Raw{Bytes: "event:conversation.message.delta\ndata:{oops\n\n"}),
			want: seen{Text: "The", Events: []string{"conversation.message.delta"}, Error: &thrown{"CozeError", 0, "Could not parse message into JSON"}},
		},
		// Leaving the loop does not close the connection of this client: it wants to be told.
		{name: "canceling and aborting", do: "abort", answers: one(endless), canceled: true, want: seen{Text: "blue", Finish: "canceled"}},
	}
}
