package prompt

import (
	"slices"
	"strings"
	"unicode/utf8"
)

type tokenKind byte

const (
	identifier tokenKind = iota
	keyword
	number
	text
	symbol
)

type token struct {
	kind   tokenKind
	text   string
	offset int
}

func (t token) is(symbols ...string) bool {
	return t.kind == symbol && slices.Contains(symbols, t.text)
}

// symbols and keywords are pongo2's, in the order in which it tries them.
var (
	symbols = []string{
		"{{-", "-}}", "{%-", "-%}",
		"==", ">=", "<=", "&&", "||", "{{", "}}", "{%", "%}", "!=", "<>",
		"(", ")", "+", "-", "*", "<", ">", "/", "^", ",", ".", "!", "|", ":", "=", "%", "[", "]",
	}
	keywords = []string{"in", "and", "or", "not", "true", "false", "as", "export"}
)

// tokens reads the tag or variable at s.pos: its opening and closing symbols and the tokens between them.
func (s *scanner) tokens() (open token, body []token, shut token, failure *Error) {
	pos := s.pos
	first := true
	for pos < len(s.text) {
		c := s.text[pos]
		start := pos
		switch {
		case c == '\n':
			return open, body, shut, s.fail(pos, "close the tag or variable on its line")
		case c == ' ' || c == '\r' || c == '\t':
			pos++
			continue
		case isLetter(c), isDigit(c):
			digits := true
			for pos < len(s.text) && (isLetter(s.text[pos]) || isDigit(s.text[pos])) {
				digits = digits && isDigit(s.text[pos])
				pos++
			}
			word := s.text[start:pos]
			switch {
			case digits:
				body = append(body, token{number, word, start})
			case slices.Contains(keywords, word):
				body = append(body, token{keyword, word, start})
			default:
				body = append(body, token{identifier, word, start})
			}
		case c == '"' || c == '\'':
			end, failure := s.quoted(pos)
			if failure != nil {
				return open, body, shut, failure
			}
			body = append(body, token{text, s.text[pos+1 : end-1], start})
			pos = end
		default:
			sym := ""
			for _, candidate := range symbols {
				if strings.HasPrefix(s.text[pos:], candidate) {
					sym = candidate
					break
				}
			}
			if sym == "" {
				r, _ := utf8.DecodeRuneInString(s.text[pos:])
				return open, body, shut, s.fail(pos, "unexpected character %q in a tag or variable", r)
			}
			pos += len(sym)
			t := token{symbol, sym, start}
			switch {
			case first:
				open = t
			case strings.HasPrefix(sym, "{"):
				return open, body, shut, s.fail(start, "unexpected %q in a tag or variable", sym)
			case strings.HasSuffix(sym, "}"):
				s.pos = pos
				return open, body, t, nil
			default:
				body = append(body, t)
			}
		}
		first = false
		if len(body) > maxTokens {
			return open, body, shut, s.fail(open.offset, "a tag or variable has more than %d words and signs", maxTokens)
		}
	}
	return open, body, shut, s.fail(s.pos, "the tag or variable is not closed")
}

// quoted returns the offset after the string that begins at pos.
func (s *scanner) quoted(pos int) (int, *Error) {
	quote := s.text[pos]
	for i := pos + 1; i < len(s.text); i++ {
		switch s.text[i] {
		case quote:
			return i + 1, nil
		case '\n':
			return 0, s.fail(pos, "close the string on its line")
		case '\\':
			i++
			if i >= len(s.text) || s.text[i] != '"' && s.text[i] != '\\' {
				return 0, s.fail(i-1, `unknown escape in a string; expected \" or \\`)
			}
		}
	}
	return 0, s.fail(pos, "the string is not closed")
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

func isName(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && !(isDigit(s[i]) && i > 0) {
			return false
		}
	}
	return s != ""
}
