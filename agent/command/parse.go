package command

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/turn"
)

// maxName is how many bytes of a wrong name or argument an answer repeats.
const maxName = 64

// Args are the arguments of a command, by the names of its parameters. One that is given as "" is as one that is left out.
type Args struct{ values map[string]string }

// Get returns an argument, "" if it is missing.
func (a Args) Get(name string) string { return a.values[name] }

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
	bare int // the bytes before the first quote or backslash
}

// option splits name=value: the name and the equals sign are not in quotes.
func (w word) option() (name, value string, ok bool) {
	name, value, ok = strings.Cut(w.text, "=")
	_, valid := turn.CommandName("," + name)
	return name, value, ok && len(name) < w.bare && valid
}

// words splits a text as a shell does that expands nothing: at white space. Text between single quotes stays as it is; between
// double quotes a backslash escapes a quote or a backslash, outside of quotes any character.
func words(text string) ([]word, error) {
	var (
		list  []word
		b     strings.Builder
		open  bool       // a word has begun
		bare  int        // of this word; -1 while there was neither a quote nor a backslash
		quote rune       // the open one
		start = 0        // of the open quote
		end   = func() { // of a word
			if open {
				if bare < 0 {
					bare = b.Len()
				}
				list = append(list, word{b.String(), bare})
				b.Reset()
			}
			open, bare = false, -1
		}
	)
	end()
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		char := text[i : i+size]
		if quote == 0 && unicode.IsSpace(r) {
			end()
			i += size
			continue
		}
		open = true
		if bare < 0 && strings.ContainsAny(char, `'"\`) {
			bare = b.Len()
		}
		after := text[i+size:]
		switch {
		case r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, start = r, i
		case r == '\\' && (quote == 0 || quote == '"' && after != "" && (after[0] == '"' || after[0] == '\\')):
			if after == "" {
				return nil, errors.New("the text ends with a backslash; write \\\\ for a backslash")
			}
			_, n := utf8.DecodeRuneInString(after)
			b.WriteString(after[:n])
			size += n
		default:
			b.WriteString(char)
		}
		i += size
	}
	if quote != 0 {
		return nil, fmt.Errorf("the quote that starts at %q has no end; write \\%c for the character itself", wording.ClipTo(text[start:], 24), quote)
	}
	end()
	return list, nil
}

// near returns the command whose name is close to an unknown one, or ends with it; nil for none.
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
