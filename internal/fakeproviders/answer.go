package fakeproviders

import (
	"maps"
	"net/http"
	"strings"
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
	req    Request         // without its messages and its body
	prompt int             // tokens of the messages
	answer Answer
	buf    []byte
	format format
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
		a.format.refuse(a.w, a.answer.Status, a.answer.Body)
		return true
	case a.answer.Raw != nil:
		h.Set("Content-Type", a.format.kind())
		maps.Copy(h, a.answer.Header)
		return a.raw()
	}
	if whole, ok := a.format.(wholeFormat); ok && !a.req.Stream {
		h.Set("Content-Type", "application/json")
		maps.Copy(h, a.answer.Header)
		return a.whole(whole)
	}
	h.Set("Content-Type", a.format.kind())
	maps.Copy(h, a.answer.Header)
	return a.stream()
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

// stream writes the answer in pieces.
func (a *writer) stream() bool {
	a.start = time.Now()
	a.format.open(a)
	for token := range tokens(a.answer.Reasoning) {
		if !a.token(a.format.reasoning, token) {
			return false
		}
	}
	if a.answer.Tokens != nil {
		for _, token := range a.answer.Tokens {
			if !a.token(a.format.text, token) {
				return false
			}
		}
	} else {
		for token := range tokens(a.answer.Text) {
			if !a.token(a.format.text, token) {
				return false
			}
		}
	}
	for i, call := range a.answer.ToolCalls {
		if !a.format.call(a, i, call) {
			return false
		}
	}
	if !a.due() { // the end takes its time, as a token would
		return false
	}
	if a.finish() != "-" {
		a.format.close(a)
	}
	return a.send()
}

// token sends one token when its time has come.
func (a *writer) token(frame func(*writer, string), token string) bool {
	if !a.due() {
		return false
	}
	frame(a, token)
	a.sent++
	return a.paced()
}

// whole writes the answer in one piece, after the time that its tokens would take.
func (a *writer) whole(f wholeFormat) bool {
	if a.answer.Pace > 0 && !a.wait(time.Duration(float64(a.count())*float64(time.Second)/a.answer.Pace)) {
		return false
	}
	f.whole(a)
	return a.send()
}

// text is all text of the answer.
func (a *writer) text() string {
	if a.answer.Tokens != nil {
		return strings.Join(a.answer.Tokens, "")
	}
	return a.answer.Text
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

func (a *writer) finish() string {
	switch {
	case a.answer.Finish != "":
		return a.answer.Finish
	case len(a.answer.ToolCalls) > len(a.answer.ToolResults):
		return "tool_calls"
	default:
		return "stop"
	}
}

// used counts tokens the way the answer was cut, and those of the messages by the same measure.
func (a *writer) used() (prompt, completion int) {
	return a.prompt, a.count()
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
