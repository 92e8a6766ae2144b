package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"pgregory.net/rapid"
)

// Whatever stands around the texts of a series of events, they are read as encoding/json reads each of them alone.
func TestDeltasAreReadAsEncodingJSONReadsThem(t *testing.T) {
	type part struct{ Kind, Text string }
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "}", `"`, `\`, `\\`, "\n", `"}}`, `","index":1`, "ü", "🙂", " ", "]"}), rapid.String())
		forms := []string{
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}  } `,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s},"x":"y"}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s,"x":null}}`,
			`{"delta":{"text":%s,"type":"text_delta"},"index":0,"type":"content_block_delta"}`,
			`{"type" : "content_block_delta" , "index" : 0 , "delta" : { "type" : "text_delta" , "text" : %s } }`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":%s}}`,
			`{"type":"content_block_delta","index":10,"delta":{"type":"text_delta","text":%s}}`,
			`{"type":"ping","text":%s}`,
		}
		var want, got []part
		var stream strings.Builder
		for range rapid.IntRange(1, 20).Draw(rt, "events") {
			quoted, _ := json.Marshal(text.Draw(rt, "text"))
			event := fmt.Sprintf(rapid.SampledFrom(forms).Draw(rt, "form"), quoted)
			var e plainEvent
			if err := json.Unmarshal([]byte(event), &e); err != nil {
				rt.Fatal(err)
			}
			if e.Delta.Text != "" {
				want = append(want, part{"text", e.Delta.Text})
			} else if e.Delta.Thinking != "" {
				want = append(want, part{"thinking", e.Delta.Thinking})
			}
			stream.WriteString("data: " + event + "\n\n")
		}
		stream.WriteString(events(ended, stopped))
		m, err := newProvider(t, Options{Transport: streaming(stream.String())}).Model("m")
		if err != nil {
			rt.Fatal(err)
		}
		for c, err := range m.Stream(t.Context(), adapter.Request{}) {
			if err != nil {
				rt.Fatal(err)
			}
			if c.Text != "" {
				got = append(got, part{"text", c.Text})
			}
			if c.Reasoning != "" {
				got = append(got, part{"thinking", c.Reasoning})
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("%s\n%s", stream.String(), diff)
		}
	})
}
