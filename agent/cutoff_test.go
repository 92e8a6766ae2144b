package agent

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tape"
)

// DC-09: what people saw of a reply that a crash has cut off is on the tape, marked as cut off, once, and the model sees it.
func TestWhatWasShownOfACutOffReplyIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		before []tape.Entry // of the turn, behind its prompt
		text   string
		want   []string // the assistant's messages; one that is cut off has an ellipsis
	}{
		"nothing was written":   {text: " It is sun", want: []string{"It is sun…"}},
		"the reply was written": {before: []tape.Entry{tape.NewMessage("assistant", "It is sunny.")}, text: "It is sun", want: []string{"It is sunny."}},
		"the turn has ended":    {before: []tape.Entry{tape.NewEvent(entryEnd, ended{Status: statusOK})}, text: "It is sun"},
		"an earlier step was":   {before: []tape.Entry{tape.NewMessage("assistant", "Let me look.")}, text: "It is sun", want: []string{"Let me look.", "It is sun…"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newFake(answers("ok")), Options{})
			begin := func(turn string, more ...tape.Entry) {
				for _, e := range append([]tape.Entry{tape.NewEvent(entryStart, started{"fake:m"}), tape.NewMessage("user", "weather?")}, more...) {
					if _, err := w.tape().Append(t.Context(), e.With(tape.Meta{Turn: turn})); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := w.KeepCutOff(t.Context(), "s", "t1", test.text); err != nil {
				t.Fatal(err) // there is no tape
			}
			w.say("hello")
			begin("t1", test.before...)
			for range 2 {
				if err := w.KeepCutOff(t.Context(), "s", "t1", test.text); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, e := range w.entries() {
				var m struct{ Role, Content string }
				if _ = json.Unmarshal(e.Payload, &m); e.Kind != tape.KindMessage || m.Role != "assistant" || tape.MetaOf(e).Turn != "t1" {
					continue
				}
				if tape.MetaOf(e).Partial {
					m.Content += "…"
				}
				got = append(got, m.Content)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
