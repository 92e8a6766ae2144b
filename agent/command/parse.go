package command

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/wording"
)

// maxName bounds the name of a command, in bytes: what is longer is no slip of the pen.
const maxName = 64

// Args are the arguments of a command, by the names of its parameters. One that is given as "" is as one that is left out.
type Args struct{ values map[string]string }

// Get returns an argument, "" where there is none.
func (a Args) Get(name string) string { return a.values[name] }

func isSpace(r rune) bool { return unicode.IsSpace(r) }

// isName says whether a word has the form of a command's name: it begins with a letter and goes on with letters, digits, "." "_"
// and "-".
func isName(word string) bool {
	if len(word) == 0 || len(word) > maxName {
		return false
	}
	for i := range len(word) {
		c := word[i] | 0x20 // small
		letter := 'a' <= c && c <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789._-", rune(word[i]))) {
			return false
		}
	}
	return true
}

// parse gives the words behind a command's name to its parameters.
func parse(c *Command, text string) (Args, error) {
	list, err := words(text)
	if err != nil {
		return Args{}, err
	}
	a := Args{values: map[string]string{}}
	places := 0
	var named *Param // the last that was given by name
	for _, w := range list {
		if name, value, ok := w.option(); ok {
			if named = c.param(name); named == nil {
				return Args{}, fmt.Errorf("`,%s` has no argument %q (to use the word as text, put it in quotes)", c.Name, name)
			}
			if _, twice := a.values[named.Name]; twice {
				return Args{}, fmt.Errorf("the argument %q occurs twice; remove one", named.Name)
			}
			a.values[named.Name] = value
			continue
		}
		switch n := len(c.Params); {
		case named != nil && named.Rest: // people forget the quotes
			a.values[named.Name] += " " + w.text
		case named != nil:
			return Args{}, fmt.Errorf("%q follows %s= without a name; put a value with spaces in quotes", wording.ClipTo(w.text, maxName), named.Name)
		case places < n:
			a.values[c.Params[places].Name] = w.text
			places++
		case n > 0 && c.Params[n-1].Rest:
			a.values[c.Params[n-1].Name] += " " + w.text
		default:
			return Args{}, fmt.Errorf("unexpected argument %q", wording.ClipTo(w.text, maxName))
		}
	}
	for _, p := range c.Params {
		if p.Required && strings.TrimSpace(a.values[p.Name]) == "" {
			return Args{}, fmt.Errorf("the argument %q is missing", p.Name)
		}
	}
	return a, nil
}

func (c *Command) param(name string) *Param {
	for i := range c.Params {
		if strings.EqualFold(c.Params[i].Name, name) {
			return &c.Params[i]
		}
	}
	return nil
}

// word is a word of a command line, without its quotes.
type word struct {
	text string
	bare int // how many bytes at the beginning stood neither in quotes nor behind a backslash
}

// option splits name=value: the name and the equals sign stand outside of quotes.
func (w word) option() (name, value string, ok bool) {
	name, value, ok = strings.Cut(w.text, "=")
	return name, value, ok && len(name) < w.bare && isName(name)
}

// words cuts a text as a shell does that expands nothing: at white space; what is between single quotes stands as it is; between
// double quotes a backslash takes the meaning from a quote or a backslash, outside of quotes from any character.
func words(text string) ([]word, error) {
	var (
		list  []word
		b     strings.Builder
		open  bool // a word has begun
		mixed bool // it has had a quote or a backslash
		bare  int
	)
	quoting := func() {
		if !mixed {
			bare = b.Len()
		}
		open, mixed = true, true
	}
	end := func() {
		if open {
			if !mixed {
				bare = b.Len()
			}
			list = append(list, word{b.String(), bare})
			b.Reset()
			open, mixed = false, false
		}
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case isSpace(r):
			end()
		case r == '\'':
			quoting()
			n := strings.IndexByte(text[i+1:], '\'')
			if n < 0 {
				return nil, unclosed('\'', text[i:])
			}
			b.WriteString(text[i+1 : i+1+n])
			size += n + 1
		case r == '"':
			quoting()
			n, ok := double(&b, text[i+1:])
			if !ok {
				return nil, unclosed('"', text[i:])
			}
			size += n
		case r == '\\':
			quoting()
			if i+1 == len(text) {
				return nil, fmt.Errorf("the text ends with a backslash; write \\\\ for a backslash")
			}
			_, n := utf8.DecodeRuneInString(text[i+1:])
			b.WriteString(text[i+1 : i+1+n])
			size += n
		default:
			open = true
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	end()
	return list, nil
}

// double reads the inside of double quotes up to the end of the closing one, and says how many bytes that are.
func double(b *strings.Builder, text string) (n int, ok bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i + 1, true
		case c == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return 0, false
}

func unclosed(quote rune, text string) error {
	return fmt.Errorf("the quote that starts at %q has no end; write \\%c for the character itself", wording.ClipTo(text, 24), quote)
}

// near is the command whose name is close to one that there is not: a slip of the pen, or its last part alone.
func (s *Set) near(name string) *Command {
	var best *Command
	most := min(1, len(name)-2)
	if len(name) > 5 {
		most = 2
	}
	for _, c := range s.list {
		if strings.HasSuffix(c.Name, "."+name) {
			return c
		}
		if d := edits.Between(name, c.Name, most); d <= most {
			best, most = c, d-1
		}
	}
	return best
}
