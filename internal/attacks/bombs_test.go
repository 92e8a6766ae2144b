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

// SE-14, SE-15, SE-24: what unfolds to more than the server has memory for, in a request or in a model's answer, is refused with a sentence.
func TestWhatUnfoldsTakesLittleMemory(t *testing.T) {
	v := ownServer(t, setup{args: []string{"--http-max-body", "256KiB", "--run-max-result", "256KiB"}})
	const body = 256 << 10
	refused := func(name, path string, got reply) {
		t.Helper()
		if got.status < 400 || got.status >= 500 || got.err != nil || len(got.body) > 64<<10 {
			t.Errorf("%s to %s: %d, %v, %d bytes: %s", name, path, got.status, got.err, len(got.body), clip(got.body))
		}
	}
	for name, bomb := range map[string]string{
		"open brackets":        strings.Repeat("[", body-10),
		"nested objects":       strings.Repeat(`{"a":`, body/7) + "1" + strings.Repeat("}", body/7),
		"many members":         "{" + strings.Repeat(`"a":1,`, body/8) + `"b":1}`,
		"many unknown members": "{" + list(body/24, `"a%d":1,`) + `"b":1}`,
		"not UTF-8":            "{\"session\":\"\xff\xfe\"}",
		"too many bytes":       strings.Repeat(" ", body+1),
		"a packed body":        packed(4, "{"),
	} {
		var header []string
		if name == "a packed body" {
			header = []string{"Content-Encoding: gzip"}
		}
		for _, path := range []string{
			"/v1/runs", "/v1/chat/completions", "/v1/ui/text", "/v1/ui/text/object", "/v1/agui/text", "/v1/sessions/x/handoff", "/v1/sessions/x/fork", "/v1/runs/x/approvals/y",
			"/v1/channels/hook/webhook",
		} {
			refused(name, path, v.do(t, "POST", path, bomb, header...))
		}
	}
	for name, bot := range map[string]string{
		"a recursive macro":     `"prompt":"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"`,
		"a schema that doubles": `"prompt":"x","schema":{"$ref":"#/$defs/a0","$defs":{` + list(60, `"a%[1]d":{"allOf":[{"$ref":"#/$defs/b%[1]d"},{"$ref":"#/$defs/b%[1]d"}]},"b%[1]d":{"$ref":"#/$defs/a%[2]d"},`) + `"a60":{}}}`,
		"a long pattern":        `"prompt":"x","schema":{"pattern":"` + strings.Repeat("(a?){1000}", 1000) + `"}`,
		"many bots":             `"prompt":"x"},` + list(5000, `"b%[1]d":{"prompt":"x","root":"r%[1]d","format":"text"},`) + `"last":{"prompt":"x","root":"b"`,
	} {
		got := v.do(t, "POST", "/v1/runs", `{"workflow":{"bots":{"w":{"root":"a",`+bot+`}}},"input":{}}`)
		if got.status >= 500 && got.status != 502 || got.err != nil || len(got.body) > 64<<10 {
			t.Errorf("%s: %d, %v, %d bytes: %s", name, got.status, got.err, len(got.body), clip(got.body))
		}
	}

	event := func(text string) string {
		return `data: {"choices":[{"index":0,"delta":{"content":` + quoted(text) + `}}]}` + "\n\n"
	}
	raw := func(stream string) fakeproviders.Answer {
		return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Bytes: stream}}}
	}
	packedLine := raw(packed(8, `data: {"choices":[{"delta":{"content":"`))
	packedLine.Header = http.Header{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"gzip"}}
	for name, row := range map[string]struct {
		workflow string
		answer   fakeproviders.Answer
	}{
		"a packed line":       {"text", packedLine},
		"a line without end":  {"text", raw(strings.Repeat("data: ", 1<<20))},
		"a text without end":  {"text", raw(strings.Repeat(event(strings.Repeat("a", 4000)), 100))},
		"an error of 2 MiB":   {"text", fakeproviders.Answer{Status: 500, Body: strings.Repeat("a", 2<<20)}},
		"headers of 11 MiB":   {"text", fakeproviders.Answer{Text: "x", Header: http.Header{"X": {strings.Repeat("a", 11<<20)}}}},
		"calls without end":   {"text", raw(list(2000, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":%[1]d,"id":"c%[1]d","function":{"name":"f","arguments":"{"}}]}}]}`+"\n\n"))},
		"brackets in JSON":    {"json", raw(strings.Repeat(event(strings.Repeat("[", 4000)), 100))},
		"a key without end":   {"json", raw(event(`{"`) + strings.Repeat(event(strings.Repeat("a", 4000)), 100))},
		"tags in HTML":        {"page", raw(strings.Repeat(event(strings.Repeat("<b>", 1300)), 150))},
		"an endless HTML tag": {"page", raw(event(`<a href="`) + strings.Repeat(event(strings.Repeat("a", 4000)), 100))},
	} {
		got := v.do(t, "POST", "/v1/runs", run(row.workflow, v.answer(row.answer)))
		if got.status != 200 && got.status != 424 && got.status != 502 && got.status != 504 || got.err != nil || strings.Contains(got.body, `"completed"`) {
			t.Errorf("%s of a model: %d, %v: %s", name, got.status, got.err, clip(got.body))
		}
	}

	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.Pid()))
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	if kib, err := strconv.Atoi(strings.Fields(rest)[0]); err != nil || kib > 160<<10 {
		t.Errorf("the server has had %d MiB, %v", kib>>10, err)
	}
}

// list repeats a format with the number of each repetition and the next one.
func list(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if strings.Contains(format, "%[2]") {
			fmt.Fprintf(&b, format, i, i+1)
		} else {
			fmt.Fprintf(&b, format, i)
		}
	}
	return b.String()
}

// packed returns a beginning and n MiB of letters, packed.
func packed(n int, begin string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, begin+strings.Repeat("a", n<<20)) // into memory
	_ = z.Close()
	return b.String()
}
