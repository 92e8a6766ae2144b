package wire

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// Report is what a provider says about a failure, in any of the forms that are in use.
type Report struct {
	Message string
	Kind    string        // types, codes and reasons, in small letters, each behind a space
	Param   string        // the member of the request that is to blame, if the provider names it
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
	r.read(data, maxReportDepth)
	if r.Message == "" && !json.Valid(data) {
		r.Message = string(data)
	}
	return r
}

// maxReportDepth bounds how far one error is looked for inside another, and maxReports how many of a list are read.
const (
	maxReportDepth = 8
	maxReports     = 8
)

// memberName is what a member of a request is called. Anything else would be the provider's own words.
var memberName = regexp.MustCompile(`^[a-z_]{1,40}$`)

// read adds what an object, or a list of them, says.
func (r *Report) read(data []byte, depth int) {
	var list []json.RawMessage
	if depth == 0 || json.Unmarshal(data, &list) == nil {
		for _, one := range list[:min(len(list), maxReports)] {
			r.read(one, depth-1)
		}
		return
	}
	o := Object{}
	for name, value := range rawjson.Members(data) {
		o[strings.ToLower(name)] = value
	}
	if len(o) == 0 {
		return
	}
	before := *r
	for _, name := range []string{"error", "base_resp", "response"} {
		if r.read(o[name], depth-1); *r != before {
			return // an error inside has more to say than what is around it
		}
	}
	for _, name := range []string{"error", "message", "msg", "detail", "status_msg"} {
		if r.addMessage(o[name], depth) {
			break
		}
	}
	for _, name := range []string{"code", "status", "status_code", "type", "error_type", "__type", "reason", "quotaid"} {
		code := word(o[name])
		if n, err := strconv.Atoi(code); err == nil && r.Status == 0 && 400 <= n && n <= 599 {
			r.Status = n
		}
		r.addKind(code)
	}
	if name := o.Text("param"); memberName.MatchString(name) {
		r.Param = name
	}
	for _, name := range []string{"innererror", "details", "violations"} {
		r.read(o[name], depth-1)
	}
	if wait, err := time.ParseDuration(o.Text("retrydelay")); err == nil {
		r.Retry = min(max(wait, 0), maxRetryAfter)
	}
	metadata := o.Object("metadata")
	r.addMessage(metadata["raw"], depth)
	if metadata.Has("flagged_input") {
		r.addKind("content_filter")
	}
}

// addMessage adds a message: text, or an error inside of this one, which may be written as text. It returns false if raw has no message.
func (r *Report) addMessage(raw json.RawMessage, depth int) bool {
	text := strings.TrimSpace(word(raw))
	if text == "" || text == "null" {
		return false
	}
	if (text[0] == '{' || text[0] == '[') && json.Valid([]byte(text)) {
		before := r.Message
		r.read([]byte(text), depth-1)
		return r.Message != before
	}
	r.Message = strings.TrimPrefix(r.Message+"\n"+text, "\n")
	return true
}

// addKind adds a type or a code.
func (r *Report) addKind(kind string) {
	if kind != "" && kind != "null" {
		r.Kind += " " + strings.ToLower(kind)
	}
}

// word returns a string's value, or the text of anything else.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
