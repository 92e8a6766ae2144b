package bot

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever a model says, however it is cut, the bot ends, and the value that its listeners get is the one that readers of its
// deltas have.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`{"a":"b","c":[1,2.50,{"d":null}]}`, "```json\n{a: 'b', c: True,}\n```", "Sorry.", `{"a":{"b":["x","unfin`, `[1,2}`,
		`"just text"`, `{"a":1}{"b":2}`, `{"a":1,"a":{"x":2},"a":[3]}`, "{\"a\":\"\xff\\ud83d\"}", "", "12", `<think>{"no":1}</think>{"yes":1}`,
	} {
		f.Add(text, uint8(3), false)
		f.Add(text, uint8(200), true)
	}
	f.Fuzz(func(t *testing.T, text string, size uint8, asText bool) {
		var pieces []string
		for rest := text; rest != ""; {
			n := min(len(rest), int(size)+1)
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		c := Config{Done: true}
		if asText {
			c.Format = Text
		}
		w := newWorld(t, says("stop", pieces...))
		b := New(w.Env, "b", "root", c)
		var log []string
		b.Listen(journal(&log))
		r, err := chat(t, b)
		w.wg.Wait()
		last := log[len(log)-1]
		if err != nil {
			if _, known := Describe(err); !known || b.State() != Error || !strings.HasPrefix(last, "error ") {
				t.Fatalf("state %s, %v, %s", b.State(), err, last)
			}
			return
		}
		if b.State() != Finished || !strings.HasPrefix(last, "response ") || !strings.HasPrefix(log[len(log)-2], "inference-done ") {
			t.Fatalf("state %s, %s", b.State(), last)
		}
		document, _ := w.Tube.Snapshot(true)
		var folded struct{ Root any }
		var value any
		if err := json.Unmarshal(document, &folded); err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		if err := json.Unmarshal(r.Value, &value); err != nil {
			t.Fatalf("%s: %v", r.Value, err)
		}
		if diff := cmp.Diff(folded.Root, value); diff != "" {
			t.Fatalf("%s\n%s\n%s", document, r.Value, diff)
		}
	})
}
