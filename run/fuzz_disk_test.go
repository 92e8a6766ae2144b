package run

import (
	"bufio"
	"bytes"
	"encoding/json"
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
		if !ok || again != e || same != of || !ValidID(e.id()) {
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
		{Run: id, Subject: Subject{Workflow: "chat"}, Began: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)},
		{Run: id, Subject: Subject{Agent: "a"}, Owner: "0f8c", Keyed: true, Lost: true},
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
