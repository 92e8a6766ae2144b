package fakeproviders

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// responses is OpenAI's Responses format. It keeps nothing of an answer, as the API with store false, and refuses what the API refuses, in its
// words: above all a history whose reasoning is not as it was, or not where it was.
type responses struct {
	include  bool // of encrypted reasoning
	sequence int
	output   []string // items that are complete
	item     string   // the type of the one that is open
	said     strings.Builder
}

func (f *responses) kind() string { return "text/event-stream; charset=utf-8" }

// event appends an event; the members are without the braces.
func (f *responses) event(a *writer, kind, members string) {
	a.buf = append(a.buf, "event: "+kind+"\ndata: {\"type\":\""+kind+"\","+members+`,"sequence_number":`...)
	a.buf = strconv.AppendInt(a.buf, int64(f.sequence), 10)
	a.buf = append(a.buf, "}\n\n"...)
	f.sequence++
}

func (f *responses) open(a *writer) {
	f.event(a, "response.created", `"response":`+f.response(a, "in_progress", ""))
	f.event(a, "response.in_progress", `"response":`+f.response(a, "in_progress", ""))
}

// response is the whole of it; more are members of its end.
func (f *responses) response(a *writer, status, more string) string {
	return `{"id":"resp_` + strconv.Itoa(a.req.Attempt) + `","object":"response","created_at":1787150252,"status":"` + status + `","error":null,"model":` +
		quoted(a.req.Model) + `,"output":[` + strings.Join(f.output, ",") + `],"store":false` + more + `}`
}

// at is where a delta belongs.
func (f *responses) at(a *writer) string {
	return `"item_id":"` + f.id(a) + `","output_index":` + strconv.Itoa(len(f.output))
}

func (f *responses) id(a *writer) string {
	prefix := map[string]string{"reasoning": "rs_", "message": "msg_", "function_call": "fc_"}[f.item]
	return prefix + strconv.Itoa(a.req.Attempt) + "_" + strconv.Itoa(len(f.output))
}

func (f *responses) text(a *writer, token string) {
	if f.item != "message" {
		f.end(a)
		f.begin(a, "message", `"status":"in_progress","content":[],"role":"assistant"`)
		f.event(a, "response.content_part.added", `"content_index":0,`+f.at(a)+`,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}`)
	}
	f.said.WriteString(token)
	f.event(a, "response.output_text.delta", `"content_index":0,"delta":`+quoted(token)+`,"logprobs":[],"obfuscation":"VBzVxyJ4bysK",`+f.at(a))
}

func (f *responses) reasoning(a *writer, token string) {
	if f.item != "reasoning" {
		f.end(a)
		f.begin(a, "reasoning", `"summary":[]`)
		f.event(a, "response.reasoning_summary_part.added", `"summary_index":0,`+f.at(a)+`,"part":{"type":"summary_text","text":""}`)
	}
	f.said.WriteString(token)
	f.event(a, "response.reasoning_summary_text.delta", `"summary_index":0,"delta":`+quoted(token)+`,`+f.at(a))
}

func (f *responses) begin(a *writer, kind, members string) {
	f.item = kind
	f.said.Reset()
	f.event(a, "response.output_item.added", `"output_index":`+strconv.Itoa(len(f.output))+`,"item":{"id":"`+f.id(a)+`","type":"`+kind+`",`+members+`}`)
}

// end completes the item that is open.
func (f *responses) end(a *writer) {
	text := quoted(f.said.String())
	switch f.item {
	case "":
		return
	case "message":
		part := `{"type":"output_text","annotations":[],"logprobs":[],"text":` + text + `}`
		f.event(a, "response.output_text.done", `"content_index":0,"logprobs":[],"text":`+text+`,`+f.at(a))
		f.event(a, "response.content_part.done", `"content_index":0,"part":`+part+`,`+f.at(a))
		f.done(a, `"status":"completed","content":[`+part+`],"phase":"final_answer","role":"assistant"`)
	case "reasoning":
		part := `{"type":"summary_text","text":` + text + `}`
		f.event(a, "response.reasoning_summary_text.done", `"summary_index":0,"text":`+text+`,`+f.at(a))
		f.event(a, "response.reasoning_summary_part.done", `"summary_index":0,"part":`+part+`,`+f.at(a))
		f.done(a, `"content":[],"summary":[`+part+`]`+f.encrypted(f.said.String()))
	}
}

func (f *responses) done(a *writer, members string) {
	item := `{"id":"` + f.id(a) + `","type":"` + f.item + `",` + members + `}`
	f.event(a, "response.output_item.done", `"output_index":`+strconv.Itoa(len(f.output))+`,"item":`+item)
	f.output, f.item = append(f.output, item), ""
}

// encrypted is the member that only the server can read: here, what proves that the summary is the one that was sent.
func (f *responses) encrypted(summary string) string {
	if !f.include {
		return ""
	}
	return `,"encrypted_content":"` + sealed(summary) + `"`
}

func sealed(summary string) string {
	sum := sha256.Sum256([]byte("sealed " + summary))
	return "gAAAAAB" + hex.EncodeToString(sum[:]) + "/+<&>=" // with characters that encoders like to change
}

// call announces a function call and sends its arguments token by token.
func (f *responses) call(a *writer, _ int, call ToolCall) bool {
	f.end(a)
	members := `"call_id":` + quoted(call.ID) + `,"name":` + quoted(call.Name)
	f.begin(a, "function_call", `"status":"in_progress","arguments":"",`+members)
	for token := range tokens(call.Arguments) {
		if !a.due() {
			return false
		}
		f.event(a, "response.function_call_arguments.delta", `"delta":`+quoted(token)+`,"obfuscation":"B8pZ",`+f.at(a))
		if !a.paced() {
			return false
		}
	}
	f.event(a, "response.function_call_arguments.done", `"arguments":`+quoted(call.Arguments)+`,`+f.at(a))
	f.done(a, `"status":"completed","arguments":`+quoted(call.Arguments)+`,`+members)
	return true
}

// because says how the response ended, and why.
func (f *responses) because(a *writer) (event, response string) {
	prompt, completion := a.used()
	more := fmt.Sprintf(`,"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,`+
		`"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`, prompt, completion, count(a.answer.Reasoning), prompt+completion)
	reason := ""
	switch a.finish() {
	case "length":
		reason = "max_output_tokens"
	case "content_filter":
		reason = "content_filter"
	default:
		return "response.completed", f.response(a, "completed", `,"incomplete_details":null`+more)
	}
	return "response.incomplete", f.response(a, "incomplete", `,"incomplete_details":{"reason":"`+reason+`"}`+more)
}

func (f *responses) close(a *writer) {
	f.end(a)
	event, response := f.because(a)
	f.event(a, event, `"response":`+response)
}

// refuse answers with an error object as OpenAI sends it, unless there is a body.
func (f *responses) refuse(w http.ResponseWriter, status int, body string) {
	new(openai).refuse(w, status, body)
}

// said makes a refusal in the provider's words.
func said(param, code, message string, args ...any) error {
	object, _ := json.Marshal(map[string]any{"error": map[string]any{ // of strings: cannot fail
		"message": fmt.Sprintf(message, args...), "type": "invalid_request_error", "param": param, "code": code,
	}})
	return refusal(object)
}

// refusal is the body of an error that a format answers a bad request with.
type refusal string

func (r refusal) Error() string { return string(r) }

// responseMembers are the members that a request may have.
var responseMembers = []string{
	"model", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "include", "max_output_tokens", "temperature", "top_p",
	"service_tier", "prompt_cache_key", "store", "stream", "input", "metadata", "truncation", "user", "max_tool_calls", "background",
}

// itemMembers are, for each type of an item, those that it must have and, behind the bar, those that it may have.
var itemMembers = map[string]string{
	"message":              "role content | type id status phase",
	"reasoning":            "type summary | id encrypted_content content status",
	"function_call":        "type call_id name arguments | id status",
	"function_call_output": "type call_id output | id status",
	"web_search_call":      "type status action | id",
	"file_search_call":     "type id status queries results |",
}

var callName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// read takes what a script may want to know from a request's body, and refuses it where the API would.
func (f *responses) read(_ *http.Request, body []byte) (Request, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return Request{}, err
	}
	for name := range all {
		if !slices.Contains(responseMembers, name) {
			return Request{}, said(name, "unknown_parameter", "Unknown parameter: '%s'.", name)
		}
	}
	var in struct {
		Model        string
		Instructions string
		Input        []map[string]json.RawMessage
		Stream       bool
		Store        *bool
		Include      []string
		Temperature  *float64
		Reasoning    *struct{ Effort, Summary string }
		ToolChoice   json.RawMessage `json:"tool_choice"`
		MaxOutput    *int            `json:"max_output_tokens"`
		CacheKey     string          `json:"prompt_cache_key"`
		Text         struct {
			Format struct {
				Type, Name string
				Schema     json.RawMessage
				Strict     bool
			}
		}
		Tools []struct {
			Type, Name string
			Parameters json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, said("", "invalid_type", "Invalid type: %s", err)
	}
	thinks := !strings.HasPrefix(in.Model, "gpt-4")
	form := in.Text.Format
	switch {
	case in.Store == nil || *in.Store:
		return Request{}, said("store", "invalid_value", "Zero data retention: 'store' must be false.")
	case !thinks && len(in.Include) > 0:
		return Request{}, said("include", "", "Encrypted content is not supported with this model.")
	case !thinks && in.Reasoning != nil && in.Reasoning.Effort != "":
		return Request{}, said("reasoning.effort", "unsupported_parameter", "Unsupported parameter: 'reasoning.effort' is not supported with this model.")
	case !thinks && in.Reasoning != nil:
		return Request{}, said("reasoning.summary", "unsupported_parameter", "Unsupported parameter: 'reasoning.summary' is not supported with this model.")
	case thinks && strings.HasPrefix(in.Model, "gpt-5") && in.Temperature != nil:
		return Request{}, said("temperature", "", "Unsupported parameter: 'temperature' is not supported with this model.")
	case in.MaxOutput != nil && *in.MaxOutput < 16:
		return Request{}, said("max_output_tokens", "integer_below_min_value", "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.")
	case len(in.CacheKey) > 64:
		return Request{}, said("prompt_cache_key", "string_above_max_length", "Invalid 'prompt_cache_key': string too long.")
	case len(in.ToolChoice) > 0 && len(in.Tools) == 0:
		return Request{}, said("tool_choice", "", "Tool choice must be specified with 'tools' parameter.")
	case form.Type == "json_schema" && !callName.MatchString(form.Name):
		return Request{}, said("text.format.name", "invalid_value", "Invalid 'text.format.name': string does not match pattern.")
	case form.Type == "json_object" && !strings.Contains(strings.ToLower(in.Instructions+string(all["input"])), "json"):
		return Request{}, said("input", "", "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.")
	case form.Strict && !strings.Contains(string(form.Schema), `"additionalProperties":false`):
		return Request{}, said("text.format.schema", "invalid_json_schema",
			"Invalid schema for response_format '%s': In context=(), 'additionalProperties' is required to be supplied and to be false.", form.Name)
	}
	f.include = slices.Contains(in.Include, "reasoning.encrypted_content")
	req := Request{Model: in.Model, Stream: in.Stream, Usage: true, JSON: form.Type == "json_object" || form.Type == "json_schema", Schema: form.Schema}
	for i, t := range in.Tools {
		if t.Type == "function" && (!callName.MatchString(t.Name) || len(t.Parameters) == 0) {
			return Request{}, said(fmt.Sprintf("tools[%d].name", i), "invalid_value", "Invalid 'tools[%d].name'.", i)
		}
		if refused := checkParameters(t.Name, t.Parameters); refused != "" {
			return Request{}, said(fmt.Sprintf("tools[%d].parameters", i), "invalid_function_parameters", "%s", refused)
		}
		req.Tools = append(req.Tools, t.Name)
	}
	if in.Instructions != "" {
		req.Messages = append(req.Messages, Message{Role: "system", Content: in.Instructions})
	}
	return req, checkInput(in.Input, &req)
}

// checkInput holds the items of a history to the API's rules, and notes their messages.
func checkInput(items []map[string]json.RawMessage, req *Request) error {
	str := func(raw json.RawMessage) (s string) {
		json.Unmarshal(raw, &s) // another type is an empty string
		return s
	}
	open := map[string]bool{}
	thought := "" // the id of the reasoning before, "?" where it has none
	for i, item := range items {
		kind := str(item["type"])
		if kind == "" && item["role"] != nil {
			kind = "message"
		}
		known, ok := itemMembers[kind]
		if !ok {
			return said(fmt.Sprintf("input[%d].type", i), "invalid_value", "Invalid value: '%s'.", kind)
		}
		must, may, _ := strings.Cut(known, "|")
		for _, name := range strings.Fields(must) {
			if item[name] == nil {
				return said(fmt.Sprintf("input[%d].%s", i, name), "missing_required_parameter", "Missing required parameter: 'input[%d].%s'.", i, name)
			}
		}
		for name := range item {
			if !slices.Contains(strings.Fields(must+may), name) {
				return said(fmt.Sprintf("input[%d].%s", i, name), "unknown_parameter", "Unknown parameter: 'input[%d].%s'.", i, name)
			}
		}
		id, callID := str(item["id"]), str(item["call_id"])
		if kind == "reasoning" {
			if thought != "" {
				return said("input", "", "Item '%s' of type 'reasoning' was provided without its required following item.", thought)
			}
			if item["encrypted_content"] == nil {
				return said("input", "", "Item with id '%s' not found. Items are not persisted when `store` is set to false. "+
					"Try again with `store` set to true, or remove this item from your input.", id)
			}
			var summary []struct{ Text string }
			if json.Unmarshal(item["summary"], &summary) != nil {
				return said(fmt.Sprintf("input[%d].summary", i), "invalid_type", "Invalid type for 'input[%d].summary'.", i)
			}
			all := ""
			for _, s := range summary {
				all += s.Text
			}
			if str(item["encrypted_content"]) != sealed(all) {
				return said("", "invalid_encrypted_content", "The encrypted content could not be verified.")
			}
			if thought = id; id == "" {
				thought = "?"
			}
			continue
		}
		if thought != "" && (kind == "function_call_output" || kind == "message" && str(item["role"]) != "assistant") {
			return said("input", "", "Item '%s' of type 'reasoning' was provided without its required following item.", thought)
		}
		// An id tells which answer an item is of, and so whether there was reasoning before it.
		if answer, at, ok := strings.Cut(strings.TrimLeft(id, "fcmsgw_"), "_"); ok && at == "1" && thought != "rs_"+answer+"_0" && kind != "web_search_call" {
			return said("input", "", "Item '%s' of type '%s' was provided without its required 'reasoning' item: 'rs_%s_0'.", id, kind, answer)
		}
		thought = ""
		switch kind {
		case "message":
			role := str(item["role"])
			if !slices.Contains([]string{"user", "assistant", "system", "developer"}, role) {
				return said(fmt.Sprintf("input[%d].role", i), "invalid_value", "Invalid value: '%s'.", role)
			}
			var parts []struct{ Type string }
			json.Unmarshal(item["content"], &parts) // a string has none
			for _, p := range parts {
				if out := p.Type == "output_text" || p.Type == "refusal"; out != (role == "assistant") {
					return said(fmt.Sprintf("input[%d].content", i), "invalid_value", "Invalid value: '%s'.", p.Type)
				}
			}
			req.Messages = append(req.Messages, Message{Role: role, Content: joined(item["content"])})
		case "function_call":
			if !callName.MatchString(callID) || !callName.MatchString(str(item["name"])) {
				return said(fmt.Sprintf("input[%d].call_id", i), "string_above_max_length", "Invalid 'input[%d].call_id': string too long.", i)
			}
			open[callID] = true
		case "function_call_output":
			if !open[callID] {
				return said("input", "", "No tool call found for function call output with call_id %s.", callID)
			}
			delete(open, callID)
			req.Messages = append(req.Messages, Message{Role: "tool", Content: joined(item["output"])})
		case "web_search_call":
			if id != "" {
				return said("input", "", "Item with id '%s' not found. Items are not persisted when `store` is set to false. "+
					"Try again with `store` set to true, or remove this item from your input.", id)
			}
		}
	}
	if thought != "" {
		return said("input", "", "Item '%s' of type 'reasoning' was provided without its required following item.", thought)
	}
	for id := range open {
		return said("input", "", "No tool output found for function call %s.", id)
	}
	return nil
}
