package agent

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// AG-20, AG-21, AG-22, AG-27: what happens, in the order in which it happens.
func TestATurnWithAToolGoesToTheTapeStepByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(calls("Let me see.", `c1:echo:{"text":"sunny"}`), answers("It is sunny.")), Options{Tools: setOf(t, echoTool(t))})
		h := w.say("天气?")
		if h.Output != "Let me see.It is sunny." || h.Usage.TotalTokens != 14 {
			t.Errorf("output %q, usage %+v", h.Output, h.Usage)
		}
		if diff := cmp.Diff([]string{
			`anchor session/start {"owner":"human"}`,
			`event turn.start`,
			`system`,
			`user: "天气?"`,
			`call "Let me see." c1:echo{"text":"sunny"}`,
			`result c1="sunny"`,
			`event loop.step ok`,
			`assistant: "It is sunny."`,
			`event loop.step ok`,
			`event turn.end ok`,
		}, w.lines()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			`text Let me see.`,
			`call c1:echo{"text":"sunny"}`,
			`usage 7`,
			`result c1="sunny"`,
			`text It is sunny.`,
			`usage 7`,
			`final true "It is sunny." stop`,
		}, told(h.events)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			`system`,
			`assistant: [Anchor created: session/start]: {"owner":"human"}`,
			`user: 天气?`,
			`assistant: Let me see. →c1:echo{"text":"sunny"}`,
			`tool: sunny ←c1`,
		}, seen(w.model.requests()[1])); diff != "" {
			t.Error(diff)
		}
	})
}
