//go:build nightly

package faults

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/longtest"
)

// Pieces of a stream as a model's server sends them, where it does not matter which one.
var (
	end   = openAI.end()
	piece = openAI.Text
)

// raw makes an answer of bytes as they are.
func raw(steps ...fakeproviders.Raw) fakeproviders.Answer { return fakeproviders.Answer{Raw: steps} }

func bytes_(text string) fakeproviders.Raw { return fakeproviders.Raw{Bytes: text} }

var (
	cut  = fakeproviders.Raw{Cut: true}
	hang = fakeproviders.Raw{Hang: true}
)

// times repeats a step.
func times(n int, r fakeproviders.Raw) []fakeproviders.Raw {
	all := make([]fakeproviders.Raw, n)
	for i := range all {
		all[i] = r
	}
	return all
}

// always answers the same.
func always(a fakeproviders.Answer) func(fakeproviders.Request) fakeproviders.Answer {
	return func(fakeproviders.Request) fakeproviders.Answer { return a }
}

// first answers in turn; the last for good.
func first(answers ...fakeproviders.Answer) func(fakeproviders.Request) fakeproviders.Answer {
	return func(r fakeproviders.Request) fakeproviders.Answer { return answers[min(r.Attempt, len(answers))-1] }
}

// echo is an error answer that tells the key to everyone, as some do.
func echo(status int, header http.Header) fakeproviders.Answer {
	return fakeproviders.Answer{Status: status, Header: header, Body: "<html><h1>" + http.StatusText(status) +
		"</h1>Authorization: Bearer " + canary + " key=" + canary + "</html>"}
}

// long makes an error answer longer than anybody wants to read.
func long(a fakeproviders.Answer) fakeproviders.Answer {
	a.Body += strings.Repeat(" padding", 10_000)
	return a
}

// asked is what the last message of a request says. It is joined with what was said before it and had no answer.
func asked(r fakeproviders.Request) string {
	text := r.Messages[len(r.Messages)-1].Content
	return text[strings.LastIndex("\n\n"+text, "\n\n"):]
}

// modelFault is something that a model's server does, and what a user must see of it, in each framing.
type modelFault struct {
	name  string
	setup setup
	body  string // default: run("text")

	state    string // default "completed"
	doc      string // "": empty, where the run has failed
	code     string // of the first error; "" for none
	says     string // part of its sentence
	status   int    // of the aggregated answer; default 200
	requests int    // exactly, where not 0
	atLeast  time.Duration
	atMost   time.Duration
	logs     string // what the log must have
	canceled int    // answers of the model that must have been left
	left     bool   // a chat, which then is canceled where the provider can do that
	once     bool   // in one framing: it takes its time
}

// modelFaults are those that each provider can have.
func modelFaults(w *provider) []modelFault {
	mega := strings.Repeat("blue", 1<<18)
	if w.like != nil {
		mega = mega[:1<<10]
	}
	heard := 50 * time.Millisecond
	if w == cozeBot {
		heard = time.Second // in which the beginning must have come, since it says there which chat it is
	}
	all := []modelFault{
		{
			name:  "FT-01 the rate is limited twice, and then not",
			setup: setup{script: first(echo(429, nil), echo(429, nil), fakeproviders.Answer{Text: "blue"})},
			doc:   `{"answer":"blue"}`, requests: 3,
		},
		{
			name:  "FT-01 Retry-After is kept to",
			setup: setup{script: first(echo(429, http.Header{"Retry-After-Ms": {"50"}}), fakeproviders.Answer{Text: "blue"})},
			doc:   `{"answer":"blue"}`, requests: 2, atLeast: 50 * time.Millisecond,
		},
		{
			name:  "FT-01 a Retry-After for longer than anyone waits",
			setup: setup{script: always(echo(429, http.Header{"Retry-After": {"3600"}}))},
			state: "failed", code: "upstream_rate_limited", says: "limits the rate", status: 429, requests: 1, logs: "status 429",
		},
		{
			name: "FT-01 the other bots of the run go on",
			setup: setup{script: func(r fakeproviders.Request) fakeproviders.Answer {
				if strings.HasPrefix(asked(r), "left") {
					return echo(429, nil)
				}
				return fakeproviders.Answer{Text: "right"}
			}},
			body:  run("pair"),
			state: "failed", doc: `{"right":"right"}`, code: "upstream_rate_limited", requests: 4,
		},
		{
			name:  "FT-02 500, 503 and HTML, and then an answer",
			setup: setup{script: first(echo(500, nil), echo(503, nil), fakeproviders.Answer{Text: "blue"})},
			doc:   `{"answer":"blue"}`, requests: 3,
		},
		{
			name:  "FT-02 502 and HTML for ever",
			setup: setup{script: always(long(echo(502, http.Header{"Content-Type": {"text/html"}})))},
			state: "failed", code: "upstream_unavailable", says: "failed or is overloaded", status: 502, requests: 3, logs: "status 502",
		},
		{
			name:  "FT-02 HTML with 200",
			setup: setup{script: always(fakeproviders.Answer{Header: http.Header{"Content-Type": {"text/html"}}, Raw: []fakeproviders.Raw{bytes_("<html>" + canary)}})},
			state: "failed", code: "upstream_protocol", says: w.elsewhere, status: 502, requests: 1,
		},
		{
			name:  "bad input: the key is refused",
			setup: setup{script: always(echo(401, nil))},
			state: "failed", code: "upstream_auth", says: w.keyName, status: 502, requests: 1, logs: "status 401",
		},
		{
			name:  "FT-03 nobody listens",
			setup: setup{baseURL: "http://127.0.0.1:1"},
			state: "failed", code: "upstream_unavailable", says: w.absent, status: 502,
		},
		{
			name:  "FT-03, bad input: nothing is ever sent",
			setup: setup{script: always(raw(hang)), limits: adapter.Timeouts{FirstToken: 50 * time.Millisecond}},
			state: "failed", code: "upstream_timeout", says: "sent no token", status: 504, requests: 1, canceled: 1, atMost: 5 * time.Second,
		},
		{
			name:  "FT-03 headers, and then nothing",
			setup: setup{script: always(raw(bytes_(w.Ping+w.Open+w.Ping), hang)), limits: adapter.Timeouts{FirstToken: heard}},
			state: "failed", code: "upstream_timeout", says: "sent no token", status: 504, requests: 1, canceled: 1, atMost: 5 * time.Second, left: true,
		},
		{
			name:  "FT-04 a stall in the middle",
			setup: setup{script: always(raw(bytes_(w.begin("bl")), hang)), limits: adapter.Timeouts{Idle: 70 * time.Millisecond}},
			state: "failed", doc: `{"answer":"bl"}`, code: "upstream_timeout", says: "stopped during its answer", requests: 1, canceled: 1, atMost: 5 * time.Second, left: true,
		},
		{
			name: "FT-04 comments and empty deltas in place of tokens",
			setup: setup{limits: adapter.Timeouts{Idle: 70 * time.Millisecond}, script: always(raw(append([]fakeproviders.Raw{bytes_(w.begin("bl"))},
				times(2000, fakeproviders.Raw{Wait: 10 * time.Millisecond, Bytes: w.Ping + w.Text("")})...)...))},
			state: "failed", doc: `{"answer":"bl"}`, code: "upstream_timeout", says: "stopped during its answer", requests: 1, canceled: 1, atMost: 10 * time.Second, left: true,
		},
		{
			name:  "FT-05 a thousand comments before the first token",
			setup: setup{script: always(raw(append(times(1000, bytes_(w.Ping)), bytes_(w.begin("blue")+w.end()))...))},
			doc:   `{"answer":"blue"}`,
		},
		{
			name: "FT-05 comments for ever",
			setup: setup{
				limits: adapter.Timeouts{FirstToken: 200 * time.Millisecond},
				script: always(raw(times(2000, fakeproviders.Raw{Wait: 10 * time.Millisecond, Bytes: w.Ping})...)),
			},
			state: "failed", code: "upstream_timeout", says: "sent no token", status: 504, requests: 1, canceled: 1, atMost: 10 * time.Second,
		},
		{
			name:  "FT-06 a clean end without a finish",
			setup: setup{script: always(raw(bytes_(w.begin("bl"))))},
			state: "failed", doc: `{"answer":"bl"}`, code: "upstream_protocol", says: "cut off", requests: 1, left: true,
		},
		{
			name:  "FT-06 a clean end at once is tried again, since nothing was passed on",
			setup: setup{script: first(raw(bytes_(w.Ping)), fakeproviders.Answer{Text: "blue"})},
			doc:   `{"answer":"blue"}`, requests: 2,
		},
		{
			name:  "FT-07 a connection that breaks before the first token is tried again",
			setup: setup{script: first(raw(bytes_(w.Open+w.Ping), cut), fakeproviders.Answer{Text: "blue"})},
			doc:   `{"answer":"blue"}`, requests: 2, left: true,
		},
		{
			name: "FT-06 another model is asked where nothing was passed on",
			setup: setup{retries: adapter.Retries{Attempts: 1}, script: func(r fakeproviders.Request) fakeproviders.Answer {
				if r.Model == "a" {
					return raw(bytes_(w.Ping))
				}
				return fakeproviders.Answer{Text: "blue"}
			}},
			body: `{"workflow":"text","input":"q","model":"` + w.model("a") + "," + w.model("b") + `"}`,
			doc:  `{"answer":"blue"}`, requests: 2,
		},
		{
			name: "FT-06 no other model is asked where something was",
			setup: setup{script: func(r fakeproviders.Request) fakeproviders.Answer {
				if r.Model == "a" {
					return raw(bytes_(w.begin("bl")))
				}
				return fakeproviders.Answer{Text: "blue"}
			}},
			body:  `{"workflow":"text","input":"q","model":"` + w.model("a") + "," + w.model("b") + `"}`,
			state: "failed", doc: `{"answer":"bl"}`, code: "upstream_protocol", requests: 1, left: true,
		},
		{
			name:  "FT-07, bad input: cut off in the middle of a chunk",
			setup: setup{script: always(raw(bytes_(w.begin("bl")), bytes_(w.Text("ue")[:20]), cut))},
			state: "failed", doc: `{"answer":"bl"}`, code: "upstream_protocol", says: "cut off", requests: 1, left: true,
		},
		{
			name:  "FT-07 JSON that was cut off keeps what it has",
			setup: setup{script: always(raw(bytes_(w.begin(`{"a":[1,{"b":"bl`)), cut))},
			body:  run("json"),
			state: "failed", doc: `{"doc":{"a":[1,{"b":"bl"}]}}`, code: "upstream_protocol", requests: 1, left: true,
		},
		{
			name:  "FT-08 [DONE] has no end, but there was a finish",
			setup: setup{script: always(raw(bytes_(w.begin("blue") + w.Finish + w.Done[:len(w.Done)/2])))},
			doc:   `{"answer":"blue"}`,
		},
		{
			name:  "FT-09, bad input: rubbish in the middle",
			setup: setup{script: always(raw(bytes_(w.begin("bl") + w.broken() + w.Text("ue") + w.end())))},
			state: "failed", doc: `{"answer":"bl"}`, code: "upstream_protocol", says: "sent an invalid piece of an answer", requests: 1, logs: "rubbish of", left: true,
		},
		{
			name:  "FT-10, bad input: an error in mid-stream",
			setup: setup{script: always(raw(bytes_(w.begin("bl") + w.Error + w.end())))},
			state: "failed", doc: `{"answer":"bl"}`, code: "upstream_unavailable", requests: 1, logs: w.words,
		},
		{
			name:  "FT-12 an event of a megabyte",
			setup: setup{script: always(raw(bytes_(w.begin(mega) + w.end())))},
			doc:   `{"answer":"` + mega + `"}`, once: true,
		},
		{
			name:  "FT-13 white space for ever after the document",
			setup: setup{script: always(raw(append([]fakeproviders.Raw{bytes_(w.begin(`{"a":1}`))}, times(100_000, bytes_(w.Text("    \n")))...)...))},
			body:  run("json"),
			doc:   `{"doc":{"a":1}}`, canceled: 1, left: true,
		},
		{
			name:  "FT-13 white space for ever inside the document",
			setup: setup{script: always(raw(append([]fakeproviders.Raw{bytes_(w.begin(`{"a":1,`))}, times(100_000, bytes_(w.Text("    \n")))...)...))},
			body:  run("json"),
			doc:   `{"doc":{"a":1}}`, canceled: 1, left: true,
		},
		{
			name:  "FT-14 a fence, prose and a key that comes twice",
			setup: setup{script: always(fakeproviders.Answer{Text: "Here it is:\n```json\n{\"a\":1,\"b\":{\"c\":true},\"a\":[2]}\n```\nDone."})},
			body:  run("json"),
			doc:   `{"doc":{"a":[2],"b":{"c":true}}}`,
		},
		{
			name:  "FT-14 a value of another type than was asked for",
			setup: setup{script: always(fakeproviders.Answer{Text: `{"n":"one"}`})},
			body:  run("typed"),
			doc:   `{"doc":{"n":"one"}}`, code: "output_invalid",
		},
		{
			name:  "FT-14 nested too deep",
			setup: setup{script: always(fakeproviders.Answer{Text: strings.Repeat("[", 10_000)})},
			body:  run("json"),
			state: "failed", doc: `{"doc":` + strings.Repeat("[", 512) + strings.Repeat("]", 512) + `}`, code: "output_invalid", says: "depth", left: true,
		},
		{
			name:  "bad input: no JSON at all",
			setup: setup{script: always(fakeproviders.Answer{Text: "I would rather not say."})},
			body:  run("json"),
			state: "failed", code: "output_invalid", says: "no JSON document", status: 200,
		},
	}
	last := modelFault{
		name:  "FT-08 the last line has no end",
		setup: setup{script: always(raw(bytes_(w.begin("bl") + strings.TrimRight(w.Finish, "\r\n"))))},
		state: "failed", doc: `{"answer":"bl"}`, code: "upstream_protocol", says: "cut off", requests: 1, left: true,
	}
	switch w {
	case ollamaRunner: // a line of JSON that is whole needs no end
		last.state, last.code, last.says = "", "", ""
	case bedrockRuntime: // a frame ends with its checksum
		last.setup.script = always(raw(bytes_(w.begin("bl") + w.Finish[:len(w.Finish)-1])))
	}
	all = append(all, last)
	if w != cozeBot { // a chat of Coze's is completed, or it fails
		all = append(all, modelFault{
			name:  "FT-14 the limit of tokens is reached",
			setup: setup{script: always(fakeproviders.Answer{Text: `{"a":[1,"bl`, Finish: "length"})},
			body:  run("json"),
			doc:   `{"doc":{"a":[1,"bl"]}}`, code: "output_invalid", says: "reached its token limit",
		})
	}
	return append(all, w.faults()...)
}

// faults are those that only this provider can have.
func (w *provider) faults() []modelFault {
	switch w {
	case openAI:
		return openAIFaults
	case cozeBot:
		return cozeFaults
	case ollamaRunner:
		return ollamaFaults
	case anthropicAPI:
		return anthropicFaults
	case geminiAPI, vertex:
		return geminiFaults(w)
	case responsesAPI:
		return responsesFaults
	case bedrockRuntime:
		return bedrockFaults
	}
	return nil
}

var openAIFaults = []modelFault{
	{
		name:  "FT-10 an error behind other members",
		setup: setup{script: always(raw(bytes_(piece("bl") + `data: {"id":"1","choices":[],"error":{"message":"died"}}` + "\n\n" + end)))},
		state: "failed", doc: `{"answer":"bl"}`, code: "upstream_protocol", says: "reported an error", requests: 1,
	},
	{
		name:  "FT-10 an error as vLLM has it",
		setup: setup{script: always(raw(bytes_(piece("bl") + `data: {"object":"error","message":"died","code":500}` + "\n\n" + end)))},
		state: "failed", doc: `{"answer":"bl"}`, code: "upstream_unavailable", requests: 1,
	},
	{
		name:  "FT-11 CR LF, event lines, and an event on several lines",
		setup: setup{script: always(raw(bytes_("event: message\r\nid: 1\r\ndata: {\"choices\":[{\"index\":0,\r\ndata: \"delta\":{\"content\":\"blue\"}}]}\r\n\r\n" + end)))},
		doc:   `{"answer":"blue"}`,
	},
}

// chatFailed is how Coze says that a chat has.
func chatFailed(code int) string {
	return fmt.Sprintf("event:conversation.chat.failed\ndata:{\"id\":\"740002\",\"conversation_id\":\"740001\",\"status\":\"failed\","+
		"\"last_error\":{\"code\":%d,\"msg\":\"died with %s\"}}\n\n", code, canary)
}

// coded is an error as Coze mostly sends it: with status 200.
func coded(code int) fakeproviders.Answer {
	return fakeproviders.Answer{
		Header: http.Header{"Content-Type": {"application/json"}, "X-Tt-Logid": {"20260102"}},
		Raw:    []fakeproviders.Raw{bytes_(fmt.Sprintf(`{"code":%d,"msg":"died with %s"}`, code, canary))},
	}
}

var cozeFaults = []modelFault{
	{
		name:  "bad input: the token is refused with status 200",
		setup: setup{script: always(coded(4100))},
		state: "failed", code: "upstream_auth", says: "COZE_API_TOKEN", status: 502, requests: 1, logs: "code 4100, log id 20260102",
	},
	{
		name:  "FT-01 the rate is limited with status 200, and then not",
		setup: setup{script: first(coded(4009), coded(4009), fakeproviders.Answer{Text: "blue"})},
		doc:   `{"answer":"blue"}`, requests: 3,
	},
	{
		name:  "FT-01 there is no credit, which does not change",
		setup: setup{script: always(coded(4011))},
		state: "failed", code: "upstream_rate_limited", says: "no credit", status: 429, requests: 1,
	},
	{
		name:  "an unknown bot",
		setup: setup{script: always(coded(4200))},
		state: "failed", code: "upstream_protocol", says: "does not know this bot", status: 502, requests: 1,
	},
	{
		name:  "a code that nobody knows",
		setup: setup{script: always(coded(4999))},
		state: "failed", code: "upstream_protocol", says: "4999", status: 502, requests: 1, logs: "died with",
	},
	{
		name:  "FT-10 a chat that fails",
		setup: setup{script: always(raw(bytes_(cozeBot.begin("bl") + chatFailed(5000) + cozeBot.Done)))},
		state: "failed", doc: `{"answer":"bl"}`, code: "upstream_unavailable", requests: 1, logs: "died with",
	},
	{
		name:  "FT-10 a chat that fails at once is asked for again",
		setup: setup{script: first(raw(bytes_(cozeBot.Open+chatFailed(4013)+cozeBot.Done)), fakeproviders.Answer{Text: "blue"})},
		doc:   `{"answer":"blue"}`, requests: 2,
	},
	{
		name:  "FT-10 an error in place of an answer",
		setup: setup{script: always(raw(bytes_(cozeBot.Open + "event:error\ndata:{\"code\":4015,\"msg\":\"died\"}\n\n")))},
		state: "failed", code: "upstream_protocol", says: "publish it", status: 502, requests: 1, logs: "died",
	},
	{
		name:  "done before there was an answer",
		setup: setup{retries: adapter.Retries{Attempts: 1}, script: always(raw(bytes_(cozeBot.Open + "event:done\ndata:[DONE]\n\n")))},
		state: "failed", code: "upstream_protocol", says: "cut off", status: 502, requests: 1, left: true,
	},
	{
		name: "tools are asked for after some text, which is an answer",
		setup: setup{script: always(fakeproviders.Answer{
			Text: "I look", ToolCalls: []fakeproviders.ToolCall{{ID: "c1", Name: "rain", Arguments: `{}`}},
		})},
		doc: `{"answer":"I look"}`, code: "output_invalid", says: "called tools that the bot does not have", requests: 1,
	},
	{
		name:  "tools are asked for that the bot does not have",
		setup: setup{script: always(fakeproviders.Answer{ToolCalls: []fakeproviders.ToolCall{{ID: "c1", Name: "rain", Arguments: `{"at":"Rome"}`}}})},
		state: "failed", code: "output_invalid", says: "called tools that the bot does not have", requests: 1,
	},
}

var ollamaFaults = []modelFault{
	{
		name:  "a model that is not pulled",
		setup: setup{script: always(fakeproviders.Answer{Status: 404})},
		state: "failed", code: "upstream_protocol", says: "`ollama pull m`", status: 502, requests: 1, logs: "status 404",
	},
	{
		name:  "a model that is too large",
		setup: setup{script: always(fakeproviders.Answer{Status: 500, Body: "model requires more system memory (9.9 GiB) than died " + canary})},
		state: "failed", code: "upstream_unavailable", says: "not enough memory for the model m", status: 502, requests: 1, logs: "status 500",
	},
	{
		name:  "FT-10 an error in place of an answer is no reason to give up",
		setup: setup{script: first(raw(bytes_(ollamaRunner.Error)), raw(bytes_(ollamaRunner.Error)), fakeproviders.Answer{Text: "blue"})},
		doc:   `{"answer":"blue"}`, requests: 3,
	},
	{
		name:  "FT-11 CR LF, and members of which nobody has heard",
		setup: setup{script: always(raw(bytes_("{\"message\":{\"content\":\"blue\",\"x\":[{}]},\"y\":null}\r\n{\"done\":true}\r\n")))},
		doc:   `{"answer":"blue"}`,
	},
}

var anthropicFaults = []modelFault{
	{
		name:  "FT-10 an error in place of an answer is no reason to give up",
		setup: setup{script: first(raw(bytes_(anthropicAPI.Error)), raw(bytes_(anthropicAPI.Open+anthropicAPI.Error)), fakeproviders.Answer{Text: "blue"})},
		doc:   `{"answer":"blue"}`, requests: 3,
	},
	{
		name: "FT-01 there is no credit, which does not change",
		setup: setup{script: always(fakeproviders.Answer{
			Status: 400, Body: `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low, died ` + canary + `"}}`,
		})},
		state: "failed", code: "upstream_rate_limited", says: "no credit", status: 429, requests: 1, logs: "status 400",
	},
	{
		name:  "FT-01 529 is what Anthropic says when it is overloaded",
		setup: setup{script: first(echo(529, nil), echo(529, nil), fakeproviders.Answer{Text: "blue"})},
		doc:   `{"answer":"blue"}`, requests: 3,
	},
	{
		name:  "FT-11 CR LF, events of which nobody has heard, and no event lines",
		setup: setup{script: always(raw(bytes_("event: news\r\ndata: {\"type\":\"news\",\"x\":[{}]}\r\n\r\n" + strings.ReplaceAll(anthropicAPI.begin("blue")+anthropicAPI.end(), "event: ", ": "))))},
		doc:   `{"answer":"blue"}`,
	},
}

func geminiFaults(w *provider) []modelFault {
	return []modelFault{
		{
			name: "bad input: the key is refused with 400",
			setup: setup{script: always(fakeproviders.Answer{
				Status: 400, Body: `{"error":{"code":400,"message":"API key not valid, died ` + canary + `","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`,
			})},
			state: "failed", code: "upstream_auth", says: w.keyName, status: 502, requests: 1, logs: "status 400",
		},
		{
			name:  "FT-10 an error in place of an answer is no reason to give up",
			setup: setup{script: first(raw(bytes_(w.Error)), raw(bytes_(w.Error)), fakeproviders.Answer{Text: "blue"})},
			doc:   `{"answer":"blue"}`, requests: 3,
		},
		{
			name:  "FT-11 LF, and an event on several lines",
			setup: setup{script: always(raw(bytes_("data: {\"candidates\":[{\"content\":\ndata: {\"parts\":[{\"text\":\"blue\"}]}}],\"x\":[{}]}\n\n" + w.end())))},
			doc:   `{"answer":"blue"}`,
		},
	}
}

var responsesFaults = []modelFault{
	{
		name: "FT-10 an answer that fails",
		setup: setup{script: always(raw(bytes_(responsesAPI.begin("bl") + "event: response.failed\n" +
			`data: {"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"died ` + canary + `"}}}` + "\n\n")))},
		state: "failed", doc: `{"answer":"bl"}`, code: "upstream_unavailable", requests: 1, logs: "died",
	},
	{
		name:  "FT-10 an error in place of an answer is no reason to give up",
		setup: setup{script: first(raw(bytes_(responsesAPI.Error)), raw(bytes_(responsesAPI.Open+responsesAPI.Error)), fakeproviders.Answer{Text: "blue"})},
		doc:   `{"answer":"blue"}`, requests: 3,
	},
	{
		name:  "FT-11 CR LF, events of which nobody has heard, and no event lines",
		setup: setup{script: always(raw(bytes_("event: news\r\ndata: {\"type\":\"news\",\"x\":[{}]}\r\n\r\n" + strings.ReplaceAll(responsesAPI.begin("blue")+responsesAPI.end(), "event: ", ": "))))},
		doc:   `{"answer":"blue"}`,
	},
}

// exception is a message of Bedrock's that ends a stream.
func exception(name string) string {
	return string(fakeproviders.AppendFrame(nil, "exception", name, `{"message":"died with `+canary+`"}`))
}

var bedrockFaults = []modelFault{
	{
		name:  "FT-09 a bit of a frame is wrong, which its checksum shows",
		setup: setup{script: always(raw(bytes_(bedrockRuntime.begin("bl") + strings.Replace(bedrockRuntime.Text("ue"), "ue", "uf", 1) + bedrockRuntime.end())))},
		state: "failed", doc: `{"answer":"bl"}`, code: "upstream_protocol", says: "sent an invalid piece of an answer", requests: 1,
	},
	{
		name:  "FT-10 the rate is limited in mid-stream",
		setup: setup{script: always(raw(bytes_(bedrockRuntime.begin("bl") + exception("throttlingException"))))},
		state: "failed", doc: `{"answer":"bl"}`, code: "upstream_rate_limited", requests: 1, logs: "died",
	},
	{
		name:  "FT-10 an exception in place of an answer is no reason to give up",
		setup: setup{script: first(raw(bytes_(exception("serviceUnavailableException"))), raw(bytes_(bedrockRuntime.Open+bedrockRuntime.Error)), fakeproviders.Answer{Text: "blue"})},
		doc:   `{"answer":"blue"}`, requests: 3,
	},
	{
		name:  "FT-10 an exception of which nobody has heard",
		setup: setup{script: always(raw(bytes_(bedrockRuntime.begin("bl") + exception("newsException"))))},
		state: "failed", doc: `{"answer":"bl"}`, code: "upstream_protocol", requests: 1, logs: "died",
	},
	{
		name:  "FT-11 messages of which nobody has heard",
		setup: setup{script: always(raw(bytes_(string(fakeproviders.AppendFrame(nil, "event", "news", "[]")) + string(fakeproviders.AppendFrame(nil, "news", "", "x")) + bedrockRuntime.begin("blue") + bedrockRuntime.end())))},
		doc:   `{"answer":"blue"}`,
	},
}

func TestWhatAModelsServerDoesWrongIsSeenAndNothingIsLeft(t *testing.T) {
	tried, n := map[string]int{}, 0
	for _, w := range providers {
		for _, f := range modelFaults(w) {
			f.setup.by = w
			all := w.framings()
			switch {
			case f.once:
				all = all[:1]
			case *soakTime == 0: // the next row has the next one: what a row is about does not depend on it
				n++
				all = all[n%len(all):][:1]
			}
			for _, framing := range all {
				id, _, _ := strings.Cut(f.name, " ")
				tried[id]++
				t.Run(w.name+"/"+f.name+"/"+framing, func(t *testing.T) { f.check(t, framing) })
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tried)) {
		saw(t, id, fmt.Sprintf("%d rows of what a model's server does wrong, provider by provider and framing by framing", tried[id]),
			"the answer that is expected in each, nothing of the server's words in it, and no goroutine or connection left")
	}
}

func (f *modelFault) check(t *testing.T, framing string) {
	s := f.setup
	seen := overlooked(&s)
	p := start(t, s)
	body := f.body
	if body == "" {
		body = run("text")
	}
	began := time.Now()
	a := p.ask(framing, body)
	took := time.Since(began)
	p.idle()
	f.compare(t, p, framing, a)
	seen.look(t, p, f.setup.by.words, a)
	if took < f.atLeast {
		t.Errorf("took %v", took)
	}
	if f.atMost > 0 {
		longtest.Within(t, "the answer", took, f.atMost)
	}
	if f.requests > 0 && p.model.Requests() != f.requests {
		t.Errorf("the model was asked %d times, not %d", p.model.Requests(), f.requests)
	}
	if p.model.Canceled() < f.canceled {
		t.Errorf("%d answers of the model were left, not %d", p.model.Canceled(), f.canceled)
	}
	left := 0
	if f.left {
		left = 1
	}
	p.canceledAtCoze(f.setup.by, left)
	if !strings.Contains(p.log.String(), f.logs) {
		t.Errorf("the log does not say %q: %s", f.logs, clip(p.log.String()))
	}
	// What the model's server says is for the log, and not all of it.
	for _, words := range []string{"rubbish", "<h1>", "died", "event interval", f.setup.by.words} {
		if seen := strings.ReplaceAll(p.seen.String(), a.run, ""); strings.Contains(seen, words) { // chance may write a word in an id
			t.Errorf("the words of the model's server are in the answer: %s", clip(seen))
		}
	}
	if n := len(p.log.String()); n > 32<<10 {
		t.Errorf("the log has %d bytes", n)
	}
	// The server is well: the next one is answered as if nothing had been.
	again := p.do("GET", "/v1/runs/"+a.run, "")
	if again.status != 200 || a.problem == nil && again.doc != a.doc {
		t.Errorf("asked for the run again: %v", again)
	}
}

// compare looks at the answer in its framing: all say the same.
func (f *modelFault) compare(t *testing.T, p *product, framing string, a *answer) {
	t.Helper()
	state := f.state
	if state == "" {
		state = "completed"
	}
	status, doc := 200, f.doc
	if framing == "application/json" && f.status != 0 {
		status = f.status
	}
	if doc == "" {
		doc = "{}"
	}
	if a.broken != nil || a.status != status {
		t.Fatalf("want %d: %v", status, a)
	}
	if status != 200 {
		if a.problem == nil || a.problem.Status != status || a.problem.Run == "" || a.problem.Run != a.run {
			t.Fatalf("no problem: %v", a)
		}
		if (status == 429 || status == 503) && a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	} else if a.state != state || a.doc != doc {
		t.Errorf("want %s %s: %v", state, clip(doc), a)
	}
	if a.code() != f.code || !strings.Contains(a.says(), f.says) {
		t.Errorf("want %q that says %q, got %q: %q", f.code, f.says, a.code(), a.says())
	}
	if framing != "application/json" {
		var all fold
		for _, e := range a.events {
			all.take(e) // which looks at their order, and at what comes after the end
		}
		all.check(t)
		last := a.events[len(a.events)-1]
		if a.events[0].name != "started" || last.name != "finished" || last.data != fmt.Sprintf(`{"status":%q}`, state) {
			t.Errorf("the stream begins with %+v and ends with %+v", a.events[0], last)
		}
	}
}
