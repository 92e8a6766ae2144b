//go:build nightly

package attacks

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// peak is the most memory that the server has had, in bytes; 0 where the system does not say.
func (v *victim) peak() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.Pid()))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _ := strconv.Atoi(strings.Fields(rest)[0])
	return kib << 10
}

// most is how much memory the server may have had at the end of a test of bombs, each of which unfolds to more, or would.
const most = 160 << 20

func (v *victim) checkPeak(t *testing.T) {
	t.Helper()
	if got := v.peak(); got > most {
		t.Errorf("the server has had %d MiB", got>>20)
	}
}

// SE-14, SE-15, SE-24: whatever a body unfolds to, each door refuses it soon, in a sentence, and goes on.
func TestNoRequestIsABomb(t *testing.T) { // SE-14, SE-15, SE-24
	v := ownServer(t, setup{args: []string{"--http-max-body", "256KiB"}})
	const half = 1 << 17 // twice this is the largest body
	nested := func(open, shut string) string {
		n := half * 2 / (len(open) + len(shut)) * 9 / 10
		return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n)
	}
	in := func(field, value string) string { return `{"workflow":"text",` + quoted(field) + `:` + value + `}` }
	bodies := map[string]string{
		"open brackets":           strings.Repeat("[", half*2-10),
		"open braces":             strings.Repeat(`{"a":`, half*2/5-10),
		"nested arrays":           nested("[", "]"),
		"nested objects":          nested(`{"a":`, "}"),
		"nested input":            in("input", nested("[", "]")),
		"nested params":           in("params", `{"a":`+nested(`{"a":`, "}")+"}"),
		"an input that is nested": in("input", `{"q":"x","a":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+"}"),
		"a long number":           in("input", strings.Repeat("9", half)),
		"a large exponent":        in("input", "1e999999999"),
		"a small exponent":        in("options", `{"temperature":1e-999999999}`),
		"a long fraction":         in("params", `{"a":0.`+strings.Repeat("1", half)+"}"),
		"many members":            "{" + strings.Repeat(`"a":1,`, half/4) + `"b":1}`,
		"many unknown members":    "{" + members(half/12) + `"b":1}`,
		"many properties":         in("input", "{"+members(half/12)+`"q":"x"}`),
		"a member twice":          `{"workflow":"text","workflow":"json","input":"x"}`,
		"a long string":           in("input", `"`+strings.Repeat("a", half*2-100)+`"`) + "",
		"escapes":                 in("session", `"`+strings.Repeat(`\u0000`, half/4)+`"`),
		"half surrogates":         in("session", `"`+strings.Repeat(`\ud800`, half/4)+`"`),
		"not UTF-8":               in("session", "\"\xff\xfe\""),
		"not JSON":                in("session", "'x'"),
		"a byte order mark":       "\ufeff{}",
		"blanks":                  strings.Repeat(" ", half),
		"too many bytes":          strings.Repeat(" ", half*2+1),
		"filters":                 in("filter", `{"exclude":["`+strings.Repeat("**/", 300)+`"]}`),
		"many filters":            in("filter", `{"exclude":["a"`+strings.Repeat(`,"**/a/**/a"`, 5000)+`]}`),
		"many models":             in("model", `["m"`+strings.Repeat(`,"m"`, 5000)+`]`),
		"many stops":              in("options", `{"stop":["m"`+strings.Repeat(`,"m"`, 5000)+`]}`),
	}
	inline := func(bot string) string { return `{"workflow":{"bots":{"w":{"root":"a",` + bot + `}}},"input":{}}` }
	for name, body := range map[string]string{
		"a recursive macro":           inline(`"prompt":"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"`),
		"brackets of a template":      inline(`"prompt":"{{ ` + strings.Repeat("(", 30_000) + "1" + strings.Repeat(")", 30_000) + ` }}"`),
		"a large template":            inline(`"prompt":"` + strings.Repeat("x", half) + `"`),
		"padding":                     inline(`"prompt":"{{ \"a\"|center:200000000 }}"`),
		"loops":                       inline(`"prompt":"` + strings.Repeat("{% for x in input %}", 500) + strings.Repeat("{% endfor %}", 500) + `"`),
		"a schema of references":      inline(`"prompt":"x","schema":{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`),
		"a schema that doubles":       inline(`"prompt":"x","schema":{` + doubling(60) + `}`),
		"a schema that is nested":     inline(`"prompt":"x","schema":` + strings.Repeat(`{"items":`, 20_000) + "{}" + strings.Repeat("}", 20_000)),
		"a pattern that is long":      inline(`"prompt":"x","schema":{"pattern":"` + strings.Repeat("(a?){1000}", 1000) + `"}`),
		"a pattern that goes back":    inline(`"prompt":"x","schema":{"pattern":"^(a+)+$"}`),
		"many bots":                   `{"workflow":{"bots":{` + bots(5000) + `}},"input":{}}`,
		"bots that start each other":  `{"workflow":{"bots":{"a":{"prompt":"x","root":"a","format":"text"},"b":{"on":{"done":"a"},"prompt":"x","root":"b","format":"text"},"c":{"on":{"done":"b"},"prompt":"x","root":"c","format":"text"}}}}`,
		"a trigger of many stars":     `{"workflow":{"bots":{"a":{"prompt":"x","root":"a"},"b":{"on":"a/` + strings.Repeat("**/", 2000) + `x","prompt":"x","root":"b"}}}}`,
		"a root of a template's size": `{"workflow":{"bots":{"a":{"prompt":"x","root":"` + strings.Repeat("a/", 50_000) + `"}}}}`,
	} {
		bodies["inline: "+name] = body
	}
	everywhere := map[string]bool{ // what is the same for every reader of JSON, and the largest of each kind
		"open brackets": true, "nested objects": true, "many members": true, "many unknown members": true, "not UTF-8": true, "too many bytes": true,
	}
	for name, body := range bodies {
		paths := []string{"/v1/runs", "/v1/chat/completions", "/v1/ui/text", "/v1/ui/text/object", "/v1/agui/text", "/v1/sessions/x/handoff", "/v1/sessions/x/fork", "/v1/runs/x/approvals/y"}
		if !everywhere[name] {
			paths = paths[:1]
		}
		for _, path := range paths {
			got := v.do(t, "POST", path, body)
			if got.status >= 500 && got.status != 502 || got.err != nil || len(got.body) > 64<<10 {
				t.Errorf("%s to %s: %d, %v, %d bytes: %s", name, path, got.status, got.err, len(got.body), clip(got.body))
			}
			if path == "/v1/runs" && got.status < 400 && !strings.HasPrefix(name, "inline: ") && name != "a long string" {
				t.Errorf("%s: %d", name, got.status)
			}
			if name == "too many bytes" && got.status != 413 && !strings.Contains(path, "/x/") {
				t.Errorf("%s to %s: %d", name, path, got.status)
			}
		}
		if !everywhere[name] {
			continue
		}
		if got := v.hook(t, "bomb "+name, body); got.status < 400 || got.status >= 500 {
			t.Errorf("%s to a channel: %d %s", name, got.status, clip(got.body))
		}
	}
	for name, query := range map[string]string{
		"a long query":     "input=" + strings.Repeat("a", 60_000),
		"many parameters":  strings.Repeat("a=1&", 15_000),
		"many properties":  manyProperties(5000),
		"nested params":    "params=" + strings.Repeat("%5B", 15_000),
		"semicolons":       strings.Repeat(";", 50_000),
		"percents":         strings.Repeat("%", 50_000),
		"a number":         "after=" + strings.Repeat("9", 50_000),
		"a limit":          "limit=99999999999999999999",
		"a filter":         "filter=" + `%7B"exclude":%5B"` + strings.Repeat("**/", 10_000) + `"%5D%7D`,
		"a last event id":  "last_event_id=" + strings.Repeat("a", 50_000) + ":1",
		"an input of JSON": "workflow=text&input=" + `%7B"q":` + strings.Repeat("%5B", 10_000),
	} {
		for _, path := range []string{"/v1/runs", "/v1/sessions", "/v1/sessions/x/tape", "/v1/models", "/v1/agui/text/x", "/v1/ui/text/x/stream"} {
			got := v.do(t, "GET", path+"?"+query, "")
			if got.status >= 500 || len(got.body) > 64<<10 {
				t.Errorf("%s to %s: %d, %d bytes: %s", name, path, got.status, len(got.body), clip(got.body))
			}
		}
	}
	v.checkPeak(t)
}

// members are n members of an object, a comma behind each.
func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"a%d":1,`, i)
	}
	return b.String()
}

func manyProperties(n int) string {
	var b strings.Builder
	b.WriteString("workflow=text")
	for i := range n {
		fmt.Fprintf(&b, "&input.%d=", i)
	}
	return b.String()
}

// doubling are members of a schema that refers to itself twice on each of n levels.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`"$ref":"#/$defs/a0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"a%d":{}}`, n)
	return b.String()
}

func bots(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"b%d":{"prompt":"x","root":"r%d","format":"text"},`, i, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// SE-24: a body that is packed is not unpacked, at no door.
func TestNoBodyIsUnpacked(t *testing.T) { // SE-24
	v := server(t)
	packed := unpacksTo(4, "{")
	for _, coding := range []string{"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "gzip, gzip", "identity, gzip", "GZIP", "unknown"} {
		for _, path := range []string{"/v1/runs", "/v1/chat/completions", "/v1/ui/text", "/v1/agui/text", "/v1/sessions/x/fork"} {
			if got := v.do(t, "POST", path, packed, "Content-Encoding: "+coding); got.status != 415 && (got.status != 404 || !strings.Contains(path, "sessions")) {
				t.Errorf("%s to %s: %d %s", coding, path, got.status, clip(got.body))
			}
		}
		if got := v.do(t, "POST", "/v1/channels/hook/webhook", packed, "Content-Encoding: "+coding); got.status < 400 || got.status >= 500 {
			t.Errorf("%s to a channel: %d %s", coding, got.status, clip(got.body))
		}
	}
}

// SE-15, SE-24: what a model's server sends is bounded, however it unfolds.
func TestNoAnswerOfAModelIsABomb(t *testing.T) { // SE-15, SE-24
	v := ownServer(t, setup{args: []string{"--run-max-result", "256KiB"}})
	packed := unpacksTo(8, `data: {"choices":[{"delta":{"content":"`)
	header := http.Header{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"gzip"}}
	event := func(text string) string {
		return `data: {"choices":[{"index":0,"delta":{"content":` + quoted(text) + `}}]}` + "\n\n"
	}
	for name, answer := range map[string]fakeproviders.Answer{
		"a packed line":                  {Raw: []fakeproviders.Raw{{Bytes: packed}}, Header: header},
		"a packed error":                 {Status: 400, Body: packed, Header: header},
		"a line without end":             {Raw: []fakeproviders.Raw{{Bytes: strings.Repeat("data: ", 1<<20)}}},
		"a text without end":             {Raw: []fakeproviders.Raw{{Bytes: strings.Repeat(event(strings.Repeat("a", 4000)), 100)}}},
		"an error without end":           {Status: 500, Body: strings.Repeat("a", 2<<20)},
		"JSON: brackets without end":     {Raw: []fakeproviders.Raw{{Bytes: strings.Repeat(event(strings.Repeat("[", 4000)), 100)}}},
		"JSON: braces without end":       {Raw: []fakeproviders.Raw{{Bytes: strings.Repeat(event(strings.Repeat(`{"a":`, 800)), 150)}}},
		"JSON: a key without end":        {Raw: []fakeproviders.Raw{{Bytes: event(`{"`) + strings.Repeat(event(strings.Repeat("a", 4000)), 100)}}},
		"JSON: a number without end":     {Raw: []fakeproviders.Raw{{Bytes: event(`{"a":`) + strings.Repeat(event(strings.Repeat("1", 4000)), 100)}}},
		"JSON: blanks without end":       {Raw: []fakeproviders.Raw{{Bytes: event(`{"a":`) + strings.Repeat(event(strings.Repeat(" ", 4000)), 100)}}},
		"HTML: tags without end":         {Raw: []fakeproviders.Raw{{Bytes: strings.Repeat(event(strings.Repeat("<b>", 1300)), 150)}}},
		"HTML: an attribute without end": {Raw: []fakeproviders.Raw{{Bytes: event(`<a href="`) + strings.Repeat(event(strings.Repeat("a", 4000)), 100)}}},
		"calls without end":              {Raw: []fakeproviders.Raw{{Bytes: manyCalls(2000)}}},
		"headers without end":            {Text: "x", Header: http.Header{"X": {strings.Repeat("a", 11<<20)}}},
	} {
		workflow := "text"
		switch {
		case strings.HasPrefix(name, "JSON: "):
			workflow = "json"
		case strings.HasPrefix(name, "HTML: "):
			workflow = "page"
		}
		got := v.do(t, "POST", "/v1/runs", run(workflow, v.answer(answer)))
		if got.status != 200 && got.status != 502 && got.status != 504 || got.err != nil || strings.Contains(got.body, `"completed"`) && name != "JSON: blanks without end" {
			t.Errorf("%s: %d, %v: %s", name, got.status, got.err, clip(got.body))
		}
	}
	v.checkPeak(t)
}

// unpacksTo is n MiB behind a beginning, packed.
func unpacksTo(n int, begin string) string {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		panic(err)
	}
	piece := bytes.Repeat([]byte("a"), 1<<20)
	_, _ = io.WriteString(z, begin) // into memory
	for range n {
		_, _ = z.Write(piece)
	}
	_ = z.Close()
	return b.String()
}

func manyCalls(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f","arguments":"{"}}]}}]}`+"\n\n", i, i)
	}
	return b.String()
}
