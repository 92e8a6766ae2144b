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
		f.Add(append(crcline.Append(text[:len(text)-1:len(text)-1], 0), '\n'))
		f.Add(append(text, '\n'))
		f.Add(text)
	}
	f.Add([]byte(`{"run":"` + strings.Repeat("\x01", 5000) + "\"}\n"))
	f.Add([]byte(`{"run":"` + id + `","began":"0001-01-` + strings.Repeat("\xe3", 5000) + "\"}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := readHeader(id, bufio.NewReader(bytes.NewReader(text)))
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
		again, err := readHeader(id, bufio.NewReader(bytes.NewReader(append(crcline.Append(first[:len(first)-1:len(first)-1], 0), '\n'))))
		if err != nil {
			t.Fatal(err)
		}
		if second, err := json.Marshal(again); err != nil || !bytes.Equal(first, second) || h.Run != id {
			t.Errorf("%s is read as %s", first, second)
		}
	})
}
