package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/internal/upstream"
)

// maxCalls is how many tools one answer calls.
const maxCalls = 3

// conversation is what the script sees of a request that offers tools, or has the results of some.
type conversation struct {
	Messages []struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCalls  []call          `json:"tool_calls"`
		ToolCallID string          `json:"tool_call_id"`
	} `json:"messages"`
	Tools []struct {
		Function offer `json:"function"`
	} `json:"tools"`
}

type call struct {
	ID       string `json:"id"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

type offer struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
}

// exchange is what has come of tools since the model last said something without calling one: for one question, mostly.
type exchange struct {
	offered []offer
	called  []string
	calls   int    // in the whole conversation
	results string // in sentences
}

// exchanged reads a request.
func exchanged(r upstream.Request) exchange {
	var c conversation
	if !bytes.Contains(r.Body, []byte(`"tool`)) { // most have none
		return exchange{}
	}
	if json.Unmarshal(r.Body, &c) != nil || len(c.Messages) != len(r.Messages) {
		return exchange{}
	}
	var e exchange
	for _, t := range c.Tools {
		e.offered = append(e.offered, t.Function)
	}
	names := map[string]string{}
	var results []string
	for i, m := range c.Messages {
		switch {
		case m.Role == "assistant" && len(m.ToolCalls) == 0:
			e.called, results = nil, nil
		case m.Role == "assistant":
			for _, call := range m.ToolCalls {
				e.calls++
				e.called = append(e.called, call.Function.Name)
				names[call.ID] = call.Function.Name
			}
		case m.Role == "tool":
			results = append(results, told(names[m.ToolCallID], r.Messages[i].Content))
		}
	}
	e.results = strings.Join(results, " ")
	return e
}

// told says what a tool has returned.
func told(name, content string) string {
	if name = oneLine(name); name == "" {
		name = "?"
	}
	var failed struct {
		Error *struct{ Message string } `json:"error"`
	}
	if json.Unmarshal([]byte(content), &failed) == nil && failed.Error != nil {
		return fmt.Sprintf("The tool %s could not do it: %s", name, quoted(failed.Error.Message))
	}
	if strings.TrimSpace(content) == "" {
		return fmt.Sprintf("The tool %s returned nothing.", name)
	}
	return fmt.Sprintf("The tool %s says: %s", name, quoted(content))
}

// wanted are the calls that a question asks for, of tools that were not called for it yet.
func (e exchange) wanted(user string) []upstream.ToolCall {
	if len(e.offered) == 0 {
		return nil
	}
	question := asked(user)
	said := words(inQuotes.ReplaceAllStringFunc(question, unquoted))
	var calls []upstream.ToolCall
	for _, o := range e.offered {
		if len(calls) == maxCalls || slices.Contains(e.called, o.Name) {
			continue
		}
		after, ok := e.mentioned(o.Name, said)
		if !ok {
			continue
		}
		if arguments, ok := argue(o.Parameters, hints(question, after)); ok {
			id := "call_" + strconv.Itoa(e.calls+len(calls)+1)
			calls = append(calls, upstream.ToolCall{ID: id, Name: o.Name, Arguments: arguments})
		}
	}
	return calls
}

// dated ends what an agent says about a message, before the message itself.
var dated = regexp.MustCompile(`(?m)^date: \d{4}-\d\d-\d\dT\S+\n(?:not attached: .*\n)?\n`)

// asked is a message without what an agent says about it.
func asked(user string) string {
	if at := dated.FindStringIndex(user); at != nil {
		return user[at[1]:]
	}
	return user
}

// unquoted leaves out what stands in quotes, which is for a tool and names none; only names stand between backquotes.
func unquoted(text string) string {
	if strings.HasPrefix(text, "`") {
		return text
	}
	return " "
}

// common are words that say nothing about what a tool does.
var common = strings.Fields("all and any are call can demo for from get has how mcp new not now one run set that the this tool use was what who why will with you")

// words are the words of a text or a tool's name, in small letters. Other scripts than the Latin part them, since a question in
// Chinese has no spaces around a tool's name.
func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

// mentioned says whether a question names a tool: all of its name's words, one after the other, or one that no other tool has. after
// is the last of these.
func (e exchange) mentioned(name string, said []string) (after string, ok bool) {
	own := words(name)
	for i := range said {
		if len(own) > 0 && len(own) <= len(said)-i && slices.EqualFunc(own, said[i:i+len(own)], same) {
			return said[i+len(own)-1], true
		}
	}
	for _, w := range own {
		if len(w) < 3 || slices.Contains(common, w) || e.shared(w) {
			continue
		}
		if i := slices.IndexFunc(said, func(s string) bool { return same(w, s) }); i >= 0 {
			return said[i], true
		}
	}
	return "", false
}

func same(a, b string) bool { return a == b || a+"s" == b || a == b+"s" }

// shared says whether a word stands in the names of several tools.
func (e exchange) shared(word string) bool {
	n := 0
	for _, o := range e.offered {
		if slices.Contains(words(o.Name), word) {
			n++
		}
	}
	return n > 1
}

// hint is what a question gives for the arguments of a tool.
type hint struct {
	question string   // in small letters
	texts    []string // for one argument after the other; for those beyond, the last
	numbers  []string
}

var (
	inQuotes = regexp.MustCompile("\"([^\"]+)\"|“([^”]+)”|`([^`]+)`|«([^»]+)»|(?:^|\\s)'([^']+)'")
	objects  = regexp.MustCompile(`(?i)\b(?:in|for|of|at|about|from|named|called)\s+([^\s.,;:?!][^.,;:?!\n]*)`)
	next     = regexp.MustCompile(`(?i)\s+(?:in|for|of|at|about|from|and|to|with)\s.*$`)
	digits   = regexp.MustCompile(`-?\b\d+(?:\.\d+)?\b`)
)

// hints finds what the arguments could be: what stands in quotes, or behind a preposition, or behind the word that names the tool, or
// all of the question.
func hints(question, after string) *hint {
	question = strings.ToValidUTF8(question, "")
	h := &hint{question: strings.ToLower(question), numbers: digits.FindAllString(question, 8)}
	add := func(text string) {
		if text = strings.Trim(oneLine(text), " .,;:?!"); text != "" {
			h.texts = append(h.texts, text)
		}
	}
	for _, m := range inQuotes.FindAllStringSubmatch(question, 8) {
		add(strings.Join(m[1:], ""))
	}
	if len(h.texts) == 0 {
		for _, m := range objects.FindAllStringSubmatch(question, 8) {
			text := next.ReplaceAllString(m[1], "")
			add(strings.TrimPrefix(strings.TrimPrefix(text, "the "), "a "))
		}
	}
	if i := strings.Index(h.question, after); len(h.texts) == 0 && after != "" && i >= 0 && len(h.question) == len(question) {
		add(question[i+len(after):])
	}
	if len(h.texts) == 0 {
		add(question)
	}
	return h
}

// argue makes arguments that fit a tool's schema, of what the question gives; what may be left out is.
func argue(schema json.RawMessage, h *hint) (string, bool) {
	root := object()
	if len(schema) > 0 {
		var ok bool
		if root, ok = parse(string(schema)); !ok {
			return "", false
		}
	}
	f := &fitter{root: root, hint: h}
	doc := value{kind: 'o'}
	if !f.typeless(root) {
		doc = f.value("arguments", root, 0)
	}
	if f.failed || doc.kind != 'o' {
		return "", false
	}
	return string(doc.append(nil)), true
}

// typeless says that a schema does not say what the arguments are: any object fits, and the empty one is the simplest.
func (f *fitter) typeless(s value) bool {
	if s.kind != 'o' || len(s.keys) == 0 {
		return s.raw != "false"
	}
	return !s.has("type") && f.typeOf(s) != "object" && !s.has("$ref") && !s.has("allOf") && !s.has("anyOf") && !s.has("oneOf") && !s.has("const") && !s.has("enum")
}

// text is the next text for an argument.
func (h *hint) text() (string, bool) {
	if len(h.texts) == 0 {
		return "", false
	}
	text := h.texts[0]
	if len(h.texts) > 1 {
		h.texts = h.texts[1:]
	}
	return text, true
}

// choose is the one of an enumeration that the question names; the first where it names none.
func (h *hint) choose(items []value) value {
	for _, item := range items {
		if item.kind == 's' && item.decoded != "" && strings.Contains(h.question, strings.ToLower(item.decoded)) {
			return item
		}
	}
	return items[0]
}

// number is the next number of the question, where the schema allows it.
func (h *hint) number(s value, whole bool) (float64, bool) {
	if len(h.numbers) == 0 {
		return 0, false
	}
	n, err := strconv.ParseFloat(h.numbers[0], 64)
	if err != nil || whole && n != math.Trunc(n) || math.Abs(n) > 1<<53 || !within(s, n) {
		return 0, false
	}
	h.numbers = h.numbers[1:]
	return n, true
}

// within says whether a number is between the bounds of a schema.
func within(s value, n float64) bool {
	for name, good := range map[string]func(bound float64) bool{
		"minimum":          func(b float64) bool { return n >= b },
		"maximum":          func(b float64) bool { return n <= b },
		"exclusiveMinimum": func(b float64) bool { return n > b },
		"exclusiveMaximum": func(b float64) bool { return n < b },
		"multipleOf":       func(b float64) bool { return b > 0 && math.Mod(n, b) == 0 },
	} {
		v, ok := s.get(name)
		if !ok {
			continue
		}
		if bound, err := strconv.ParseFloat(v.raw, 64); err != nil || !good(bound) {
			return false
		}
	}
	return true
}
