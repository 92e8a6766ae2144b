package yaml

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/wording"
)

// keyForm is the beginning of a line: its indentation, marks of lists, and a key.
var keyForm = regexp.MustCompile(`^( *(?:- +)*)("[^"]*"|'[^']*'|[^\s'"\[\]{}#&*!|>%@,-][^:]*?):(\s+|$)`)

// hint explains the mistake behind a syntax error of the parser, as people make them who write prompts: what YAML reads, and what to write.
// The message is "" if the lines show no mistake that is known here. It repeats text of the file only if show is set: a configuration may have
// secrets.
func hint(lines []string, line int, parserMessage string, show bool) (atLine, col int, message string) {
	if line < 1 || line > len(lines) {
		return 0, 0, ""
	}
	text := lines[line-1]
	if i := strings.IndexByte(text[:indentation(text, " \t")], '\t'); i >= 0 {
		return line, i + 1, "a tab indents this line; YAML takes only spaces, so replace each tab with two spaces"
	}
	head, value := split(text)
	if message := valueHint(head, value, parserMessage, show); message != "" {
		return line, utf8.RuneCountInString(head) + 1, message
	}
	if atLine, message := indentHint(lines, line); message != "" {
		return atLine, indentation(lines[atLine-1], " ") + 1, message
	}
	trimmed := strings.TrimSpace(text)
	if before, after, ok := strings.Cut(trimmed, ":"); ok && after != "" && after[0] != ' ' && !strings.ContainsAny(before, ` '"{[`) {
		return line, indentation(text, " ") + 1, fmt.Sprintf("a space belongs behind the colon of %s:", wording.Clip(before))
	}
	if head == "" && !strings.Contains(trimmed, ":") && strings.Contains(parserMessage, "non-map value") {
		return line, indentation(text, " ") + 1, "expected key: value; if this is more of the text above, begin that text with | and indent its lines"
	}
	return 0, 0, ""
}

// split returns what stands before the value of a line, and the value. Both are "" if the line has no key and is no element of a list.
func split(text string) (head, value string) {
	head = keyForm.FindString(text)
	if head == "" {
		trimmed := strings.TrimLeft(text, " ")
		for strings.HasPrefix(trimmed, "- ") {
			trimmed = strings.TrimLeft(trimmed[2:], " ")
		}
		if head = text[:len(text)-len(trimmed)]; strings.TrimSpace(head) == "" {
			return "", ""
		}
	}
	return head, strings.TrimRight(text[len(head):], " \t")
}

// valueHint explains a value that YAML reads as something else than text.
func valueHint(head, value, parserMessage string, show bool) string {
	if value == "" {
		return ""
	}
	quoted := "put the text in quotes" + example(value, show)
	switch c := value[0]; {
	case c == '*':
		return "YAML reads * as the start of an alias; " + quoted
	case strings.IndexByte("@`&!%", c) >= 0:
		return fmt.Sprintf("YAML does not read %c at the start of a value as text; %s", c, quoted)
	case strings.HasPrefix(value, "- "):
		return "a list begins on the next line; if this is text, " + quoted
	case c == '|' || c == '>':
		if rest := strings.TrimLeft(value[1:], "+-0123456789"); strings.TrimSpace(rest) != "" && !strings.HasPrefix(strings.TrimSpace(rest), "#") {
			return fmt.Sprintf("the text after %c begins on the next line, indented", c)
		}
	case c == '\'' || c == '"':
		return quoteHint(value, parserMessage, show)
	case c == '[' || c == '{':
		return bracketHint(value, show)
	case strings.Contains(value, ": ") || strings.HasSuffix(value, ":"):
		key := strings.TrimLeft(strings.TrimRight(head, ": "), " -")
		if key != "" {
			key += ": "
		}
		return fmt.Sprintf(`YAML reads ": " as the end of a key; %s, or begin it with %s| and write it on the next lines, indented`, quoted, key)
	}
	return ""
}

// quoteHint explains a quoted text that ends too early, or not at all.
func quoteHint(value, parserMessage string, show bool) string {
	q := value[:1]
	if strings.Contains(parserMessage, "unknown escape character") {
		return fmt.Sprintf(`a backslash begins an escape in double quotes; write \\ for it, or use single quotes%s`, example(strings.Trim(value, q), show))
	}
	end := closing(value)
	if end < 0 {
		if strings.Contains(parserMessage, "could not find end") {
			return fmt.Sprintf("the text has no closing %s", q)
		}
		return ""
	}
	rest := strings.TrimSpace(value[end+1:])
	if rest == "" || strings.HasPrefix(rest, "#") || strings.ContainsAny(rest[:1], ",]}:") {
		return ""
	}
	inner := value
	if len(value) > 1 && strings.HasSuffix(value, q) {
		inner = value[1 : len(value)-1]
	}
	return fmt.Sprintf("the text ends at the second %s, and more follows; use other quotes around all of it%s", q, example(inner, show))
}

// closing returns where the quoted text at the start of a value ends, -1 if not on its line.
func closing(value string) int {
	for i := 1; i < len(value); i++ {
		switch {
		case value[0] == '"' && value[i] == '\\':
			i++
		case value[i] == value[0]:
			if value[0] == '\'' && i+1 < len(value) && value[i+1] == '\'' {
				i++
				continue
			}
			return i
		}
	}
	return -1
}

// braces is an unquoted text with a template in a mapping or list in brackets.
var braces = regexp.MustCompile(`[:,\[{]\s*([^\s'",:\[\]{}][^'",:\[\]{}]*(?:\{[{%][^}%]*[}%]\}[^'",\[\]{}]*)+)`)

// stars is an unquoted pattern in a mapping or list in brackets.
var stars = regexp.MustCompile(`[:,\[{]\s*(\*(?:\*|/|[^\s,\[\]{}'"]*/)[^\s,\[\]{}'"]*)`)

// bracketHint explains text in the place of a mapping or list in brackets, and unquoted templates inside of such.
func bracketHint(value string, show bool) string {
	if m := braces.FindStringSubmatch(value); m != nil {
		return fmt.Sprintf("inside of %c, a text with braces needs quotes%s", value[0], example(strings.TrimSpace(m[1]), show))
	}
	if m := stars.FindStringSubmatch(value); m != nil {
		return "YAML reads * as the start of an alias; put the text in quotes" + example(m[1], show)
	}
	depth := 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '"', '\'':
			if end := closing(value[i:]); end > 0 {
				i += end
			}
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				if rest := strings.TrimSpace(value[i+1:]); rest != "" && rest[0] != '#' && rest[0] != ':' {
					return fmt.Sprintf("YAML reads %c as the start of a %s, and more follows its end; put the text in quotes%s",
						value[0], map[byte]string{'[': "list", '{': "mapping"}[value[0]], example(value, show))
				}
				return ""
			}
		}
	}
	return ""
}

// indentHint explains a line that is indented differently from those it belongs to.
func indentHint(lines []string, line int) (at int, message string) {
	// A line below that is indented deeper is read as more of this one's text.
	if next := below(lines, line); next > 0 {
		head, value := split(lines[line-1])
		if _, deeper := indentation(lines[line-1], " "), indentation(lines[next-1], " "); head != "" && value != "" && keyForm.MatchString(lines[next-1]) &&
			deeper > indentation(lines[line-1], " -") && strings.IndexByte("|>", value[0]) < 0 {
			return next, fmt.Sprintf("the line is indented deeper than line %d, which has a value already; indent both alike, by %s", line, spaces(indentation(lines[line-1], " ")))
		}
	}
	open := []int{} // the indentations above that this line may go back to
	for _, text := range lines[:line-1] {
		trimmed := strings.TrimSpace(text)
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		n := indentation(text, " ")
		for len(open) > 0 && open[len(open)-1] > n {
			open = open[:len(open)-1]
		}
		if len(open) == 0 || open[len(open)-1] < n {
			open = append(open, n)
		}
	}
	n := indentation(lines[line-1], " ")
	if above := before(lines, line); above > 0 && n <= indentation(lines[above-1], " ") && !keyForm.MatchString(lines[line-1]) {
		if _, value := split(lines[above-1]); value != "" && strings.IndexByte("|>", value[0]) >= 0 {
			return line, fmt.Sprintf("the text is not indented deeper than its key in line %d; indent it by %s", above, spaces(indentation(lines[above-1], " ")+2))
		}
	}
	i, found := slices.BinarySearch(open, n)
	if found || i == 0 || i == len(open) {
		return 0, ""
	}
	return line, fmt.Sprintf("the line is indented by %s; expected %d or %d, as lines above", spaces(n), open[i-1], open[i])
}

// below and before return the nearest line that is not empty; 0 if there is none.
func below(lines []string, line int) int {
	for i := line; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) != "" {
			return i + 1
		}
	}
	return 0
}

func before(lines []string, line int) int {
	for i := line - 2; i >= 0; i-- {
		if strings.TrimSpace(lines[i]) != "" {
			return i + 1
		}
	}
	return 0
}

// indentation counts the characters of a set at the start of a line.
func indentation(text, set string) int { return len(text) - len(strings.TrimLeft(text, set)) }

func spaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return strconv.Itoa(n) + " spaces"
}

// example returns a text in quotes, behind words that say so.
func example(text string, show bool) string {
	if !show {
		return ""
	}
	return ", such as " + Quote(text)
}

// Quote writes a text in the quotes that need the fewest changes, shortened for an error.
func Quote(text string) string {
	text = wording.Clip(text)
	if strings.Contains(text, "'") && !strings.ContainsAny(text, `"\`) {
		return `"` + text + `"`
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
