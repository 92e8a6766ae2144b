// Package request reads what clients send, for every wire: JSON bodies, the members that mean the same everywhere, and queries.
//
// A [Decoder] takes values apart and collects what does not fit, each with its place, so that a client sees all of it at once.
// It never panics on a body that is not JSON, but call [Check] first: Check finds what two readers would understand differently.
package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
)

// Decoder takes JSON values and query parameters apart. The zero value is ready, and refuses members that no field is for.
type Decoder struct {
	// Lenient ignores members that no field is for: clients of other protocols may be newer than this server.
	Lenient bool
	// Faults is what does not fit, in the order in which it was found.
	Faults []run.Field

	parameter string // the query parameter that is being read, which the pointers lead into; "" for the body
}

// maxFaults bounds what one answer says.
const maxFaults = 20

// Fail adds a fault at a JSON Pointer. Only the first faults are kept.
func (d *Decoder) Fail(pointer, format string, args ...any) {
	if !d.full() {
		d.Faults = append(d.Faults, Clip(run.Field{Pointer: pointer, Parameter: d.parameter, Detail: fmt.Sprintf(format, args...)}))
	}
}

// Bounds of a fault, in bytes.
const (
	maxPointer = 256
	maxDetail  = 1 << 10
)

// Clip returns a fault without the ends of long texts: they come from the client, who knows them.
func Clip(f run.Field) run.Field {
	f.Pointer, f.Detail = wording.ClipTo(f.Pointer, maxPointer), wording.ClipTo(f.Detail, maxDetail)
	return f
}

// full reports whether there are as many faults as an answer names: no others need to be looked for.
func (d *Decoder) full() bool { return len(d.Faults) >= maxFaults }

// Field reads the member of an object that stands at a JSON Pointer.
type Field func(pointer string, raw json.RawMessage)

// Fields are the members that an object may have.
type Fields map[string]Field

// Optional makes null count as left out.
func Optional(f Field) Field {
	return func(pointer string, raw json.RawMessage) {
		if !IsNull(raw) {
			f(pointer, raw)
		}
	}
}

// IsNull reports whether a value is null.
func IsNull(raw json.RawMessage) bool { return string(raw) == "null" }

// Object hands the members of a JSON object to their fields, in the order of their names. It refuses members without a field,
// unless the decoder is lenient, and names the required ones that are missing.
func (d *Decoder) Object(pointer string, raw json.RawMessage, fields Fields, required ...string) {
	var members map[string]json.RawMessage
	if !d.As(pointer, raw, '{', "an object", &members) {
		return
	}
	names := slices.Collect(maps.Keys(members))
	for _, name := range required {
		if _, ok := members[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if d.full() {
			return
		}
		value, sent := members[name]
		field := fields[name]
		if sent && field == nil && d.Lenient {
			continue
		}
		at := pointer + schema.Pointer([]string{name})
		switch {
		case !sent:
			d.Fail(at, "missing")
		case field != nil:
			field(at, value)
		default:
			d.Fail(at, "unknown field; %s", wording.Expected(name, slices.Sorted(maps.Keys(fields))))
		}
	}
}

// Members returns the members of a JSON object that are not null.
func (d *Decoder) Members(pointer string, raw json.RawMessage) (members map[string]json.RawMessage) {
	d.As(pointer, raw, '{', "an object", &members)
	maps.DeleteFunc(members, func(_ string, value json.RawMessage) bool { return IsNull(value) })
	return members
}

// As decodes raw into dst if raw is of the kind that begins with first: '{', '[', '"', 't' for true and false, '0' for numbers.
// kind is the name of what is expected.
func (d *Decoder) As(pointer string, raw json.RawMessage, first byte, kind string, dst any) bool {
	if found := rawjson.Kind(raw); found != kinds[first] {
		d.Fail(pointer, "expected %s, found %s", kind, found)
		return false
	}
	err := json.Unmarshal(raw, dst)
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		kind = "JSON"
	}
	if err != nil {
		d.Fail(pointer, "expected %s", kind)
	}
	return err == nil
}

// kinds are the kinds of values, as [rawjson.Kind] names them, by what [Decoder.As] calls them.
var kinds = map[byte]string{'{': "an object", '[': "an array", '"': "a string", 't': "a boolean", '0': "a number"}

// String reads a string.
func (d *Decoder) String(pointer string, raw json.RawMessage) (s string) {
	d.As(pointer, raw, '"', "a string", &s)
	return s
}

// Text reads a string of 1 to limit bytes.
func (d *Decoder) Text(pointer string, raw json.RawMessage, limit int) string {
	var s string
	if !d.As(pointer, raw, '"', "a string", &s) {
		return ""
	}
	if s == "" || len(s) > limit {
		d.Fail(pointer, "expected a string of 1 to %d bytes, found %d", limit, len(s))
		return ""
	}
	return s
}

// OneOf reads one of these words.
func (d *Decoder) OneOf(pointer string, raw json.RawMessage, words ...string) string {
	var s string
	if !d.As(pointer, raw, '"', "a string", &s) {
		return ""
	}
	return d.Word(pointer, s, words...)
}

// Word returns s if it is one of these words.
func (d *Decoder) Word(pointer, s string, words ...string) string {
	if !slices.Contains(words, s) {
		d.Fail(pointer, "expected %s, found %q", wording.Alternatives(words), wording.Clip(s))
		return ""
	}
	return s
}

// Bool reads true or false.
func (d *Decoder) Bool(pointer string, raw json.RawMessage) (b bool) {
	d.As(pointer, raw, 't', "true or false", &b)
	return b
}

// Int reads a whole number from low to high; nil where it does not fit.
func (d *Decoder) Int(pointer string, raw json.RawMessage, low, high int) *int {
	var n json.Number
	if !d.As(pointer, raw, '0', "a whole number", &n) {
		return nil
	}
	i, err := strconv.Atoi(n.String())
	if err != nil || i < low || i > high {
		d.Fail(pointer, "expected a whole number from %d to %d, found %s", low, high, wording.Clip(n.String()))
		return nil
	}
	return &i
}

// Array hands the items of an array to a field.
func (d *Decoder) Array(pointer string, raw json.RawMessage, item Field) {
	var items []json.RawMessage
	d.As(pointer, raw, '[', "an array", &items)
	for i, value := range items {
		if d.full() {
			return
		}
		item(Item(pointer, i), value)
	}
}

// Item is the JSON Pointer of an array's item.
func Item(pointer string, i int) string { return pointer + "/" + strconv.Itoa(i) }

// Strings reads an array of at most most strings of 1 to limit bytes.
func (d *Decoder) Strings(pointer string, raw json.RawMessage, most, limit int) []string {
	var items []json.RawMessage
	if !d.As(pointer, raw, '[', "an array of strings", &items) {
		return nil
	}
	if len(items) > most {
		d.Fail(pointer, "expected at most %d strings, found %d", most, len(items))
		return nil
	}
	list := make([]string, len(items))
	for i, item := range items {
		list[i] = d.Text(Item(pointer, i), item, limit)
	}
	return list
}
