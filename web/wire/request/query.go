package request

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
)

// Query reads the query of a request into v, a pointer to a struct. It refuses parameters that are unknown or occur twice. Lists are
// separated by commas, times are of RFC 3339.
func (d *Decoder) Query(r *http.Request, v any) {
	if r.URL.RawQuery == "" {
		return
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		d.Fail("", "the query is invalid; check its percent signs and semicolons")
		return
	}
	fields := fieldsOf(reflect.ValueOf(v).Elem())
	for _, name := range slices.Sorted(maps.Keys(values)) { // so that faults have an order
		d.parameter = wording.Clip(name)
		f, known := fields[name]
		group, key, _ := strings.Cut(name, ".")
		member, isMember := fields[group+".*"]
		switch {
		case len(values[name]) > 1:
			d.Fail("", "occurs twice; send it once")
		case strings.ContainsRune(values[name][0], 0):
			d.Fail("", "contains a NUL character; remove it")
		case known:
			d.readText(values[name][0], f)
		case isMember && key != "":
			members := member.value.Addr().Interface().(*map[string]string)
			if *members == nil {
				*members = map[string]string{}
			}
			(*members)[key] = values[name][0]
		case len(fields) == 0:
			d.Fail("", "unknown parameter; this resource has none")
		default:
			maps.DeleteFunc(fields, func(name string, _ field) bool { return strings.HasSuffix(name, "*") })
			d.Fail("", "unknown; %s", wording.Expected(name, slices.Sorted(maps.Keys(fields))))
		}
	}
	d.parameter = ""
}

// readText reads the text of a parameter into a field.
func (d *Decoder) readText(text string, f field) {
	if f.value.Kind() == reflect.Pointer {
		f.value.Set(reflect.New(f.value.Type().Elem()))
		f.value = f.value.Elem()
	}
	switch dst := f.value.Addr().Interface().(type) {
	case *bool:
		*dst = d.flag(text)
	case *int64:
		*dst = d.whole("", text, f.tag)
	case *[]string:
		for part := range strings.SplitSeq(text, ",") {
			*dst = append(*dst, strings.TrimSpace(part))
			d.checkText("", strings.TrimSpace(part), f.tag)
		}
	case *time.Time:
		var err error
		if *dst, err = time.Parse(time.RFC3339, text); err != nil {
			d.Fail("", "expected a time as in RFC 3339, such as 2026-01-31T15:04:05Z, found %q", wording.Clip(text))
		}
	case *json.RawMessage:
		if fault := Check([]byte(text)); fault != nil {
			d.Fail(fault.Pointer, "%s", fault.Detail)
			return
		}
		*dst = json.RawMessage(strings.TrimSpace(text))
	default:
		f.value.SetString(text)
		d.checkText("", text, f.tag)
	}
}

// flag reads a switch of a query.
func (d *Decoder) flag(value string) bool {
	on, err := strconv.ParseBool(cmp.Or(value, "1"))
	if err != nil {
		d.Fail("", "expected 1 or 0, found %q", wording.Clip(value))
	}
	return on
}

// Disconnect is the parameter of wires that follow a run with the request that starts it: whether the run is canceled when the
// connection breaks.
type Disconnect struct {
	OnDisconnect string `field:"on_disconnect" words:"continue cancel"`
}

// Cancels reports whether the run is canceled.
func (d Disconnect) Cancels() bool { return d.OnDisconnect == "cancel" }

// keyTag has the limits of an Idempotency-Key, which other servers have, too.
const keyTag reflect.StructTag = `max:"255" chars:"visible"`

// IdempotencyKey reads the header Idempotency-Key, which clients of other protocols send too. It must not differ from q.Key, which a
// query may have set.
func (d *Decoder) IdempotencyKey(r *http.Request, q *run.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		return
	}
	before := len(d.Faults)
	if q.Key != "" && q.Key != key {
		d.Fail("", "differs from the query's key")
	}
	d.checkText("", key, keyTag)
	for i := before; i < len(d.Faults); i++ {
		d.Faults[i].Header = "Idempotency-Key"
	}
	q.Key = key
}
