package demo

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxItems bounds the lists that a schema can ask for.
const maxItems = 100

// fit makes a document that fits a JSON Schema, as far as its types, bounds, required members, enumerations, formats and
// references go. A regular expression is not followed. false where the schema cannot be read or has no end.
func fit(schema []byte, user string) (string, bool) {
	root, ok := parse(string(schema))
	if !ok {
		return "", false
	}
	f := &fitter{root: root, question: quoted(user)}
	doc := f.value("this", root, 0)
	if f.failed {
		return "", false
	}
	return write(doc), true
}

type fitter struct {
	root     value
	question string
	hint     *hint // of arguments of a tool; nil for documents
	said     bool  // the notice has found a place
	values   int
	failed   bool
}

// value makes a value for the schema s, which stands at key.
func (f *fitter) value(key string, s value, depth int) value {
	if f.values++; f.values > 10_000 || depth > maxDepth {
		f.failed = true
	}
	if f.failed {
		return raw("null")
	}
	if s.raw == "false" {
		f.failed = true
	}
	if s.kind != 'o' { // true: anything
		return f.text(key, s)
	}
	if ref, ok := s.get("$ref"); ok {
		target, ok := f.resolve(ref.decoded)
		if !ok {
			f.failed = true
			return raw("null")
		}
		return f.value(key, target, depth+1)
	}
	if c, ok := s.get("const"); ok {
		return c
	}
	if e, ok := s.get("enum"); ok && len(e.items) > 0 {
		if f.hint != nil {
			return f.hint.choose(e.items)
		}
		return e.items[0]
	}
	if all, ok := s.get("allOf"); ok {
		s = merge(f, s, all.items)
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if some, ok := s.get(name); ok && len(some.items) > 0 {
			s = merge(f, s, some.items[:1])
			return f.value(key, s, depth+1)
		}
	}
	switch f.typeOf(s) {
	case "object":
		return f.object(s, depth)
	case "array":
		return f.array(key, s, depth)
	case "integer":
		return raw(strconv.FormatInt(int64(f.number(s, true)), 10))
	case "number":
		return raw(strconv.FormatFloat(f.number(s, false), 'f', -1, 64))
	case "boolean":
		return raw("true")
	case "null":
		return raw("null")
	}
	return f.text(key, s)
}

func (f *fitter) typeOf(s value) string {
	t, _ := s.get("type")
	switch {
	case t.kind == 's':
		return t.decoded
	case t.kind == 'a' && len(t.items) > 0:
		return t.items[0].decoded
	case s.has("properties") || s.has("required"):
		return "object"
	case s.has("items") || s.has("prefixItems"):
		return "array"
	case s.has("minimum") || s.has("maximum"):
		return "number"
	}
	return "string"
}

func (f *fitter) object(s value, depth int) value {
	out := value{kind: 'o'}
	properties, _ := s.get("properties")
	var required []string
	if r, ok := s.get("required"); ok {
		for _, item := range r.items {
			required = append(required, item.decoded)
		}
	}
	for i, name := range properties.keys {
		// What may be left out is left out once it is deep: schemas that refer to themselves end so.
		if !slices.Contains(required, name) && (depth > 4 || f.hint != nil || properties.items[i].raw == "false") {
			continue
		}
		out.keys = append(out.keys, name)
		out.items = append(out.items, f.value(name, properties.items[i], depth+1))
	}
	for _, name := range required {
		if !slices.Contains(out.keys, name) {
			other, ok := s.get("additionalProperties")
			if !ok {
				other = raw("true")
			}
			out.keys = append(out.keys, name)
			out.items = append(out.items, f.value(name, other, depth+1))
		}
	}
	for i := 1; len(out.keys) < size(s, "minProperties", 0); i++ {
		out.keys = append(out.keys, fmt.Sprintf("member%d", i))
		out.items = append(out.items, f.value("member", raw("true"), depth+1))
	}
	return out
}

func (f *fitter) array(key string, s value, depth int) value {
	out := value{kind: 'a'}
	least, most := size(s, "minItems", 0), size(s, "maxItems", math.MaxInt32)
	n := min(max(least, 2), most)
	if depth > 4 {
		n = least
	}
	prefix, _ := s.get("prefixItems")
	items, ok := s.get("items")
	if !ok {
		items = raw("true")
	}
	if len(prefix.items) > 0 {
		n = min(max(len(prefix.items), least), most)
	}
	if n > maxItems {
		f.failed = true
		return out
	}
	for i := range n {
		schema := items
		if i < len(prefix.items) {
			schema = prefix.items[i]
		}
		item := f.value(key, schema, depth+1)
		if unique, _ := s.get("uniqueItems"); unique.raw == "true" {
			item = differ(item, out.items, schema)
		}
		out.items = append(out.items, item)
	}
	return out
}

// differ changes a scalar until it is not among the others.
func differ(v value, others []value, schema value) value {
	same := func(o value) bool { return string(o.append(nil)) == string(v.append(nil)) }
	enum, _ := schema.get("enum")
	for i := 0; slices.ContainsFunc(others, same) && i < maxItems; i++ {
		switch {
		case i < len(enum.items):
			v = enum.items[i]
		case v.kind == 's':
			v = str(fmt.Sprintf("%s %d", v.decoded, i+2))
		case v.kind == 'x':
			n, err := strconv.ParseFloat(v.raw, 64)
			if err != nil {
				return v
			}
			v = raw(strconv.FormatFloat(n+1, 'f', -1, 64))
		default:
			return v
		}
	}
	return v
}

// formats are examples of what JSON Schema's formats ask for.
var formats = map[string]string{
	"date-time": "2026-01-31T12:00:00Z", "date": "2026-01-31", "time": "12:00:00Z", "duration": "PT1H",
	"email": "demo@example.com", "idn-email": "demo@example.com", "hostname": "example.com", "idn-hostname": "example.com",
	"ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "uri-reference": "/demo", "iri": "https://example.com/",
	"uuid": "00000000-0000-4000-8000-000000000000", "json-pointer": "/demo", "regex": "demo",
}

func (f *fitter) text(key string, s value) value {
	if format, ok := s.get("format"); ok {
		if example, ok := formats[format.decoded]; ok {
			return str(example)
		}
	}
	least, most := size(s, "minLength", 0), size(s, "maxLength", math.MaxInt32)
	text := "scripted text for " + key
	if f.hint != nil {
		if given, ok := f.hint.text(); ok {
			text = given
		}
	} else if said := notice + " You asked: " + f.question; !f.said && utf8.RuneCountInString(said) <= most {
		f.said, text = true, said
	}
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most])
	}
	if n := utf8.RuneCountInString(text); n < least {
		if least > 1<<16 {
			f.failed = true
			return str("")
		}
		text += strings.Repeat(".", least-n)
	}
	return str(text)
}

// number finds one between the bounds of a schema, 1 where there are none.
func (f *fitter) number(s value, whole bool) float64 {
	if f.hint != nil {
		if n, ok := f.hint.number(s, whole); ok {
			return n
		}
	}
	bound := func(name string, otherwise float64) float64 {
		v, ok := s.get(name)
		n, err := strconv.ParseFloat(v.raw, 64)
		if !ok || err != nil {
			return otherwise
		}
		return n
	}
	step := 1.0
	low, high := bound("minimum", math.Inf(-1)), bound("maximum", math.Inf(1))
	if x := bound("exclusiveMinimum", math.Inf(-1)); x >= low && !math.IsInf(x, 0) {
		low = x + step
		if !whole {
			low = math.Nextafter(x, math.Inf(1))
			if bound("exclusiveMaximum", high) > x+step {
				low = x + step
			}
		}
	}
	if x := bound("exclusiveMaximum", math.Inf(1)); x <= high && !math.IsInf(x, 0) {
		high = x - step
		if !whole {
			high = math.Nextafter(x, math.Inf(-1))
		}
	}
	n := min(max(1, low), high)
	if whole {
		n = math.Ceil(n)
		if n > high {
			n = math.Floor(high)
		}
	}
	if m := bound("multipleOf", 0); m > 0 {
		n = math.Ceil(n/m) * m
		if n > high {
			n = math.Floor(high/m) * m
		}
	}
	return n
}

func size(s value, name string, otherwise int) int {
	v, ok := s.get(name)
	n, err := strconv.Atoi(v.raw)
	if !ok || err != nil || n < 0 {
		return otherwise
	}
	return n
}

// merge puts the members of schemas into s; properties and required are joined.
func merge(f *fitter, s value, schemas []value) value {
	out := value{kind: 'o'}
	set := func(key string, v value) {
		i := slices.Index(out.keys, key)
		if i < 0 {
			out.keys, out.items = append(out.keys, key), append(out.items, v)
			return
		}
		if key == "properties" || key == "required" {
			old := out.items[i]
			out.items[i] = value{kind: old.kind, keys: slices.Concat(old.keys, v.keys), items: slices.Concat(old.items, v.items)}
			return
		}
		out.items[i] = v
	}
	for i, key := range s.keys {
		if key != "allOf" && key != "anyOf" && key != "oneOf" {
			set(key, s.items[i])
		}
	}
	for _, other := range schemas {
		if ref, ok := other.get("$ref"); ok {
			if other, ok = f.resolve(ref.decoded); !ok {
				f.failed = true
			}
		}
		for i, key := range other.keys {
			set(key, other.items[i])
		}
	}
	return out
}

// resolve finds what a reference into the schema itself stands for.
func (f *fitter) resolve(ref string) (value, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return value{}, false
	}
	v := f.root
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if name == "" {
			break
		}
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		if i, err := strconv.Atoi(name); err == nil && v.kind == 'a' && 0 <= i && i < len(v.items) {
			v = v.items[i]
			continue
		}
		if v, ok = v.get(name); !ok {
			return value{}, false
		}
	}
	return v, true
}
