package bedrock

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"pgregory.net/rapid"
)

// Whatever stands around the texts of a series of events, they are read as encoding/json reads each of them alone.
func TestDeltasAreReadAsEncodingJSONReadsThem(t *testing.T) {
	type part struct{ Kind, Text string }
	forms := []string{
		`{"contentBlockIndex":0,"delta":{"text":%s},"p":"abc"}`,
		`{"contentBlockIndex":0,"delta":{"text":%s},"p":"abcdefgh"}`,
		`{"contentBlockIndex":0,"delta":{"text":%s}}`,
		`{"contentBlockIndex":1,"delta":{"text":%s},"p":"abc"}`,
		`{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":%s}},"p":"abc"}`,
		`{"contentBlockIndex":0,"delta":{"x":null,"text":%s},"p":"abc"}`,
		`{"p":"abc","delta":{"text":%s},"contentBlockIndex":0}`,
		`{"contentBlockIndex" : 0 , "delta" : { "text" : %s } , "p" : "abc" }`,
		`{"contentBlockIndex":0,"delta":{"somethingNew":%s},"p":"abc"}`,
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "}", `"`, `\`, `\\`, "\n", `"}}`, `"},"p":"`, "ü", "🙂", " ", "]"}), rapid.String())
		var want, got []part
		var stream []byte
		for range rapid.IntRange(1, 20).Draw(rt, "events") {
			quoted, _ := json.Marshal(text.Draw(rt, "text"))
			event := fmt.Sprintf(rapid.SampledFrom(forms).Draw(rt, "form"), quoted)
			var e struct {
				Delta struct {
					Text    string
					Thought struct{ Text string } `json:"reasoningContent"`
				}
			}
			if err := json.Unmarshal([]byte(event), &e); err != nil {
				rt.Fatal(err)
			}
			if e.Delta.Text != "" {
				want = append(want, part{"text", e.Delta.Text})
			} else if e.Delta.Thought.Text != "" {
				want = append(want, part{"reasoning", e.Delta.Thought.Text})
			}
			stream = fakeproviders.AppendFrame(stream, "event", "contentBlockDelta", event)
		}
		end := adaptertest.Bedrock.Finish + adaptertest.Bedrock.Done
		for c, err := range modelAt(t, lite, streaming(strings.NewReader(string(stream)+end))).Stream(t.Context(), adapter.Request{Messages: question}) {
			if err != nil {
				rt.Fatal(err)
			}
			if c.Text != "" {
				got = append(got, part{"text", c.Text})
			}
			if c.Reasoning != "" {
				got = append(got, part{"reasoning", c.Reasoning})
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("%q\n%s", stream, diff)
		}
	})
}
