package demo

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
)

const (
	maxCalls = 3 // in one answer
	maxHints = 8 // texts or numbers of a question
)

// reportResult says in a sentence what a tool returned.
func reportResult(name, content string) string {
	name = cmp.Or(oneLine(strings.ToValidUTF8(name, "")), "?")
	var failed struct {
		Error *struct{ Message string } `json:"error"`
	}
	switch {
	case json.Unmarshal([]byte(content), &failed) == nil && failed.Error != nil:
		return "The tool " + name + " could not do it: " + quoted(failed.Error.Message)
	case strings.TrimSpace(content) == "":
		return "The tool " + name + " returned nothing."
	}
	return "The tool " + name + " says: " + quoted(content)
}

// callTools returns the calls that the user's last message asks for, of tools that were not called for it yet.
func (p *prompt) callTools(tools []adapter.Tool) (calls []adapter.ToolCall) {
	question := questionOf(p.user)
	for _, t := range tools {
		if len(calls) == maxCalls || slices.Contains(p.called, t.Name) {
			continue
		}
		if rest, ok := findName(t.Name, tools, question); ok {
			if arguments, ok := makeArguments(t.Parameters, findHints(question, rest)); ok {
				id := "call_" + strconv.Itoa(p.calls+len(calls)+1)
				calls = append(calls, adapter.ToolCall{ID: id, Name: t.Name, Arguments: arguments})
			}
		}
	}
	return calls
}

// facts are what an agent puts before a message.
var facts = regexp.MustCompile(`(?m)^date: \d{4}-\d\d-\d\dT\S+\n(?:not attached: .*\n)?\n`)

// questionOf returns a message without the facts before it.
func questionOf(user string) string {
	if found := facts.FindStringIndex(user); found != nil {
		return user[found[1]:]
	}
	return user
}

// word matches a word. Only Latin letters and digits count: a question in Chinese has no spaces around a tool's name.
var word = regexp.MustCompile(`[a-z0-9]+`)

func wordsOf(name string) []string { return word.FindAllString(strings.ToLower(name), -1) }

// commonWords do not tell what a tool does.
var commonWords = strings.Fields("all and any are call can demo for from get has how mcp new not now one run set that the this tool use was what who why will with you")

// findName finds a tool's name in a question: all of its words in order, or one that no other tool has, in the singular or plural.
// Quoted texts are arguments and not searched, but names may be in backquotes. rest is the question after the name.
func findName(name string, tools []adapter.Tool, question string) (rest string, ok bool) {
	unquoted := inQuotes.ReplaceAllStringFunc(question, func(text string) string {
		if strings.HasPrefix(text, "`") {
			return text
		}
		return strings.Repeat(" ", len(text))
	})
	words := wordsOf(name)
	names := []string{strings.Join(words, " ")}
	for _, w := range words {
		others := func(t adapter.Tool) bool { return t.Name != name && slices.Contains(wordsOf(t.Name), w) }
		if len(w) > 2 && !slices.Contains(commonWords, w) && !slices.ContainsFunc(tools, others) {
			names = append(names, w)
		}
	}
	for _, n := range names {
		n = word.ReplaceAllStringFunc(n, func(w string) string { return w[:max(min(2, len(w)), len(strings.TrimSuffix(w, "s")))] + "s?" })
		pattern := `(?i)(?:^|[^a-z0-9])` + strings.ReplaceAll(n, " ", `[^a-z0-9]+`) + `(?:$|[^a-z0-9])`
		if found := regexp.MustCompile(pattern).FindStringIndex(unquoted); found != nil && n != "" {
			return question[found[1]:], true
		}
	}
	return "", false
}

// hints are what a question has for the arguments of a tool.
type hints struct {
	question string   // in lower case
	texts    []string // one for each argument; the last one is for all others too
	numbers  []float64
}

var (
	inQuotes     = regexp.MustCompile("\"([^\"]+)\"|“([^”]+)”|`([^`]+)`|«([^»]+)»|(?:^|\\s)'([^']+)'")
	prepositions = regexp.MustCompile(`(?i)\b(?:in|for|of|at|about|from|named|called)\s+(?:the |a )?([^\s.,;:?!][^.,;:?!\n]*)`)
	nextObject   = regexp.MustCompile(`(?i)\s+(?:in|for|of|at|about|from|and|to|with)\s.*$`)
	numbers      = regexp.MustCompile(`-?\b\d+(?:\.\d+)?\b`)
)

// findHints takes the texts in quotes, those after prepositions, the rest of the question after the tool's name, or the question:
// the first of these that exists.
func findHints(question, rest string) hints {
	h := hints{question: strings.ToLower(question)}
	for _, number := range numbers.FindAllString(question, maxHints) {
		n, _ := strconv.ParseFloat(number, 64) // ±Inf, which no schema allows, out of range
		h.numbers = append(h.numbers, n)
	}
	add := func(text string) {
		if text = strings.Trim(oneLine(text), " .,;:?!"); text != "" {
			h.texts = append(h.texts, text)
		}
	}
	for _, m := range inQuotes.FindAllStringSubmatch(question, maxHints) {
		add(strings.Join(m[1:], ""))
	}
	if len(h.texts) == 0 {
		for _, m := range prepositions.FindAllStringSubmatch(question, maxHints) {
			add(nextObject.ReplaceAllString(m[1], ""))
		}
	}
	for _, text := range []string{rest, question} {
		if len(h.texts) == 0 {
			add(text)
		}
	}
	return h
}

// makeArguments makes an object for a tool's schema, without optional members. If the schema does not say what the arguments are,
// the object is empty. ok is false if the schema cannot be met.
func makeArguments(parameters json.RawMessage, h hints) (arguments string, ok bool) {
	f := newFitter(json.RawMessage(cmp.Or(string(parameters), "{}")))
	f.arguments, f.hints = true, h
	value := f.make("arguments", f.root, 0)
	compact, _ := rawjson.Marshal(json.RawMessage(value)) // valid JSON
	return string(compact), !f.failed && value[0] == '{'
}
