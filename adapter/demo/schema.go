package demo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/buger/jsonparser"

	"github.com/lingserve/lingserve/internal/rawjson"
)

const (
	maxItems     = 100 // of a list
	maxDepth     = 64  // of a document
	maxMinLength = 1 << 16
	// Optional members deeper than this are left out, so that schemas that refer to themselves end.
	maxOptionalDepth = 4

	// A schema may ask for an endless document. Work is counted in bytes that are read, for each value, and for each byte of a text,
	// since the tokens of an answer are in memory.
	maxWork   = 16 << 20
	valueWork = 1 << 10
	textWork  = 16
)

// schema has the members of a JSON Schema that the script follows. It ignores regular expressions.
type schema struct {
	Ref                                    string `json:"$ref"`
	Const, Items, AdditionalProperties     json.RawMessage
	Enum, AllOf, AnyOf, OneOf, PrefixItems []json.RawMessage
	Type                                   any
	Required                               []string
	Properties                             json.RawMessage
	MinProperties, MinItems, MinLength     int
	MaxItems, MaxLength                    int
	UniqueItems                            bool
	Format                                 string
	Minimum, Maximum, MultipleOf           *float64
	ExclusiveMinimum, ExclusiveMaximum     *float64

	properties []json.RawMessage // of all parts
	references int               // to parts; each is a level of depth
}

// fitter makes a document that fits a schema: its types, bounds, required members, enumerations, formats and references.
type fitter struct {
	root   json.RawMessage
	notice string // for the first text that can have it
	index  int    // of the item in a list of unique items
	work   int
	failed bool // the schema cannot be met

	// The document is the arguments of a tool: it has no optional members.
	arguments bool
	hints
}

func newFitter(root json.RawMessage) *fitter {
	return &fitter{root: bytes.ToValidUTF8(root, nil), failed: !json.Valid(root)}
}

// fit makes an indented document. ok is false if the schema cannot be met.
func fit(root json.RawMessage, question string) (document string, ok bool) {
	f := newFitter(root)
	f.notice = notice + " You asked: " + quoted(question)
	value := f.make("this", f.root, 0)
	if f.failed {
		return "", false
	}
	return writeJSON(json.RawMessage(value)), true
}

// spend fails when the document becomes too much work.
func (f *fitter) spend(work int) {
	f.work += work
	f.failed = f.failed || f.work > maxWork
}

// join reads a schema into s, with its parts: all of allOf, the first of anyOf and of oneOf, and the target of $ref.
func (f *fitter) join(s *schema, raw json.RawMessage) {
	f.spend(valueWork + len(raw))
	if f.failed = f.failed || len(raw) == 0 || string(raw) == "false"; f.failed {
		return
	}
	required := s.Required
	s.Ref, s.AllOf, s.AnyOf, s.OneOf, s.Required, s.Properties = "", nil, nil, nil, nil, nil
	_ = json.Unmarshal(raw, s) // ignores members of unexpected types
	if s.Required = append(required, s.Required...); s.Properties != nil {
		s.properties = append(s.properties, s.Properties)
	}
	parts := slices.Concat(s.AllOf, s.AnyOf[:min(1, len(s.AnyOf))], s.OneOf[:min(1, len(s.OneOf))])
	if s.Ref != "" {
		s.references++
		parts = append(parts, f.resolve(s.Ref))
	}
	for _, part := range parts {
		f.join(s, part)
	}
}

// resolve finds the target of a reference into the schema itself. It returns an empty text without one.
func (f *fitter) resolve(ref string) (target json.RawMessage) {
	f.spend(len(f.root))
	if strings.HasPrefix(ref, "#") {
		target = f.root
	}
	for _, name := range strings.Split(ref, "/")[1:] {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		value, _, _, err := jsonparser.Get(target, name)
		if err != nil {
			value, _, _, _ = jsonparser.Get(target, "["+name+"]")
		}
		target = value
	}
	return target
}

// make returns JSON text for a schema; name is the member that it is for.
func (f *fitter) make(name string, raw json.RawMessage, depth int) string {
	s := &schema{MaxItems: math.MaxInt, MaxLength: math.MaxInt}
	f.join(s, raw)
	kind := s.Type
	if types, ok := kind.([]any); ok && len(types) > 0 {
		kind = types[0]
	}
	depth += s.references
	f.failed = f.failed || depth > maxDepth
	switch {
	case f.failed || kind == "null":
		return "null"
	case s.Const != nil:
		return string(s.Const)
	case len(s.Enum) > 0:
		return f.choose(s.Enum)
	case kind == "object" || kind == nil && (s.properties != nil || s.Required != nil):
		return f.makeObject(s, depth)
	case kind == "array":
		return f.makeArray(name, s, depth)
	case kind == "integer" || kind == "number":
		return strconv.FormatFloat(f.findNumber(s, kind == "integer"), 'f', -1, 64)
	case kind == "boolean":
		return "true"
	case kind == nil && f.arguments && depth == 0:
		return "{}" // the schema does not say what the arguments are
	}
	return f.makeText(name, s)
}

// choose returns the value of an enumeration that the question names, or else the next.
func (f *fitter) choose(values []json.RawMessage) string {
	for _, value := range values {
		var text string
		if json.Unmarshal(value, &text) == nil && text != "" && strings.Contains(f.question, strings.ToLower(text)) {
			return string(value)
		}
	}
	return string(values[min(f.index, len(values)-1)])
}

func (f *fitter) makeObject(s *schema, depth int) string {
	var members []string
	made := map[string]bool{}
	add := func(name string, schema json.RawMessage) {
		if !made[name] {
			made[name] = true
			members = append(members, writeJSON(name)+":"+f.make(name, schema, depth+1))
		}
	}
	for _, properties := range s.properties {
		for name, schema := range rawjson.Members(properties) {
			optional := depth > maxOptionalDepth || f.arguments || string(schema) == "false"
			if !optional || slices.Contains(s.Required, name) {
				add(name, schema)
			}
		}
	}
	other := json.RawMessage(cmp.Or(string(s.AdditionalProperties), "true"))
	for _, name := range s.Required {
		add(name, other)
	}
	for i := 1; len(made) < s.MinProperties && !f.failed; i++ {
		add(fmt.Sprintf("member%d", i), json.RawMessage("true"))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (f *fitter) makeArray(name string, s *schema, depth int) string {
	n := len(s.PrefixItems)
	if n == 0 && depth <= maxOptionalDepth {
		n = 2
	}
	n = min(max(n, s.MinItems), s.MaxItems)
	f.failed = f.failed || n > maxItems
	var items []string
	for i := 0; i < n && !f.failed; i++ {
		schema := json.RawMessage(cmp.Or(string(s.Items), "true"))
		if i < len(s.PrefixItems) {
			schema = s.PrefixItems[i]
		}
		if s.UniqueItems {
			f.index = i
		}
		items = append(items, f.make(name, schema, depth+1))
	}
	f.index = 0
	return "[" + strings.Join(items, ",") + "]"
}

// formats are examples of the formats of JSON Schema.
var formats = map[string]string{
	"date-time": "2026-01-31T12:00:00Z", "date": "2026-01-31", "time": "12:00:00Z", "duration": "PT1H",
	"email": "demo@example.com", "idn-email": "demo@example.com", "hostname": "example.com", "idn-hostname": "example.com",
	"ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "uri-reference": "/demo", "iri": "https://example.com/",
	"uuid": "00000000-0000-4000-8000-000000000000", "json-pointer": "/demo", "regex": "demo",
}

func (f *fitter) makeText(name string, s *schema) string {
	text := "scripted text for " + name
	switch format, known := formats[s.Format]; {
	case known:
		text = format
	case len(f.texts) > 0:
		text, f.texts = f.texts[0], f.texts[min(1, len(f.texts)-1):]
	case f.notice != "" && utf8.RuneCountInString(f.notice) <= s.MaxLength:
		text, f.notice = f.notice, ""
	case f.index > 0:
		text += fmt.Sprintf(" %d", f.index+1)
	}
	if runes := []rune(text); len(runes) > s.MaxLength {
		text = string(runes[:max(0, s.MaxLength)])
	}
	if f.failed = f.failed || s.MinLength > maxMinLength; !f.failed {
		text += strings.Repeat(".", max(0, s.MinLength-utf8.RuneCountInString(text)))
	}
	f.spend(textWork * len(text))
	return writeJSON(text)
}

// findNumber finds a number that the schema allows: one of the question, 1, or one near a bound.
func (f *fitter) findNumber(s *schema, whole bool) float64 {
	allowed := func(n float64) bool { return s.allows(n) && (!whole || n == math.Trunc(n)) }
	if len(f.numbers) > 0 && allowed(f.numbers[0]) {
		n := f.numbers[0]
		f.numbers = f.numbers[1:]
		return n
	}
	step := 1.0
	if s.MultipleOf != nil && *s.MultipleOf > 0 {
		step = *s.MultipleOf
	}
	numbers := []float64{float64(1 + f.index), step}
	for _, bound := range []*float64{s.Minimum, s.Maximum, s.ExclusiveMaximum, s.ExclusiveMinimum} {
		if bound != nil {
			below, above := math.Floor(*bound/step)*step, math.Ceil(*bound/step)*step
			numbers = append(numbers, *bound, above, below+step, below, above-step, math.Nextafter(*bound, math.Inf(-1)), math.Nextafter(*bound, math.Inf(1)))
		}
	}
	if i := slices.IndexFunc(numbers, allowed); i >= 0 {
		return numbers[i]
	}
	return 1
}

// allows reports whether a number is within the bounds of a schema.
func (s *schema) allows(n float64) bool {
	return !math.IsNaN(n) && !math.IsInf(n, 0) &&
		(s.Minimum == nil || n >= *s.Minimum) && (s.ExclusiveMinimum == nil || n > *s.ExclusiveMinimum) &&
		(s.Maximum == nil || n <= *s.Maximum) && (s.ExclusiveMaximum == nil || n < *s.ExclusiveMaximum) &&
		(s.MultipleOf == nil || *s.MultipleOf > 0 && math.Mod(n, *s.MultipleOf) == 0)
}
