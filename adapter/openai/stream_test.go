package openai

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/lingserve/lingserve/adapter"
	"github.com/rogpeppe/go-internal/txtar"
)

// Whatever comes as a stream: no panic; a last chunk with a Finish or an error, and not both but for a content filter; whole
// characters; the same however it is cut.
func FuzzStream(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range archive.Files {
			if section.Name == "stream" && len(section.Data) < 4096 {
				f.Add(section.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		var all [2]string
		for i, cut := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			m, _ := newProvider(t, Options{MaxEvent: 1 << 10, Transport: bodyOf(func() io.Reader {
				return cut(strings.NewReader(string(stream)))
			})}).Model("m")
			finishes, failures := 0, 0
			var finish string
			for c, err := range m.Stream(t.Context(), adapter.Request{}) {
				if failures > 0 || finishes > 0 && err == nil {
					t.Fatalf("something after the end: %+v %v", c, err)
				}
				if err != nil {
					failures++
				}
				if c.Finish != "" {
					finishes, finish = finishes+1, c.Finish
				}
				if !utf8.ValidString(c.Text) || !utf8.ValidString(c.Reasoning) || c.ToolCall != nil && !utf8.ValidString(c.ToolCall.Arguments) {
					t.Fatalf("not UTF-8: %+v", c)
				}
			}
			if finishes+failures != 1 && finish != adapter.FinishContentFilter {
				t.Fatalf("%d finishes and %d errors", finishes, failures)
			}
			all[i] = list(m.Stream(t.Context(), adapter.Request{}))
		}
		if all[0] != all[1] {
			t.Fatalf("at once:\n%s\nbyte by byte:\n%s", all[0], all[1])
		}
	})
}
