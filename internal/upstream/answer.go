package upstream

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// batch is how many bytes an answer without pace collects before it writes them: enough to make the cost of a write small,
// little enough to stay in the cache.
const batch = 8 << 10

// writer writes one answer.
type writer struct {
	w      http.ResponseWriter
	flush  *http.ResponseController
	done   <-chan struct{} // the client has gone away
	req    Request
	answer Answer
	buf    []byte
	head   string // of every frame, up to the choices
	tail   string // of every frame, from the choices on
	timer  *time.Timer
	start  time.Time // of the pace
	sent   int       // tokens
}

// run writes the answer; false when the client went away before its end.
func (a *writer) run() bool {
	if a.answer.Delay > 0 && !a.wait(a.answer.Delay) {
		return false
	}
	h := a.w.Header()
	switch {
	case a.answer.Status != 0 && a.answer.Status != http.StatusOK:
		h.Set("Content-Type", "application/json")
		maps.Copy(h, a.answer.Header)
		writeError(a.w, a.answer.Status, a.answer.Body)
		return true
	case a.answer.Raw != nil:
		h.Set("Content-Type", "text/event-stream")
		maps.Copy(h, a.answer.Header)
		return a.raw()
	case a.req.Stream:
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		maps.Copy(h, a.answer.Header)
		return a.stream()
	default:
		h.Set("Content-Type", "application/json")
		maps.Copy(h, a.answer.Header)
		return a.whole()
	}
}

// raw follows a byte-level script.
func (a *writer) raw() bool {
	for _, step := range a.answer.Raw {
		if step.Wait > 0 && !a.wait(step.Wait) {
			return false
		}
		if step.Bytes != "" {
			a.buf = append(a.buf[:0], step.Bytes...)
			if !a.send() {
				return false
			}
		}
		if step.Hang {
			<-a.done
			return false
		}
		if step.Cut {
			panic(http.ErrAbortHandler) // breaks the connection without the mark of a clean end
		}
	}
	return true
}

// stream writes the answer as chat.completion.chunk events.
func (a *writer) stream() bool {
	a.head = `data: {"id":"` + a.id() + `","object":"chat.completion.chunk","created":` +
		strconv.FormatInt(time.Now().Unix(), 10) + `,"model":` + string(appendString(nil, a.req.Model)) +
		`,"system_fingerprint":"fp_script","choices":[`
	a.tail = "]}\n\n"
	if a.req.Usage {
		a.tail = "],\"usage\":null}\n\n"
	}
	a.start = time.Now()
	a.delta(`"role":"assistant","content":""`)
	for token := range tokens(a.answer.Reasoning) {
		if !a.token("reasoning_content", token) {
			return false
		}
	}
	if a.answer.Tokens != nil {
		for _, token := range a.answer.Tokens {
			if !a.token("content", token) {
				return false
			}
		}
	} else {
		for token := range tokens(a.answer.Text) {
			if !a.token("content", token) {
				return false
			}
		}
	}
	for i, call := range a.answer.ToolCalls {
		index := `"tool_calls":[{"index":` + strconv.Itoa(i)
		a.delta(index + `,"id":` + string(appendString(nil, call.ID)) + `,"type":"function","function":{"name":` +
			string(appendString(nil, call.Name)) + `,"arguments":""}}]`)
		for token := range tokens(call.Arguments) {
			if !a.due() {
				return false
			}
			a.delta(index + `,"function":{"arguments":` + string(appendString(nil, token)) + `}}]`)
			if !a.paced() {
				return false
			}
		}
	}
	if !a.due() { // the end takes its time, as a token would
		return false
	}
	if finish := a.finish(); finish != "-" {
		a.buf = append(a.buf, a.head...)
		a.buf = append(a.buf, `{"index":0,"delta":{},"logprobs":null,"finish_reason":`...)
		a.buf = appendString(a.buf, finish)
		a.buf = append(a.buf, '}')
		a.buf = append(a.buf, a.tail...)
		if a.req.Usage {
			a.buf = append(a.buf, a.head...)
			a.buf = append(a.buf, `],"usage":`...)
			a.buf = append(a.buf, a.usage()...)
			a.buf = append(a.buf, "}\n\n"...)
		}
		a.buf = append(a.buf, "data: [DONE]\n\n"...)
	}
	return a.send()
}

// token sends one token of text or reasoning when its time has come.
func (a *writer) token(member, token string) bool {
	if !a.due() {
		return false
	}
	a.buf = append(a.buf, a.head...)
	a.buf = append(a.buf, `{"index":0,"delta":{"`...)
	a.buf = append(a.buf, member...)
	a.buf = append(a.buf, `":`...)
	a.buf = appendString(a.buf, token)
	a.buf = append(a.buf, `},"logprobs":null,"finish_reason":null}`...)
	a.buf = append(a.buf, a.tail...)
	a.sent++
	return a.paced()
}

// delta appends a frame with the members of a delta.
func (a *writer) delta(members string) {
	a.buf = append(a.buf, a.head...)
	a.buf = append(a.buf, `{"index":0,"delta":{`...)
	a.buf = append(a.buf, members...)
	a.buf = append(a.buf, `},"logprobs":null,"finish_reason":null}`...)
	a.buf = append(a.buf, a.tail...)
}

// due waits until the next token's time. Times count from the start of the answer, so that waiting too long once does not
// slow the rest.
func (a *writer) due() bool {
	if a.answer.Pace <= 0 {
		return true
	}
	at := a.start.Add(time.Duration(float64(a.sent) * float64(time.Second) / a.answer.Pace))
	if d := time.Until(at); d > 0 {
		return a.wait(d)
	}
	return true
}

// paced sends what has been collected: every token of an answer with a pace, large pieces of one without.
func (a *writer) paced() bool {
	if a.answer.Pace <= 0 && len(a.buf) < batch {
		return true
	}
	return a.send()
}

func (a *writer) send() bool {
	if len(a.buf) > 0 {
		if _, err := a.w.Write(a.buf); err != nil {
			return false
		}
		a.buf = a.buf[:0]
	}
	return a.flush.Flush() == nil
}

// whole writes the answer as one chat.completion object, after the time that its tokens would take.
func (a *writer) whole() bool {
	var text []byte
	if a.answer.Tokens != nil {
		for _, token := range a.answer.Tokens {
			text = append(text, token...)
		}
	} else {
		text = append(text, a.answer.Text...)
	}
	if a.answer.Pace > 0 && !a.wait(time.Duration(float64(a.count())*float64(time.Second)/a.answer.Pace)) {
		return false
	}
	b := append(a.buf, `{"id":"`...)
	b = append(b, a.id()...)
	b = append(b, `","object":"chat.completion","created":`...)
	b = strconv.AppendInt(b, time.Now().Unix(), 10)
	b = append(b, `,"model":`...)
	b = appendString(b, a.req.Model)
	b = append(b, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	b = appendString(b, string(text))
	if a.answer.Reasoning != "" {
		b = append(b, `,"reasoning_content":`...)
		b = appendString(b, a.answer.Reasoning)
	}
	for i, call := range a.answer.ToolCalls {
		if i == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendString(b, call.ID)
		b = append(b, `,"type":"function","function":{"name":`...)
		b = appendString(b, call.Name)
		b = append(b, `,"arguments":`...)
		b = appendString(b, call.Arguments)
		b = append(b, `}}`...)
	}
	if len(a.answer.ToolCalls) > 0 {
		b = append(b, ']')
	}
	b = append(b, `},"logprobs":null,"finish_reason":`...)
	if finish := a.finish(); finish == "-" {
		b = append(b, `null`...)
	} else {
		b = appendString(b, finish)
	}
	b = append(b, `}],"usage":`...)
	b = append(b, a.usage()...)
	a.buf = append(b, '}')
	return a.send()
}

func (a *writer) id() string { return "chatcmpl-" + strconv.Itoa(a.req.Attempt) }

func (a *writer) finish() string {
	switch {
	case a.answer.Finish != "":
		return a.answer.Finish
	case len(a.answer.ToolCalls) > 0:
		return "tool_calls"
	default:
		return "stop"
	}
}

// usage counts tokens the way the answer was cut, and those of the messages by the same measure.
func (a *writer) usage() string {
	prompt := 0
	for _, m := range a.req.Messages {
		prompt += count(m.Content)
	}
	completion := a.count()
	return `{"prompt_tokens":` + strconv.Itoa(prompt) + `,"completion_tokens":` + strconv.Itoa(completion) +
		`,"total_tokens":` + strconv.Itoa(prompt+completion) + `}`
}

// count counts the tokens of the answer.
func (a *writer) count() int {
	n := count(a.answer.Reasoning) + len(a.answer.Tokens)
	if a.answer.Tokens == nil {
		n += count(a.answer.Text)
	}
	for _, call := range a.answer.ToolCalls {
		n += count(call.Arguments)
	}
	return n
}

// wait waits; false when the client went away meanwhile.
func (a *writer) wait(d time.Duration) bool {
	if a.timer == nil {
		a.timer = time.NewTimer(d)
	} else {
		a.timer.Reset(d)
	}
	select {
	case <-a.timer.C:
		return true
	case <-a.done:
		return false
	}
}

func (a *writer) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// tokenRunes is how many characters a token has, about what English text has.
const tokenRunes = 4

// tokens cuts text into tokens; a rune is never cut.
func tokens(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for text != "" {
			n := 0
			for i := 0; i < tokenRunes && n < len(text); i++ {
				_, size := utf8.DecodeRuneInString(text[n:])
				n += size
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

func count(text string) int { return (utf8.RuneCountInString(text) + tokenRunes - 1) / tokenRunes }

// appendString appends s as a JSON string; what is not ASCII stays as it is, as providers send it.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// writeError writes an error answer; without a body, an error object as OpenAI sends it.
func writeError(w http.ResponseWriter, status int, body string) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	var parsed any
	if body == "" || (json.Unmarshal([]byte(body), &parsed) != nil && w.Header().Get("Content-Type") == "application/json") {
		if body == "" {
			body = http.StatusText(status)
		}
		object, _ := json.Marshal(map[string]any{"error": map[string]any{ // of strings: cannot fail
			"message": body, "type": errorType(status), "param": nil, "code": nil,
		}})
		body = string(object)
	}
	w.WriteHeader(status)
	w.Write([]byte(body)) // a client that has gone away does not need it
}

func errorType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	default:
		return "invalid_request_error"
	}
}
