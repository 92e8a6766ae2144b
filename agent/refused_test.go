package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/turn"
)

// picky refuses each request in which the word is, and else answers "fine"; a request with the word "look" calls the tool echo first.
func picky(word string, refusal *adapter.Error) *fake {
	f := newFake()
	f.script = []say{func(ctx context.Context, yield func(adapter.Chunk, error) bool) {
		asked := f.requests()
		text := strings.Join(seen(asked[len(asked)-1]), "\n")
		switch {
		case strings.Contains(text, word):
			yield(adapter.Chunk{}, refusal)
		case strings.Contains(text, "look") && !strings.Contains(text, "tool: "):
			calls("", `c:echo:{"text":"poison"}`)(ctx, yield)
		default:
			answers("fine")(ctx, yield)
		}
	}}
	return f
}

// DV-01
func TestARefusedMessageDoesNotEndTheConversation(t *testing.T) {
	refused := &adapter.Error{Code: adapter.CodeProtocol, Refused: true, Status: 400, Message: "the server refused the request"}
	filtered := &adapter.Error{Code: adapter.CodeProtocol, Refused: true, Filtered: true, Message: "the filter stopped it"}
	photo := []turn.Media{{Type: "image", MIME: "image/png", URL: "data:image/png;base64,poison"}}
	for name, row := range map[string]struct {
		refusal *adapter.Error
		text    string
		media   []turn.Media
		want    string // is in the next request
		not     string
	}{
		"words":           {refused, "poison", nil, "user: [This was left out, because it was refused: the server refused the request]", "poison"},
		"a photo":         {refused, "what is this?", photo, "what is this?][text [Images and files were left out, because they were refused: the server refused the request]]", "poison"},
		"a filter":        {filtered, "what is this?", photo, "[This was left out, because it was refused: the filter stopped it]", "what is this"},
		"a tool's result": {refused, "look", nil, "tool: [This was left out, because it was refused: the server refused the request] ←c", "user: [This"},
	} {
		t.Run(name, func(t *testing.T) {
			word := "poison"
			if name == "a tool's result" {
				word = "tool: poison"
			}
			w := newWorld(t, picky(word, row.refusal), Options{Tools: setOf(t, echoTool(t))})
			w.say("before")
			e := message(row.text)
			e.Media = row.media
			if h := w.process(t.Context(), e); !errors.Is(h.err, row.refusal) {
				t.Fatalf("the refused turn: %v", h.err)
			}
			w.say("after")
			w.say("and again")
			asked := w.model.requests()
			text := strings.Join(seen(asked[len(asked)-1]), "\n")
			if !strings.Contains(text, row.want) || strings.Contains(text, row.not) || !strings.Contains(text, "user: before") {
				t.Errorf("the model sees\n%s\nwant %q in it, and not %q", text, row.want, row.not)
			}
		})
	}
}

func TestWhatFailedOfTheServerIsAskedAgain(t *testing.T) {
	w := newWorld(t, newFake(fails(downError), answers("fine")), Options{})
	if h := w.process(t.Context(), message("first")); h.err == nil {
		t.Fatal("the turn did not fail")
	}
	w.say("second")
	if text := strings.Join(seen(w.model.requests()[1]), "\n"); !strings.Contains(text, "user: first") {
		t.Errorf("the model sees\n%s", text)
	}
}
