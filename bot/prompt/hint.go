package prompt

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/edits"
)

// What other template languages call the filters, tags and variables of this one.
var (
	otherFilters = map[string]string{
		"tojson": "json", "to_json": "json", "toJSON": "json", "json_encode": "json", "dump": "json", "count": "length", "size": "length", "len": "length",
		"upcase": "upper", "uppercase": "upper", "downcase": "lower", "lowercase": "lower", "capitalize": "capfirst", "int": "integer",
		"round": "floatformat", "truncate": "truncatechars", "plus": "add", "append": "add", "d": "default", "striphtml": "striptags",
		"strip_html": "striptags", "wordcounts": "wordcount", "url_encode": "urlencode",
	}
	otherTags     = map[string]string{"elseif": "elif", "elsif": "elif", "assign": "set", "unless": "if not", "foreach": "for", "raw": "verbatim", "switch": "if"}
	otherCounters = map[string]string{"index": "counter", "index0": "counter0", "revindex": "revcounter", "revindex0": "revcounter0", "rindex": "revcounter"}
	loopMembers   = []string{"counter", "counter0", "revcounter", "revcounter0", "first", "last", "parentloop"}
)

func filterNamed(name string) bool {
	_, ok := filterRules[name]
	return ok
}

// filterHint says what was meant by an unknown filter, "" if that is not known.
func filterHint(name string) string {
	if meant, ok := otherFilters[name]; ok {
		return fmt.Sprintf(", did you mean %q?", meant)
	}
	return edits.DidYouMean(name, slices.Sorted(maps.Keys(filterRules)), "")
}

// tagHint says what was meant by an unknown tag, "" if that is not known.
func tagHint(name string) string {
	if meant, ok := otherTags[name]; ok {
		return fmt.Sprintf(", did you mean %q?", meant)
	}
	known := []string{"elif", "else", "empty", "endif", "endfor", "endwith", "endcomment", "verbatim"}
	return edits.DidYouMean(name, slices.AppendSeq(known, maps.Keys(tagRules)), "")
}

// LoopHint says how to count in a loop; member is what was read of a variable "loop", as other languages have it.
func LoopHint(member string) string {
	if meant, ok := otherCounters[member]; ok {
		return fmt.Sprintf("write forloop.%s, which counts in a {%% for %%}", meant)
	}
	if slices.Contains(loopMembers, member) {
		return "write forloop." + member
	}
	return "in a {% for %}, forloop has " + strings.Join(loopMembers, ", ")
}

// loopHint reports an unknown member of forloop.
func loopHint(p path) string {
	if !p.bound || p.segments[0] != "forloop" || len(p.segments) == 1 || slices.Contains(loopMembers, p.segments[1]) {
		return ""
	}
	if _, ok := otherCounters[p.segments[1]]; !ok {
		return fmt.Sprintf("forloop has no %q; expected one of %s", p.segments[1], strings.Join(loopMembers, ", "))
	}
	return fmt.Sprintf("forloop has no %q; %s", p.segments[1], LoopHint(p.segments[1]))
}

// callHint explains brackets behind the name of a filter; body[i] opens them.
func (s *scanner) callHint(body []token, i int) string {
	if !body[i].is("(") || i < 2 || !body[i-2].is("|") || body[i-1].kind != identifier {
		return ""
	}
	name := body[i-1].text
	if i+1 < len(body) && body[i+1].is(")") {
		return fmt.Sprintf("a filter without an argument has no brackets: write %s", name)
	}
	argument := `"…"`
	if i+2 < len(body) && body[i+2].is(")") {
		argument = strings.TrimSpace(s.text[body[i+1].offset:body[i+2].offset])
	}
	return fmt.Sprintf("the argument of a filter follows a colon: write %s:%s", name, argument)
}

// elementHint explains a member behind an element in brackets, as in steps[0].title; body[i] closes them.
func (s *scanner) elementHint(body []token, i int) string {
	if i < 3 || !body[i].is("]") || i+1 >= len(body) || !body[i+1].is(".") {
		return ""
	}
	if !body[i-2].is("[") || body[i-1].kind != number && (body[i-1].kind != text || !isName(body[i-1].text)) {
		return `nothing can follow a computed element; name it first: {% with step=steps[i] %}{{ step.title }}{% endwith %}`
	}
	from, to := i-2, i+1
	adjacent := func(k int) bool { return body[k].offset == tokenEnd(s.text, body, k-1) }
	for from > 0 && adjacent(from) && (body[from-1].kind == identifier || body[from-1].kind == number || body[from-1].is(".")) {
		from--
	}
	for to+1 < len(body) && adjacent(to+1) && (body[to+1].kind == identifier || body[to+1].kind == number || body[to+1].is(".")) {
		to++
	}
	var b strings.Builder
	for k := from; k <= to; k++ {
		switch {
		case k == i-2 && body[k-1].is("."):
		case k == i-2:
			b.WriteByte('.')
		case k != i:
			b.WriteString(body[k].text)
		}
	}
	return fmt.Sprintf("elements of lists follow a dot: write %s", b.String())
}

// tokenEnd returns where the token body[i] ends.
func tokenEnd(source string, body []token, i int) int {
	t := body[i]
	if t.kind == text { // with its quotes
		return min(t.offset+len(t.text)+2, len(source))
	}
	return t.offset + len(t.text)
}
