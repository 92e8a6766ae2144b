package wire

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is what a provider says about a failure, in any of the forms that are in use.
type Report struct {
	Message string
	Kind    string        // types, codes and reasons, in small letters, each behind a space
	Param   string        // the member of the request that is to blame, if we know it
	Status  int           // where the code is an HTTP status
	Retry   time.Duration // how long it asks to wait; 0 where it does not say

	page bool // it is a web page
}

// ReadReport reads the forms of errors that are in use, lists of them, and those of which one is inside another:
//
//	{"error":{message,type,code,param,status}}  OpenAI, and most
//	{"error":{…,"innererror":{code}}}           Azure
//	{"error":{…,"details":[{reason},{violations:[{quotaId}]},{retryDelay}]}}  Google
//	{"error":{…,"metadata":{"raw":"…"}}}        OpenRouter, with what the model's own provider said
//	{"error":"…","code":…}                      Ollama, xAI
//	{"message"|"Message":…,"__type":…}          AWS, Cohere
//	{"object":"error","message":…}              Mistral, vLLM
//	{"detail":"…"|[{"loc","msg","type"}]}       Mistral, and what is made with FastAPI
//	{"base_resp":{status_code,status_msg}}      MiniMax
//	{"type":"response.failed","response":{"error":…}}
//
// Of a web page nothing is read: its words are those of a proxy.
func ReadReport(data []byte) Report {
	var r Report
	data = bytes.TrimSpace(data)
	if r.page = len(data) > 0 && data[0] == '<'; r.page {
		return r
	}
	r.read(data, 4)
	if r.Message == "" && !json.Valid(data) {
		r.Message = string(data)
	}
	if r.Param == "" {
		r.Param = namedIn(r.Message)
	}
	if r.Retry == 0 {
		r.Retry = waitIn(r.Message)
	}
	return r
}

// failure is an error in any of the forms. What differs in its type between them is a json.RawMessage.
type failure struct {
	Error, Response json.RawMessage
	BaseResp        json.RawMessage `json:"base_resp"`

	Message, Msg, Detail json.RawMessage
	StatusMsg            json.RawMessage `json:"status_msg"`

	Code, Status, Type, Reason json.RawMessage
	StatusCode                 json.RawMessage `json:"status_code"`
	ErrorType                  json.RawMessage `json:"error_type"`
	AWSType                    json.RawMessage `json:"__type"`

	Param      string
	Loc        []any // FastAPI's
	InnerError struct{ Code string }
	Details    []struct {
		Reason     string
		RetryDelay string
		Violations []struct{ QuotaID string }
	}
	Metadata struct {
		Raw          json.RawMessage
		FlaggedInput *string `json:"flagged_input"`
	}
}

// read adds what an object, or a list of them, says. depth bounds how far one error is looked for inside another.
func (r *Report) read(data []byte, depth int) {
	if depth == 0 {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil {
		for _, one := range list[:min(len(list), 8)] {
			r.read(one, depth-1)
		}
		return
	}
	var f failure
	if Decode(data, &f) != nil {
		return
	}
	for i, inner := range []json.RawMessage{f.Error, f.BaseResp, f.Response} {
		if IsObject(inner) || len(inner) > 0 && inner[0] == '[' {
			r.read(inner, depth-1)
		} else if i == 0 && len(inner) > 0 && string(inner) != "null" {
			r.say(inner, depth)
			r.codes(&f)
		}
		if r.Message != "" || r.Kind != "" {
			return
		}
	}
	for _, raw := range []json.RawMessage{f.Message, f.Msg, f.Detail, f.StatusMsg} {
		if len(raw) > 0 && r.say(raw, depth) {
			break
		}
	}
	r.codes(&f)
	r.blame(f.Param)
	for _, at := range f.Loc {
		if name, ok := at.(string); ok {
			r.blame(name)
		}
	}
	r.addKind(f.InnerError.Code)
	for _, d := range f.Details {
		r.addKind(d.Reason)
		for _, v := range d.Violations {
			r.addKind(v.QuotaID)
		}
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil {
			r.Retry = bound(wait)
		}
	}
	if len(f.Metadata.Raw) > 0 {
		r.say(f.Metadata.Raw, depth)
	}
	if f.Metadata.FlaggedInput != nil {
		r.addKind("content_filter")
	}
}

// say takes a message: text, or an error inside of this one, which may be written as text.
func (r *Report) say(raw json.RawMessage, depth int) bool {
	text := strings.TrimSpace(word(raw))
	if text == "" || text == "null" {
		return false
	}
	if text[0] == '{' || text[0] == '[' {
		before := r.Message
		if r.read([]byte(text), depth-1); r.Message != before {
			return true
		}
	}
	if r.Message != "" {
		text = r.Message + "\n" + text
	}
	r.Message = text
	return true
}

// codes takes the types and codes of an error.
func (r *Report) codes(f *failure) {
	for _, raw := range []json.RawMessage{f.Code, f.Status, f.StatusCode, f.Type, f.ErrorType, f.AWSType, f.Reason} {
		w := word(raw)
		if n, err := strconv.Atoi(w); err == nil && r.Status == 0 && 400 <= n && n <= 599 {
			r.Status = n
		}
		r.addKind(w)
	}
}

// addKind adds a type or a code.
func (r *Report) addKind(kind string) {
	if kind != "" && kind != "null" {
		r.Kind += " " + strings.ToLower(kind)
	}
}

// blame remembers the member of the request that an error names first.
func (r *Report) blame(name string) {
	if r.Param == "" && slices.Contains(params, name) {
		r.Param = name
	}
}

// params are the members of a request that an error may name; anything else would be the provider's own words.
var params = []string{
	"budget_tokens", "frequency_penalty", "max_completion_tokens", "max_output_tokens", "max_tokens", "messages", "model", "parallel_tool_calls",
	"presence_penalty", "reasoning", "reasoning_effort", "response_format", "seed", "service_tier", "stop", "stop_sequences", "stream",
	"stream_options", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p", "verbosity",
	// Google's, Amazon's and xAI's
	"frequencyPenalty", "maxOutputTokens", "maxTokens", "presencePenalty", "responseSchema", "stopSequences", "thinkingBudget", "thinkingConfig",
	"thinkingLevel", "topK", "topP",
}

// quoted is a name in quotes, or before a colon at the beginning of a line, as errors name members of a request.
var quoted = regexp.MustCompile("['\"`]([A-Za-z_]+)['\"`]|(?m:^([A-Za-z_]+)(?:\\.[\\w.]+)?:)|(?i:parameter|argument)[^:\n]{0,40}: ([A-Za-z_]+)")

// namedIn finds the member of the request that a message names; "" where it names none that we know.
func namedIn(message string) string {
	for _, found := range quoted.FindAllStringSubmatch(message[:min(len(message), 2<<10)], 8) {
		if name := found[1] + found[2] + found[3]; slices.Contains(params, name) {
			return name
		}
	}
	return ""
}

// waits is how long a message asks to wait: "Please try again in 7m12s", "Please retry after 20 seconds".
var waits = regexp.MustCompile(`(?i)\b(?:re)?try (?:again )?(?:in|after) ((?:\d+(?:\.\d+)?(?:ms|h|m|s))+|\d+ (?:second|minute|hour))`)

func waitIn(message string) time.Duration {
	found := waits.FindStringSubmatch(message[:min(len(message), 2<<10)])
	if found == nil {
		return 0
	}
	text := found[1]
	if number, unit, ok := strings.Cut(text, " "); ok {
		text = number + unit[:1]
	}
	d, err := time.ParseDuration(strings.ToLower(text))
	if err != nil {
		return 0
	}
	return bound(d)
}

// bound takes more than a day for a day.
func bound(d time.Duration) time.Duration { return min(max(d, 0), 24*time.Hour) }

// word returns a string's value, or the text of anything else.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
