package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// value is a JSON value whose members keep their order: documents are written in the order in which they were asked for.
type value struct {
	raw     string // of a scalar: its JSON text
	keys    []string
	items   []value
	kind    byte   // 's' string, 'o' object, 'a' array, 'x' number or literal
	decoded string // of a string
}

func str(s string) value { return value{kind: 's', decoded: s} }

func raw(text string) value { return value{kind: 'x', raw: text} }

func array(items ...value) value { return value{kind: 'a', items: items} }

// object makes an object of name, value, name, value…
func object(members ...any) value {
	v := value{kind: 'o'}
	for i := 0; i < len(members); i += 2 {
		v.keys = append(v.keys, members[i].(string))
		v.items = append(v.items, members[i+1].(value))
	}
	return v
}

func (v value) get(key string) (value, bool) {
	if i := slices.Index(v.keys, key); v.kind == 'o' && i >= 0 {
		return v.items[i], true
	}
	return value{}, false
}

// has says whether v is an object with all of these members.
func (v value) has(keys ...string) bool {
	for _, k := range keys {
		if _, ok := v.get(k); !ok {
			return false
		}
	}
	return true
}

// write gives the JSON text of v, indented as models do.
func write(v value) string {
	var b bytes.Buffer
	if err := json.Indent(&b, v.append(nil), "", "  "); err != nil {
		panic("demo: a value is always JSON: " + err.Error())
	}
	return b.String()
}

func (v value) append(b []byte) []byte {
	switch v.kind {
	case 's':
		text, _ := rawjson.Marshal(v.decoded) // a string always can be
		return append(b, text...)
	case 'o', 'a':
		open, end := byte('['), byte(']')
		if v.kind == 'o' {
			open, end = '{', '}'
		}
		b = append(b, open)
		for i, item := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			if v.kind == 'o' {
				b = append(str(v.keys[i]).append(b), ':')
			}
			b = item.append(b)
		}
		return append(b, end)
	}
	return append(b, v.raw...)
}

// maxDepth bounds what is read: it is followed by recursion.
const maxDepth = 64

var errDeep = errors.New("too deep")

// read reads one JSON value.
func read(d *json.Decoder, depth int) (value, error) {
	if depth > maxDepth {
		return value{}, errDeep
	}
	t, err := d.Token()
	if err != nil {
		return value{}, err
	}
	switch t := t.(type) {
	case string:
		return str(t), nil
	case json.Number:
		return raw(t.String()), nil
	case bool:
		if t {
			return raw("true"), nil
		}
		return raw("false"), nil
	case nil:
		return raw("null"), nil
	case json.Delim:
		v := value{kind: 'a'}
		if t == '{' {
			v.kind = 'o'
		}
		for d.More() {
			if v.kind == 'o' {
				key, err := d.Token()
				if err != nil {
					return value{}, err
				}
				name, ok := key.(string)
				if !ok {
					return value{}, io.ErrUnexpectedEOF
				}
				v.keys = append(v.keys, name)
			}
			item, err := read(d, depth+1)
			if err != nil {
				return value{}, err
			}
			v.items = append(v.items, item)
		}
		_, err := d.Token()
		return v, err
	}
	return value{}, io.ErrUnexpectedEOF
}

func parse(text string) (value, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := read(d, 0)
	return v, err == nil
}

// findExample finds the first JSON object that a prompt shows: one that begins at a line's start, or in a fence.
func findExample(prompt string) (value, bool) {
	for rest := prompt; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "{") {
			if v, ok := parse(rest); ok && v.kind == 'o' && len(v.keys) > 0 {
				return v, true
			}
		}
		rest = after
	}
	return value{}, false
}

// fill makes a document of the shape of an example: its numbers and literals are kept, and so are its texts, marked as what they
// are; the first one repeats the question.
func fill(example value, user string) string {
	mark := "(scripted, for " + "“" + short(oneLine(user), 60) + "”)"
	var walk func(key string, v value) value
	walk = func(key string, v value) value {
		switch v.kind {
		case 's':
			if choice, _, ok := strings.Cut(v.decoded, "|"); ok {
				return str(strings.TrimSpace(choice)) // "yes|no" stands for one of them
			}
			text := short(oneLine(v.decoded), 80)
			if strings.Trim(text, ". …") == "" {
				text = "some " + key
			}
			text += " " + mark
			mark = "(scripted)"
			return str(text)
		case 'o', 'a':
			out := v
			out.items = nil
			for i, item := range v.items {
				if v.kind == 'o' {
					key = v.keys[i]
				}
				out.items = append(out.items, walk(key, item))
			}
			return out
		}
		return v
	}
	return write(walk("text", example))
}
