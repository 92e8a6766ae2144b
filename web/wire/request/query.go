package request

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
)

// Parameters are the parameters that a query may have.
type Parameters map[string]func(value string)

// Query reads the query of a request. It refuses parameters that are unknown or occur twice. others, where it is not nil, returns
// the reader of a parameter that known does not have, or nil.
func (d *Decoder) Query(r *http.Request, known Parameters, others func(name string) func(value string)) {
	if r.URL.RawQuery == "" {
		return
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		d.Fail("", "the query is invalid; check its percent signs and semicolons")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(values)) { // so that faults have an order
		d.parameter = wording.Clip(name)
		read := known[name]
		if read == nil && others != nil {
			read = others(name)
		}
		switch {
		case read == nil && len(known) == 0:
			d.Fail("", "unknown parameter; this resource has none")
		case read == nil:
			d.Fail("", "unknown; %s", wording.Expected(name, slices.Sorted(maps.Keys(known))))
		case len(values[name]) > 1:
			d.Fail("", "occurs twice; send it once")
		case strings.ContainsRune(values[name][0], 0):
			d.Fail("", "contains a NUL character; remove it")
		default:
			read(values[name][0])
		}
	}
	d.parameter = ""
}

// Flag reads a switch of a query.
func (d *Decoder) Flag(value string) bool {
	switch value {
	case "1", "true", "":
		return true
	case "0", "false":
		return false
	}
	d.Fail("", "expected 1 or 0, found %q", wording.Clip(value))
	return false
}

// Name reads a parameter of 1 to limit bytes into dst.
func (d *Decoder) Name(dst *string, limit int) func(value string) {
	return func(value string) {
		if value == "" || len(value) > limit {
			d.Fail("", "expected 1 to %d bytes, found %d", limit, len(value))
			return
		}
		*dst = value
	}
}

// OnDisconnect reads the parameter on_disconnect of wires that follow a run with the request that starts it: whether the run is
// canceled when the connection breaks.
func (d *Decoder) OnDisconnect(cancel *bool) func(value string) {
	return func(value string) { *cancel = d.Word("", value, "continue", "cancel") == "cancel" }
}

// Count reads a whole number from 1, to most where most is not 0.
func (d *Decoder) Count(value string, most int) int {
	n, err := strconv.Atoi(value)
	switch {
	case most == 0 && (err != nil || n < 1):
		d.Fail("", "expected a whole number from 1, found %q", wording.Clip(value))
	case most > 0 && (err != nil || n < 1 || n > most):
		d.Fail("", "expected a whole number from 1 to %d, found %q", most, wording.Clip(value))
	}
	return n
}

// IdempotencyKey reads the header Idempotency-Key, which clients of other protocols send too.
func (d *Decoder) IdempotencyKey(r *http.Request, q *run.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		return
	}
	before := len(d.Faults)
	if q.Key != "" && q.Key != key {
		d.Fail("", "differs from the query's key")
	}
	d.Key(q, key)
	for i := before; i < len(d.Faults); i++ {
		d.Faults[i].Header = "Idempotency-Key"
	}
}

// maxKey is a limit that other servers have, too.
const maxKey = 255

// Key reads an idempotency key: 1 to 255 visible ASCII characters.
func (d *Decoder) Key(q *run.Request, key string) {
	if key == "" || len(key) > maxKey {
		d.Fail("", "expected 1 to %d characters, found %d", maxKey, len(key))
		return
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			d.Fail("", "expected visible ASCII characters only")
			return
		}
	}
	q.Key = key
}
