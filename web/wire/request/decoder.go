// Package request reads what clients send, for every wire: JSON bodies and queries, and the members that mean the same everywhere.
//
// A [Decoder] reads a body or a query into a struct and collects what does not fit, each with its place, so that a client sees all of it
// at once. It never panics on a body that is not JSON, but call [Check] first: Check finds what two readers would understand differently.
package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
)

// Decoder reads bodies and queries into structs, whose fields have these tags:
//
//	field:"NAME"           the member or parameter NAME; field:"NAME,required" must be in a body
//	field:"NAME.*"         a map[string]string of the parameters NAME.KEY of a query
//	max:"N"                a string of 1 to N bytes, or a whole number of at most N
//	min:"N"                a whole number of at least N; 1 without this tag
//	words:"A B"            one of these words
//	chars:"visible"        visible ASCII characters only
//	items:"N"              a list of at most N items; the other tags are for each of them
//
// A json.RawMessage takes any value. The zero value is ready, and refuses members without a field.
type Decoder struct {
	// Lenient ignores members without a field, and null for a member that is not required: clients of other protocols may be newer than
	// this server.
	Lenient bool
	// Faults is what does not fit, in the order in which it was found.
	Faults []run.Field

	parameter string // the query parameter that is read now, which pointers lead into; "" for the body
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

// IsNull reports whether a value is null.
func IsNull(raw json.RawMessage) bool { return string(raw) == "null" }

// Item is the JSON Pointer of an array's item.
func Item(pointer string, i int) string { return pointer + "/" + strconv.Itoa(i) }

// field is a field of a struct that a body or query is read into.
type field struct {
	value    reflect.Value
	tag      reflect.StructTag
	required bool
}

// fieldsOf returns the fields of a struct by the names in their tags.
func fieldsOf(v reflect.Value) map[string]field {
	fields := map[string]field{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name, option, _ := strings.Cut(f.Tag.Get("field"), ","); name != "" {
			fields[name] = field{v.FieldByIndex(f.Index), f.Tag, option == "required"}
		}
	}
	return fields
}

// Read reads a JSON value into v, a pointer, and reports whether it fits.
func (d *Decoder) Read(pointer string, raw json.RawMessage, v any) bool {
	before := len(d.Faults)
	d.read(pointer, raw, reflect.ValueOf(v).Elem(), "")
	return len(d.Faults) == before
}

func (d *Decoder) read(pointer string, raw json.RawMessage, v reflect.Value, tag reflect.StructTag) {
	dst := v.Addr().Interface()
	if text, ok := dst.(*json.RawMessage); ok {
		*text = raw
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.readObject(pointer, raw, v)
	case reflect.Slice:
		d.readList(pointer, raw, v, tag)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.read(pointer, raw, v.Elem(), tag)
	case reflect.String:
		if d.As(pointer, raw, '"', "a string", dst) {
			d.checkText(pointer, v.String(), tag)
		}
	case reflect.Bool:
		d.As(pointer, raw, 't', "true or false", dst)
	case reflect.Int64:
		var n json.Number
		if d.As(pointer, raw, '0', "a whole number", &n) {
			v.SetInt(d.whole(pointer, n.String(), tag))
		}
	default:
		d.As(pointer, raw, '{', "an object", dst)
	}
}

// readObject reads the members of an object into a struct, in the order of their names.
func (d *Decoder) readObject(pointer string, raw json.RawMessage, v reflect.Value) {
	var members map[string]json.RawMessage
	if !d.As(pointer, raw, '{', "an object", &members) {
		return
	}
	fields := fieldsOf(v)
	for name, f := range fields {
		if _, ok := members[name]; f.required && !ok {
			members[name] = nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := members[name]
		f, known := fields[name]
		at := pointer + schema.Pointer([]string{name})
		switch {
		case d.full():
			return
		case value == nil:
			d.Fail(at, "missing")
		case known && !(d.Lenient && !f.required && IsNull(value)):
			d.read(at, value, f.value, f.tag)
		case !d.Lenient:
			d.Fail(at, "unknown field; %s", wording.Expected(name, slices.Sorted(maps.Keys(fields))))
		}
	}
}

func (d *Decoder) readList(pointer string, raw json.RawMessage, v reflect.Value, tag reflect.StructTag) {
	var items []json.RawMessage
	if !d.As(pointer, raw, '[', "an array", &items) {
		return
	}
	if limit, _ := strconv.Atoi(tag.Get("items")); limit > 0 && len(items) > limit {
		d.Fail(pointer, "expected at most %d items, found %d", limit, len(items))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i := 0; i < len(items) && !d.full(); i++ {
		d.read(Item(pointer, i), items[i], v.Index(i), tag)
	}
}

// checkText checks a string by the tags of its field.
func (d *Decoder) checkText(pointer, text string, tag reflect.StructTag) {
	if limit, _ := strconv.Atoi(tag.Get("max")); limit > 0 && (text == "" || len(text) > limit) {
		d.Fail(pointer, "expected a string of 1 to %d bytes, found %d", limit, len(text))
	}
	if tag.Get("chars") == "visible" && strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		d.Fail(pointer, "expected visible ASCII characters only")
	}
	if words := strings.Fields(tag.Get("words")); len(words) > 0 && !slices.Contains(words, text) {
		d.Fail(pointer, "expected %s, found %q", wording.Alternatives(words), wording.Clip(text))
	}
}

// whole reads a whole number within the bounds of a field's tags.
func (d *Decoder) whole(pointer, text string, tag reflect.StructTag) int64 {
	low := int64(1)
	if tag.Get("min") != "" {
		low, _ = strconv.ParseInt(tag.Get("min"), 10, 64)
	}
	high, _ := strconv.ParseInt(tag.Get("max"), 10, 64)
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil && n >= low && (high == 0 || n <= high):
		return n
	case high == 0:
		d.Fail(pointer, "expected a whole number from %d, found %q", low, wording.Clip(text))
	default:
		d.Fail(pointer, "expected a whole number from %d to %d, found %q", low, high, wording.Clip(text))
	}
	return 0
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
