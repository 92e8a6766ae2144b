package ling

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/jsonuri"
)

// value draws a JSON value.
func value(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 6
		if depth == 0 {
			kinds = 4
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.String().Draw(t, "string")
		case 1:
			return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
		case 2:
			return rapid.Bool().Draw(t, "bool")
		case 3:
			return nil
		case 4:
			return rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "array")
		default:
			return rapid.MapOfN(rapid.StringN(0, 6, -1), value(depth-1), 0, 4).Draw(t, "object")
		}
	})
}

// PROTOCOL 1.1, LI-02: the result is the fold of what a streaming caller gets, for any number of bots side by side, and that
// is each bot's document at its root.
func TestTheResultIsWhatEachBotWroteAtItsRoot(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(rt, "bots")
		answers, want := models{}, map[string]any{}
		for i := range n {
			name := fmt.Sprint("b", i)
			v := value(3).Draw(rt, name)
			answers[name] = answer{text: encode(rt, v), pace: time.Duration(rapid.IntRange(0, 5).Draw(rt, "pace"))}
			want[name] = v
		}
		// One more has no root: its members stand beside the others.
		beside := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,3}x`), value(2), 1, 3).Draw(rt, "beside")
		answers["beside"] = answer{text: encode(rt, beside), pace: 2}
		maps.Copy(want, beside)
		var result, streamed []byte
		synctest.Test(t, func(t *testing.T) {
			m := New(t.Context(), bot.Config{}, &Options{Models: answers})
			for name := range answers {
				root := name
				if name == "beside" {
					root = ""
				}
				ask(t, m, name, root, name, bot.Listener{})
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			result = m.Peek(false).Result
			var d jsonuri.Document
			for e := range m.Tube().NewReader(0).Waiting() {
				var delta struct {
					URI   *string
					Delta json.RawMessage
				}
				if err := json.Unmarshal(e.AppendJSON(nil), &delta); err != nil {
					t.Fatal(err)
				}
				if delta.URI == nil {
					continue
				}
				var err error
				if text := string(delta.Delta); strings.HasPrefix(text, `"`) {
					err = d.Append([]byte(*delta.URI), []byte(text[1:len(text)-1]))
				} else {
					err = d.Set([]byte(*delta.URI), delta.Delta)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			streamed = d.AppendJSON(nil)
		})
		for _, got := range [][]byte{result, streamed} {
			if diff := cmp.Diff(decode(rt, []byte(encode(rt, want))), decode(rt, got)); diff != "" {
				rt.Fatal(diff)
			}
		}
	})
}

func encode(t *rapid.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func decode(t *rapid.T, text []byte) (v any) {
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
