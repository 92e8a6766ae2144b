package command

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/turn"
)

// maxName is how many bytes of a wrong name or argument an answer repeats.
const maxName = 64

// Args are the arguments of a command, by the names of its parameters. One that is given as "" is as one that is left out.
type Args map[string]string

// parse gives the words behind a command's name to its parameters.
func parse(c *Command, text string) (Args, error) {
	list, err := words(text)
	if err != nil {
		return nil, err
	}
	a := Args{}
	places := 0
	var named *Param // the last that was given by name
	for _, w := range list {
		if name, value, ok := w.option(); ok {
			if named = c.param(name); named == nil {
				return nil, fmt.Errorf("`,%s` has no argument %q (to use the word as text, put it in quotes)", c.Name, name)
			}
			if _, twice := a[named.Name]; twice {
				return nil, fmt.Errorf("the argument %q occurs twice; remove one", named.Name)
			}
			a[named.Name] = value
			continue
		}
		switch n := len(c.Params); {
		case named != nil && named.Rest: // people forget the quotes
			a[named.Name] += " " + w.text()
		case named != nil:
			return nil, fmt.Errorf("%q follows %s= without a name; put a value with spaces in quotes", wording.ClipTo(w.text(), maxName), named.Name)
		case places < n:
			a[c.Params[places].Name] = w.text()
			places++
		case n > 0 && c.Params[n-1].Rest:
			a[c.Params[n-1].Name] += " " + w.text()
		default:
			return nil, fmt.Errorf("unexpected argument %q", wording.ClipTo(w.text(), maxName))
		}
	}
	for _, p := range c.Params {
		if p.Required && strings.TrimSpace(a[p.Name]) == "" {
			return nil, fmt.Errorf("the argument %q is missing", p.Name)
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

// word is a word of a command line, with its quotes.
type word string

var (
	// A word is text, escaped characters and text in quotes, without a space between them.
	wordPattern   = regexp.MustCompile(`(?s)^(?:[^\s\v\x{85}\pZ'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*`)
	quotedPattern = regexp.MustCompile(`(?s)\\.|'[^']*'|"(?:[^"\\]|\\.)*"`)
	escapePattern = regexp.MustCompile(`\\(["\\])`)
)

// words splits a text as a shell does that expands nothing: at white space. Text between single quotes stays as it is; between
// double quotes a backslash escapes a quote or a backslash, outside of quotes any character.
func words(text string) (list []word, err error) {
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if text == "" {
			return list, nil
		}
		w := wordPattern.FindString(text)
		text = text[len(w):]
		if strings.HasPrefix(text, `\`) {
			return nil, errors.New("the text ends with a backslash; write \\\\ for a backslash")
		}
		if strings.HasPrefix(text, `'`) || strings.HasPrefix(text, `"`) {
			return nil, fmt.Errorf("the quote that starts at %q has no end; write \\%c for the character itself", wording.ClipTo(text, 24), text[0])
		}
		list = append(list, word(w))
	}
}

// text returns the word without its quotes.
func (w word) text() string {
	return quotedPattern.ReplaceAllStringFunc(string(w), func(piece string) string {
		switch piece[0] {
		case '\'':
			return piece[1 : len(piece)-1]
		case '"':
			return escapePattern.ReplaceAllString(piece[1:len(piece)-1], "$1")
		}
		return piece[1:]
	})
}

// option splits name=value: the name and the equals sign are not in quotes.
func (w word) option() (name, value string, ok bool) {
	name, rest, ok := strings.Cut(string(w), "=")
	_, valid := turn.CommandName("," + name)
	return name, word(rest).text(), ok && valid
}
