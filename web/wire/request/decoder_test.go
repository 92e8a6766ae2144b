package request_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/request"
)

type part struct {
	Kind string `field:"kind,required" words:"a b"`
}

type body struct {
	Name  string            `field:"name" max:"3"`
	Flag  bool              `field:"flag"`
	Count int64             `field:"count" max:"5"`
	From  *int64            `field:"from" min:"0"`
	Parts []part            `field:"parts" items:"2"`
	Any   json.RawMessage   `field:"any"`
	Time  time.Time         `field:"time"`
	Words []string          `field:"words" words:"x y"`
	More  map[string]string `field:"more.*"`
}

func TestABodyIsReadIntoAStruct(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		lenient bool
		want    body
		faults  []run.Field
	}{
		"all that fits": {
			text: `{"name":"abc","flag":true,"count":5,"from":0,"parts":[{"kind":"a"},{"kind":"b"}],"any":[1, 2]}`,
			want: body{Name: "abc", Flag: true, Count: 5, From: new(int64), Parts: []part{{"a"}, {"b"}}, Any: json.RawMessage("[1, 2]")},
		},
		"wrong kinds": {text: `{"name":1,"flag":"x","count":1.5,"parts":{}}`, faults: []run.Field{
			{Pointer: "/count", Detail: `expected a whole number from 1 to 5, found "1.5"`},
			{Pointer: "/flag", Detail: "expected true or false, found a string"},
			{Pointer: "/name", Detail: "expected a string, found a number"},
			{Pointer: "/parts", Detail: "expected an array, found an object"},
		}},
		"beyond the bounds": {text: `{"name":"abcd","count":6,"from":-1,"parts":[{},{},{}]}`, want: body{Name: "abcd", From: new(int64)}, faults: []run.Field{
			{Pointer: "/count", Detail: `expected a whole number from 1 to 5, found "6"`},
			{Pointer: "/from", Detail: `expected a whole number from 0, found "-1"`},
			{Pointer: "/name", Detail: "expected a string of 1 to 3 bytes, found 4"},
			{Pointer: "/parts", Detail: "expected at most 2 items, found 3"},
		}},
		"inside a list": {text: `{"parts":[{"kind":"c"},{}]}`, want: body{Parts: []part{{"c"}, {}}}, faults: []run.Field{
			{Pointer: "/parts/0/kind", Detail: `expected a or b, found "c"`}, {Pointer: "/parts/1/kind", Detail: "missing"},
		}},
		"unknown, in another case": {text: `{"Name":"a"}`, faults: []run.Field{
			{Pointer: "/Name", Detail: "unknown field; did you mean name? expected one of any, count, flag, from, more.*, name, parts, time, words"},
		}},
		"null":                        {text: `{"name":null}`, faults: []run.Field{{Pointer: "/name", Detail: "expected a string, found null"}}},
		"a newer client":              {text: `{"name":null,"newer":1}`, lenient: true},
		"a newer client lacks a need": {text: `{"parts":[{"kind":null}]}`, lenient: true, want: body{Parts: []part{{}}}, faults: []run.Field{{Pointer: "/parts/0/kind", Detail: "expected a string, found null"}}},
	} {
		t.Run(name, func(t *testing.T) {
			d, got := request.Decoder{Lenient: c.lenient}, body{}
			if fits := d.Read("", json.RawMessage(c.text), &got); fits != (c.faults == nil) || !cmp.Equal(c.faults, d.Faults) || !cmp.Equal(c.want, got) {
				t.Errorf("%v %s %s", fits, cmp.Diff(c.faults, d.Faults), cmp.Diff(c.want, got))
			}
		})
	}
}

func TestAQueryIsReadIntoAStruct(t *testing.T) {
	for query, c := range map[string]struct {
		want  body
		fault string
	}{
		"name=abc&flag=1&count=2&from=0&words=x,+y&more.a=1&more.b=&any={%22a%22:1}&time=2026-01-31T15:04:05Z": {
			want: body{
				Name: "abc", Flag: true, Count: 2, From: new(int64), Words: []string{"x", "y"}, More: map[string]string{"a": "1", "b": ""},
				Any: json.RawMessage(`{"a":1}`), Time: time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC),
			},
		},
		"flag=":          {want: body{Flag: true}},
		"flag=maybe":     {fault: `flag: expected 1 or 0, found "maybe"`},
		"name=":          {fault: "name: expected a string of 1 to 3 bytes, found 0"},
		"name=a&name=b":  {want: body{}, fault: "name: occurs twice; send it once"},
		"name=%00":       {fault: "name: contains a NUL character; remove it"},
		"count=six":      {fault: `count: expected a whole number from 1 to 5, found "six"`},
		"words=x,z":      {want: body{Words: []string{"x", "z"}}, fault: `words: expected x or y, found "z"`},
		"time=yesterday": {fault: `time: expected a time as in RFC 3339, such as 2026-01-31T15:04:05Z, found "yesterday"`},
		"any={":          {fault: "any: invalid JSON at line 1, column 2: unexpected end of JSON input"},
		"color=red":      {fault: "color: unknown; expected one of any, count, flag, from, name, parts, time, words"},
		"more.=1":        {fault: "more.: unknown; expected one of any, count, flag, from, name, parts, time, words"},
		"a=%25zz&b=%":    {fault: ": the query is invalid; check its percent signs and semicolons"},
	} {
		t.Run(query, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.URL.RawQuery = query
			d, got := request.Decoder{}, body{}
			d.Query(r, &got)
			fault := ""
			for _, f := range d.Faults {
				fault += f.Parameter + ": " + f.Detail
			}
			if fault != c.fault || c.fault == "" && !cmp.Equal(c.want, got) {
				t.Errorf("%q %s", fault, cmp.Diff(c.want, got))
			}
		})
	}
}

// DS-10: an answer names a few faults and no long names, however many and long they are.
func TestFaultsOfABodyAreFewAndShort(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	var members strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&members, `%q:1,`, long[:200]+fmt.Sprint(i))
	}
	for name, text := range map[string]string{
		"unknown members": "{" + members.String() + `"x":1}`,
		"a long name":     fmt.Sprintf(`{%q:1}`, long),
		"a long word":     fmt.Sprintf(`{"words":[%q]}`, long),
		"items":           `{"words":[` + strings.Repeat("1,", 10_000) + `1]}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := new(request.Decoder)
			d.Read("", json.RawMessage(text), new(body))
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
