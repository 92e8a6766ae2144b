package request_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/web/wire/request"
)

// DS-10: an answer names a few faults and no long names, however many and long they are, and no others are looked for.
func TestFaultsOfABodyAreFewAndShort(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	var members, items strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&members, `%q:1,`, long[:200]+fmt.Sprint(i))
		items.WriteString(`1,`)
	}
	for name, read := range map[string]func(d *request.Decoder){
		"unknown members": func(d *request.Decoder) {
			d.Object("", json.RawMessage("{"+members.String()+`"x":1}`), request.Fields{})
		},
		"a long name": func(d *request.Decoder) {
			d.Object("", json.RawMessage(fmt.Sprintf(`{%q:1}`, long)), request.Fields{"name": nil})
		},
		"a long word":    func(d *request.Decoder) { d.Word("/a", long, "b") },
		"a long pointer": func(d *request.Decoder) { d.String("/"+long, json.RawMessage("1")) },
		"items": func(d *request.Decoder) {
			looked := 0
			d.Array("/a", json.RawMessage("["+items.String()+"1]"), func(pointer string, raw json.RawMessage) {
				looked++
				d.String(pointer, raw)
			})
			if looked > 100 {
				t.Errorf("looked at %d items", looked)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := new(request.Decoder)
			read(d)
			text, err := json.Marshal(d.Faults)
			if err != nil || len(d.Faults) == 0 || len(d.Faults) > 20 || len(text) > 16<<10 {
				t.Errorf("%v: %d faults, %d bytes", err, len(d.Faults), len(text))
			}
		})
	}
	if f := request.Check([]byte(fmt.Sprintf(`{%q:1,%q:2}`, long, long))); f == nil || len(f.Pointer) > 1<<10 {
		t.Errorf("a repeated member: %.100v", f)
	}
}
