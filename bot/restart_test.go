package bot

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
)

// thinksFirst answers with thoughts that are text until the chunk that restarts.
func thinksFirst(thoughts, answer string) script {
	return func(_ context.Context, _ adapter.Request, yield func(adapter.Chunk, error) bool) {
		_ = yield(adapter.Chunk{Text: thoughts, Model: "fake:m"}, nil) &&
			yield(adapter.Chunk{Restart: true, Reasoning: "!", Text: answer}, nil) &&
			yield(adapter.Chunk{Finish: adapter.FinishStop}, nil)
	}
}

// DV-12: what was shown before the tag that ends thoughts is taken back, and the answer is what stands behind it.
func TestTextBeforeTheEndOfThoughtsIsTakenBack(t *testing.T) {
	long := strings.Repeat(" I wonder.", 1000)
	for _, c := range []struct {
		name, root             string
		format                 Format
		thoughts, answer       string
		want, value, reasoning string
	}{
		{"text", "", Text, "They ask.", "144", `"144"`, `"144"`, "They ask.!"},
		{"text at a root", "a/b", Text, "They \"ask\".", "144", `{"a":{"b":"144"}}`, `"144"`, "They \"ask\".!"},
		{"a draft", "", JSON, "Maybe:\n{\"a\": \"x\", \"b\": [1]}\nNo." + long, `{"a": "y"}`, `{"a":"y"}`, `{"a":"y"}`, "Maybe:\n\n!"},
		{"a draft at a root", "r", JSON, "Maybe:\n{\"a\": \"x\", \"b\": [1]}", `{"a": "y"}`, `{"r":{"a":"y"}}`, `{"a":"y"}`, "Maybe:\n\n!"},
		{"an open draft", "r", JSON, "Maybe {\"a\": \"x", `["y"]`, `{"r":["y"]}`, `["y"]`, "Maybe\n\n!"},
		{"no draft", "r", JSON, "They ask [1] me", `{"a": 1}`, `{"r":{"a":1}}`, `{"a":1}`, "They ask [1] me\n\n!"},
		{"a page", "r", HTML, "Maybe:\n<p>x</p></html>" + long, `<b>y</b>`, `{"r":"<b>y</b>"}`, `"<b>y</b>"`, "Maybe:\n\n!"},
	} {
		for _, keep := range []bool{true, false} {
			t.Run(c.name, func(t *testing.T) {
				w := newWorld(t, thinksFirst(c.thoughts, c.answer))
				r, err := chat(t, New(w.Env, "b", c.root, Config{Format: c.format, NoValue: !keep}))
				if err != nil {
					t.Fatal(err)
				}
				document, reserved := w.Tube.Snapshot(true)
				var thoughts map[string]string
				if err := json.Unmarshal(reserved, &thoughts); err != nil {
					t.Fatal(err)
				}
				if string(document) != c.want || keep && string(r.Value) != c.value {
					t.Errorf("document %s, value %s; expected %s, %s", document, r.Value, c.want, c.value)
				}
				for _, got := range thoughts {
					if got != c.reasoning {
						t.Errorf("thoughts %q, expected %q", got, c.reasoning)
					}
				}
			})
		}
	}
}

// DV-12: where others write beside a draft, its members are taken back.
func TestADraftBesideOthersIsTakenBackMemberByMember(t *testing.T) {
	w := newWorld(t, thinksFirst("Maybe:\n{\"a\\/b\": {\"c\": \"x\"}, \"d\": 1}", `{"d": "y"}`))
	w.Alone = func(*ChatBot, func(json.RawMessage) bool) bool { return false }
	if _, err := chat(t, New(w.Env, "b", "r", Config{NoValue: true})); err != nil {
		t.Fatal(err)
	}
	if document, _ := w.Tube.Snapshot(true); string(document) != `{"r":{"a/b":null,"d":"y"}}` {
		t.Errorf("got %s", document)
	}
}

// DV-12: what was said before tools were called stays.
func TestThoughtsOfALaterRoundAreTakenBack(t *testing.T) {
	round := 0
	w := newWorld(t, func(ctx context.Context, r adapter.Request, yield func(adapter.Chunk, error) bool) {
		if round++; round == 2 {
			thinksFirst("They ask.", "144")(ctx, r, yield)
			return
		}
		_ = yield(adapter.Chunk{Text: "I look."}, nil) && yield(adapter.Chunk{ToolCall: &adapter.ToolCall{ID: "c", Name: "nothing"}}, nil) &&
			yield(adapter.Chunk{Finish: adapter.FinishToolCalls}, nil)
	})
	r, err := chat(t, New(w.Env, "b", "", Config{Format: Text, Tools: toolbox(t)}))
	if document, _ := w.Tube.Snapshot(true); err != nil || string(document) != `"I look.\n\n144"` || string(r.Value) != `"I look.\n\n144"` {
		t.Errorf("document %s, value %s, %v", document, r.Value, err)
	}
}

// DV-12: listeners are not told of what a draft would have been.
func TestListenersAreToldOfTheAnswerAlone(t *testing.T) {
	w := newWorld(t, thinksFirst("Maybe {\"a\": \"x", `{"a": "y"}`))
	b := New(w.Env, "b", "", Config{Done: true})
	var log []string
	b.Listen(journal(&log))
	if _, err := chat(t, b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"string a=y", `object ={"a":"y"}`, `inference-done {"a":"y"}`, `response {"a":"y"}`}, log); diff != "" {
		t.Error(diff)
	}
}
