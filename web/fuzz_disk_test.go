package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/crcline"
)

// A line of the file of keys that is read is written so that it is read as the same, and no other line can be begun by what stands in it.
func FuzzKeyLine(f *testing.F) {
	const line = "00112233445566778899aabbccddeeff 00112233445566778899aabbccddeeff q6myrp4qkegvdwscbennnkcpyq 1790000000 "
	for _, of := range []string{`"chat"`, `agent "a\nb"`, `by 0f8c "chat"`, `by ann agent "x"`, `by  "x"`, "`x`", `'x'`, `agent agent "x"`} {
		f.Add([]byte(line + of + "\n"))
	}
	f.Add([]byte(line + `"cha`))
	f.Add([]byte(strings.Replace(line, " 179", " -179", 1) + "\"x\"\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, of, ok := parseKeyLine(line)
		if !ok {
			return
		}
		text := e.appendLine(nil, of)
		again, same, ok := parseKeyLine(text)
		if !ok || again != e || same != of || !wellFormed(e.id()) {
			t.Errorf("%q was read as %+v %+v, which is written as %q", line, e, of, text)
		}
		if !bytes.ContainsRune(line[:len(line)-1], '\n') && bytes.IndexByte(text, '\n') != len(text)-1 {
			t.Errorf("%q are several lines", text)
		}
	})
}

// A run's file begins with what the run came to, as it is written; and nothing that is said of a file that does not is long, whatever stands in it.
func FuzzRunHeader(f *testing.F) {
	const id = "q6myrp4qkegvdwscbennnkcpyq"
	for _, h := range []header{
		{Run: id, subject: subject{Workflow: "chat"}, Began: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)},
		{Run: id, subject: subject{Agent: "a"}, Owner: "0f8c", Keyed: true, Lost: true},
		{Run: "x"},
	} {
		text, err := json.Marshal(h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(text, '\n'))
		f.Add(text)
		f.Add(append(crcline.Append(text[:len(text)-1], 0), '\n'))
	}
	f.Add([]byte(`{"run":"` + strings.Repeat("\x01", 5000) + "\"}\n"))
	f.Add([]byte(`{"run":"` + id + `","began":"0001-01-` + strings.Repeat("\xe3", 5000) + "\"}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, _, err := readHeader(id, bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			if len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\r\n\x00") {
				t.Errorf("%q", err)
			}
			return
		}
		first, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := readHeader(id, bufio.NewReader(bytes.NewReader(append(first, '\n'))))
		if err != nil {
			t.Fatal(err)
		}
		if second, err := json.Marshal(again); err != nil || !bytes.Equal(first, second) || h.Run != id {
			t.Errorf("%s is read as %s", first, second)
		}
	})
}

// traceparent is the header as https://www.w3.org/TR/trace-context/#traceparent-header writes it: what follows in later versions is theirs.
var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)

// A trace is the one that the header names, where it is written as it has to be, and otherwise there is none.
func FuzzTraceparent(f *testing.F) {
	for _, text := range []string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
	} {
		f.Add(text, "vendor=x")
	}
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", strings.Repeat("a=b,", 40))
	f.Fuzz(func(t *testing.T, text, state string) {
		c := traceOf(&http.Request{Header: http.Header{"Traceparent": {text}, "Tracestate": {state}}})
		parts := traceparent.FindStringSubmatch(text)
		// OpenTelemetry, which reads it, passes over a hyphen at the end.
		good := parts != nil && parts[1] != "ff" && (parts[1] != "00" || parts[5] == "" || parts[5] == "-") && strings.Trim(parts[2], "0") != "" && strings.Trim(parts[3], "0") != ""
		switch {
		case !c.IsValid():
		case !good || c.TraceID().String() != parts[2] || c.SpanID().String() != parts[3] || !c.IsRemote():
			t.Errorf("%q is %v %v", text, c.TraceID(), c.SpanID())
		case c.TraceState().Len() > 32 || strings.ContainsAny(c.TraceState().String(), "\r\n\x00"):
			t.Errorf("%q", c.TraceState())
		}
		if good && parts[1] == "00" && strings.Trim(parts[4][:1], "0") == "" && strings.Contains("01", parts[4][1:]) && !c.IsValid() {
			t.Errorf("%q is not taken", text)
		}
	})
}

// An Idempotency-Key is taken as it is, if it is 1 to 255 visible characters, or refused with the header's name.
func FuzzIdempotencyKey(f *testing.F) {
	for _, key := range []string{"k", "", " ", "a b", "é", strings.Repeat("a", 255), strings.Repeat("a", 256), "\x7f", "~", "\"8e03978e\""} {
		f.Add(key, key)
	}
	f.Add("a", "b")
	f.Fuzz(func(t *testing.T, key, query string) {
		d, st := &decoder{}, new(start)
		st.key = query
		st.idempotencyKey(d, &http.Request{Header: http.Header{"Idempotency-Key": {key}}})
		visible := len(key) >= 1 && len(key) <= 255
		for i := range len(key) {
			visible = visible && '!' <= key[i] && key[i] <= '~'
		}
		if ok := key == "" || visible && (query == "" || query == key); ok != (len(d.misfits) == 0) || ok && key != "" && st.key != key {
			t.Errorf("%q beside %q is %q: %+v", key, query, st.key, d.misfits)
		}
		for _, m := range d.misfits {
			if m.Header != "Idempotency-Key" || m.Detail == "" {
				t.Errorf("%+v", m)
			}
		}
	})
}
