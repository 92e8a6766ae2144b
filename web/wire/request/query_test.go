package request_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/request"
)

// An Idempotency-Key is taken as it is, if it is 1 to 255 visible characters, or refused with the header's name.
func FuzzIdempotencyKey(f *testing.F) {
	for _, key := range []string{"k", "", " ", "a b", "é", strings.Repeat("a", 255), strings.Repeat("a", 256), "\x7f", "~", "\"8e03978e\""} {
		f.Add(key, key)
	}
	f.Add("a", "b")
	f.Fuzz(func(t *testing.T, key, query string) {
		d, q := new(request.Decoder), &run.Request{Key: query}
		d.IdempotencyKey(&http.Request{Header: http.Header{"Idempotency-Key": {key}}}, q)
		visible := len(key) >= 1 && len(key) <= 255
		for i := range len(key) {
			visible = visible && '!' <= key[i] && key[i] <= '~'
		}
		if ok := key == "" || visible && (query == "" || query == key); ok != (len(d.Faults) == 0) || ok && key != "" && q.Key != key {
			t.Errorf("%q beside %q is %q: %+v", key, query, q.Key, d.Faults)
		}
		for _, f := range d.Faults {
			if f.Header != "Idempotency-Key" || f.Detail == "" {
				t.Errorf("%+v", f)
			}
		}
	})
}
