package jsonuri

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// article is a document of at least size bytes like what models write: nested, pretty-printed, strings of 100 to 2000
// characters with some escapes and some text beyond ASCII.
func article(size int) []byte {
	var b bytes.Buffer
	b.WriteString("{\n  \"title\": \"An \\\"article\\\"\",\n  \"sections\": [")
	sentence := "The tide rises, and falls, twice a day because the moon pulls the water. "
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		n := 1 + i*7%25
		fmt.Fprintf(&b, "\n    {\n      \"id\": %d,\n      \"topic\": \"Why does the sea move? Nr %d\",\n      \"tags\": [\"sea\", \"moon\", \"tide\", %d.5, true, null],\n", i, i, i)
		fmt.Fprintf(&b, "      \"body\": \"%s\\nÜber das Meer: 海はどうして動くの\\u003f 😀\",\n      \"meta\": {\"words\": %d, \"draft\": false}\n    }", strings.Repeat(sentence, n), n*14)
	}
	b.WriteString("\n  ]\n}\n")
	return b.Bytes()
}

// shapes are the documents of JS-04.
var shapes = []struct {
	name string
	make func(size int) []byte
}{
	{"article", article},
	{"string", func(n int) []byte { return []byte(`{"a":"` + strings.Repeat("x", n) + `"}`) }},
	{"backslashes", func(n int) []byte { return []byte(`{"a":"` + strings.Repeat(`\\`, n/2) + `"}`) }},
	{"elements", func(n int) []byte { return []byte("[" + strings.Repeat("1,", n/2) + "1]") }},
	{"nesting", func(n int) []byte {
		unit := strings.Repeat("[", 511) + strings.Repeat("]", 511)
		return []byte("[" + strings.Repeat(unit+",", n/len(unit)) + "1]")
	}},
	{"keys", func(n int) []byte {
		var b bytes.Buffer
		b.WriteByte('{')
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, `"%x":1,`, i)
		}
		b.WriteString(`"":1}`)
		return b.Bytes()
	}},
}

// BenchmarkParser reads each shape at 1, 4 and 16 MiB, to see that time grows with the size only (JS-04).
func BenchmarkParser(b *testing.B) {
	for _, mode := range []string{"strict", "repair"} {
		for _, shape := range shapes {
			for _, mib := range []int{1, 4, 16} {
				for _, chunk := range []int{4, 0} {
					name := fmt.Sprintf("%s/%s/%dMiB/chunk=%d", mode, shape.name, mib, chunk)
					if chunk == 0 {
						name = fmt.Sprintf("%s/%s/%dMiB/whole", mode, shape.name, mib)
					}
					b.Run(name, func(b *testing.B) {
						benchParse(b, shape.make(mib<<20), chunk, Options{Repair: mode == "repair"}, Handler{Delta: func(Delta) {}})
					})
				}
			}
		}
	}
}

// BenchmarkListeners shows what collecting values costs.
func BenchmarkListeners(b *testing.B) {
	n := 0
	h := Handler{
		Delta:  func(Delta) {},
		String: func(_ []byte, v string) { n += len(v) },
		Object: func(_, v []byte) { n += len(v) },
		Done:   func([]byte) { n++ },
	}
	benchParse(b, article(1<<20), 4, Options{}, h)
}

// BenchmarkValid is the bar for whole documents.
func BenchmarkValid(b *testing.B) {
	text := article(1 << 20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if !json.Valid(text) {
			b.Fatal("not valid")
		}
	}
}

func benchParse(b *testing.B, text []byte, chunk int, o Options, h Handler) {
	o.MaxBytes = 1 << 30
	if chunk == 0 {
		chunk = len(text)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		p := NewParser(h, &o)
		for i := 0; i < len(text); i += chunk {
			if _, err := p.Write(text[i:min(i+chunk, len(text))]); err != nil {
				b.Fatal(err)
			}
		}
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64((len(text)+chunk-1)/chunk), "ns/chunk")
}
