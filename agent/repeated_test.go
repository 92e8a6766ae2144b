package agent

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// DC-03: the message of a turn that is run again is on the tape once, and the model is asked it once.
func TestAMessageIsOnTheTapeOnceHoweverOftenItsTurnIsRun(t *testing.T) {
	away := &adapter.Error{Code: adapter.CodeUnavailable, Message: "away"}
	ask := func(id, text string, repeated bool) *turn.Envelope {
		e := &turn.Envelope{ID: id, SessionID: "s", Channel: "telegram", ChatID: "1", Content: text}
		if repeated {
			e.Repeated = true
		}
		return e
	}
	for name, test := range map[string]struct {
		script []say
		turns  []*turn.Envelope
		tape   []string // the users' messages
		asked  []string // what the last request has, by role
	}{
		"the model is away": {
			script: []say{fails(away), fails(away), fails(away), answers("hello")},
			turns:  []*turn.Envelope{ask("1", "hi", false), ask("1", "hi", true), ask("1", "hi", true), ask("1", "hi", true)},
			tape:   []string{"hi"}, asked: []string{"user hi"},
		},
		"the model is cut off": {
			script: []say{fails(away, adapter.Chunk{Text: "hel"}), fails(away, adapter.Chunk{Text: "he"}), answers("hello")},
			turns:  []*turn.Envelope{ask("1", "hi", false), ask("1", "hi", true), ask("1", "hi", true)},
			tape:   []string{"hi"}, asked: []string{"user hi"},
		},
		"a tool has run": {
			script: []say{calls("", `c1:echo:{"text":"a"}`), fails(away), answers("hello")},
			turns:  []*turn.Envelope{ask("1", "hi", false), ask("1", "hi", true)},
			tape:   []string{"hi"}, asked: []string{"user hi", "assistant ", "tool a"},
		},
		"something was said since": {
			script: []say{fails(away), answers("yes"), answers("hello")},
			turns:  []*turn.Envelope{ask("1", "hi", false), ask("2", "there?", false), ask("1", "hi", true)},
			tape:   []string{"hi", "there?", "hi"}, asked: []string{"user hi", "user there?", "assistant yes", "user hi"},
		},
		"it is the first turn that has come so far": {
			script: []say{answers("hello")}, turns: []*turn.Envelope{ask("1", "hi", true)}, tape: []string{"hi"}, asked: []string{"user hi"},
		},
		"the same words once more": {
			script: []say{answers("hello")}, turns: []*turn.Envelope{ask("1", "hi", false), ask("2", "hi", false)},
			tape: []string{"hi", "hi"}, asked: []string{"user hi", "assistant hello", "user hi"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			model := newFake(test.script...)
			w := newWorld(t, model, Options{Tools: setOf(t, echoTool(t))})
			for _, e := range test.turns {
				_, _ = w.f.Process(t.Context(), e)
			}
			var said []string
			for _, e := range w.entries() {
				var m struct{ Role, Content string }
				if _ = json.Unmarshal(e.Payload, &m); e.Kind == tape.KindMessage && m.Role == "user" {
					said = append(said, m.Content)
				}
			}
			if diff := cmp.Diff(test.tape, said); diff != "" {
				t.Error(diff)
			}
			var asked []string
			requests := model.requests()
			for _, m := range requests[len(requests)-1].Messages {
				if m.Role != adapter.System {
					asked = append(asked, string(m.Role)+" "+m.Content)
				}
			}
			if diff := cmp.Diff(test.asked, asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}
