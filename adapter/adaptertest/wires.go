package adaptertest

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// OpenAI is the wire of chat completions, Azure's too.
var OpenAI = Wire{
	ContentType: "text/event-stream",
	Open:        `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n",
	Text: func(text string) string {
		return `data: {"choices":[{"index":0,"delta":{"content":` + quote(text) + `},"finish_reason":null}]}` + "\n\n"
	},
	Reasoning: func(text string) string {
		return `data: {"choices":[{"index":0,"delta":{"reasoning_content":` + quote(text) + `},"finish_reason":null}]}` + "\n\n"
	},
	Finish: `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n",
	Done:   "data: [DONE]\n\n",
	Ping:   ": ping\n\n",
	Error:  `data: {"error":{"message":"overloaded ` + Key + `","type":"server_error"}}` + "\n\n",
}

// Anthropic is the wire of the Messages API.
var Anthropic = Wire{
	ContentType: "text/event-stream",
	Open: "event: message_start\n" +
		`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":2,"output_tokens":1}}}` + "\n\n" +
		"event: content_block_start\n" + `data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}` + "\n\n",
	Text: func(text string) string {
		return anthropicDelta(`1,"delta":{"type":"text_delta","text":` + quote(text))
	},
	Reasoning: func(text string) string {
		return anthropicDelta(`0,"delta":{"type":"thinking_delta","thinking":` + quote(text))
	},
	Finish: "event: message_delta\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}` + "\n\n",
	Done: "event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n",
	Ping: "event: ping\n" + `data: {"type": "ping"}` + "\n\n",
	Error: "event: error\n" +
		`data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded ` + Key + `"},"request_id":null}` + "\n\n",
}

func anthropicDelta(members string) string {
	return "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":` + members + `}}` + "\n\n"
}

// Responses is the wire of OpenAI's Responses.
var Responses = Wire{
	ContentType: "text/event-stream",
	Open: "event: response.created\n" + `data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]},"sequence_number":0}` + "\n\n" +
		"event: response.output_item.added\n" +
		`data: {"type":"response.output_item.added","item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"},"output_index":0,"sequence_number":1}` + "\n\n",
	Text: func(text string) string {
		return "event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","content_index":0,"delta":` + quote(text) +
			`,"item_id":"msg_1","logprobs":[],"output_index":0,"sequence_number":2}` + "\n\n"
	},
	Reasoning: func(text string) string {
		return "event: response.reasoning_text.delta\n" + `data: {"type":"response.reasoning_text.delta","content_index":0,"delta":` + quote(text) +
			`,"item_id":"rs_1","output_index":1,"sequence_number":2}` + "\n\n"
	},
	Finish: "event: response.completed\n" +
		`data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","error":null,"output":[],"usage":{"input_tokens":2,"output_tokens":1,"total_tokens":3}},"sequence_number":3}` + "\n\n",
	Ping:  ": ping\n\n",
	Error: "event: error\n" + `data: {"type":"error","code":"server_error","message":"overloaded ` + Key + `","param":null,"sequence_number":4}` + "\n\n",
}

// Coze is the wire of Coze's chat v3.
var Coze = Wire{
	ContentType: "text/event-stream",
	Open: "event:conversation.chat.created\n" +
		`data:{"id":"740002","conversation_id":"740001","bot_id":"m","status":"created"}` + "\n\n",
	Text:      func(text string) string { return cozeDelta(`"content":` + quote(text)) },
	Reasoning: func(text string) string { return cozeDelta(`"content":"","reasoning_content":` + quote(text)) },
	Finish: "event:conversation.chat.completed\n" +
		`data:{"id":"740002","conversation_id":"740001","bot_id":"m","status":"completed","usage":{"token_count":3,"output_count":1,"input_count":2}}` + "\n\n",
	Done:  "event:done\ndata:\"[DONE]\"\n\n",
	Ping:  ": ping\n\n",
	Error: "event:error\n" + `data:{"code":5000,"msg":"event interval error ` + Key + `"}` + "\n\n",
}

func cozeDelta(members string) string {
	return "event:conversation.message.delta\n" +
		`data:{"id":"740003","conversation_id":"740001","bot_id":"m","role":"assistant","type":"answer",` + members +
		`,"content_type":"text","chat_id":"740002"}` + "\n\n"
}

// Ollama is the wire of Ollama's own chat.
var Ollama = Wire{
	ContentType: "application/x-ndjson",
	Text:        func(text string) string { return ollamaLine(`"content":` + quote(text)) },
	Reasoning:   func(text string) string { return ollamaLine(`"content":"","thinking":` + quote(text)) },
	Finish: `{"model":"m","created_at":"2026-01-02T03:04:05.6Z","message":{"role":"assistant","content":""},` +
		`"done":true,"done_reason":"stop","eval_count":3}` + "\n",
	Ping:  "\n",
	Error: `{"error":"llama runner process has terminated: exit status 2 ` + Key + `"}` + "\n",
}

func ollamaLine(members string) string {
	return `{"model":"m","created_at":"2026-01-02T03:04:05.123456789Z","message":{"role":"assistant",` + members + `},"done":false}` + "\n"
}

// Gemini is the wire of Google's generateContent.
var Gemini = Wire{
	ContentType: "text/event-stream",
	Text:        func(text string) string { return geminiEvent(`{"text": `+quote(text)+`}`, "") },
	Reasoning:   func(text string) string { return geminiEvent(`{"text": `+quote(text)+`,"thought": true}`, "") },
	Finish:      geminiEvent(`{"text": ""}`, `,"finishReason": "STOP"`),
	Ping:        ": ping\r\n\r\n",
	Error:       `data: {"error": {"code": 503,"message": "The model is overloaded. ` + Key + `","status": "UNAVAILABLE"}}` + "\r\n\r\n",
}

func geminiEvent(part, finish string) string {
	return `data: {"candidates": [{"content": {"parts": [` + part + `],"role": "model"}` + finish + `,"index": 0}],` +
		`"usageMetadata": {"promptTokenCount": 2,"candidatesTokenCount": 1,"totalTokenCount": 3},"modelVersion": "m","responseId": "r"}` + "\r\n\r\n"
}

// Bedrock is the wire of Amazon Bedrock's ConverseStream.
var Bedrock = Wire{
	ContentType: "application/vnd.amazon.eventstream",
	Open:        bedrockEvent("messageStart", `"role":"assistant"`),
	Text:        func(text string) string { return bedrockText(quote(text)) },
	Inside:      func(raw string) string { return bedrockText(`"` + raw + `"`) },
	Reasoning: func(text string) string {
		return bedrockEvent("contentBlockDelta", `"contentBlockIndex":0,"delta":{"reasoningContent":{"text":`+quote(text)+`}}`)
	},
	Finish: bedrockEvent("messageStop", `"stopReason":"end_turn"`),
	Done:   bedrockEvent("metadata", `"metrics":{"latencyMs":5},"usage":{"inputTokens":2,"outputTokens":1,"totalTokens":3}`),
	Ping:   string(fakeproviders.AppendFrame(nil, "", "", "")), // no service sends it, but it is one that has to be skipped
	Error:  string(fakeproviders.AppendFrame(nil, "exception", "internalServerException", `{"message":"overloaded `+Key+`"}`)),
}

func bedrockText(quoted string) string {
	payload := `{"contentBlockIndex":0,"delta":{"text":` + quoted + `},"p":"abcdefgh"}` // at once: it may be megabytes
	return string(fakeproviders.AppendFrame(nil, "event", "contentBlockDelta", payload))
}

func bedrockEvent(name, members string) string {
	return string(fakeproviders.AppendFrame(nil, "event", name, "{"+members+`,"p":"abcdefgh"}`))
}

// quote writes text as a JSON string. Characters of HTML stay as they are: what is looked for in a stream is to be seen there.
func quote(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError }) {
		return `"` + text + `"` // without the copies that an encoder makes of megabytes
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(text) // of a string into memory: cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}
