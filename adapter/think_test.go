package adapter

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
)

// pieces is a model that answers with a text in pieces.
type pieces []string

func (p pieces) Stream(context.Context, Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for _, text := range p {
			if !yield(Chunk{Text: text}, nil) {
				return
			}
		}
		yield(Chunk{Finish: FinishStop}, nil)
	}
}

// MO-11: thinking in tags at the start of a text is reasoning, wherever the text is cut.
func TestTagsAtTheStartOfATextAreReasoning(t *testing.T) {
	space := strings.Repeat(" ", 2*mostSpace)
	for text, want := range map[string]struct{ text, reasoning string }{
		"<think>a < b</think>\n\n144":            {"144", "a < b"},
		" \n<thinking>a</think></thinking> 144 ": {"144 ", "a</think>"},
		"[THINK]a[/THIN[/THINK]144":              {"144", "a[/THIN"},
		"<think></think>144":                     {"144", ""},
		"<think>never ended </thin":              {"", "never ended </thin"},
		"<think>ended</think> ":                  {"", "ended"},
		"144 <think>a</think>":                   {"144 <think>a</think>", ""},
		"<thin":                                  {"<thin", ""},
		"<thin air>":                             {"<thin air>", ""},
		" {\"a\": 1}":                            {" {\"a\": 1}", ""},
		space + "<think>a</think>":               {space + "<think>a</think>", ""},
		" ":                                      {" ", ""},
		"":                                       {"", ""},
		"<think>a</think><think>b</think>":       {"<think>b</think>", "a"},
	} {
		for _, size := range []int{1, 2, 3, 5, 7, 11, 1 << 10} {
			var p pieces
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				p, rest = append(p, rest[:n]), rest[n:]
			}
			var said, thought string
			finished := false
			for c, err := range (&guarded{model: p}).Stream(t.Context(), Request{}) {
				if errors.Is(err, ErrEmpty) && strings.TrimSpace(want.text) == "" {
					finished = true
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if finished {
					t.Errorf("%q: %+v comes behind the end", text, c)
				}
				said, thought, finished = said+c.Text, thought+c.Reasoning, c.Finish != ""
			}
			if said != want.text || thought != want.reasoning || !finished {
				t.Errorf("%q in pieces of %d: text %q, reasoning %q; expected %q and %q", text, size, said, thought, want.text, want.reasoning)
			}
		}
	}
}

// MO-11: what was held back comes before a call.
func TestTextThatIsHeldBackComesWithACall(t *testing.T) {
	var tags thinking
	for _, row := range []struct{ in, out Chunk }{
		{Chunk{Text: "<th"}, Chunk{}},
		{Chunk{ToolCall: &ToolCall{Name: "f"}}, Chunk{Text: "<th"}},
		{Chunk{Text: "ink>"}, Chunk{Text: "ink>"}},
	} {
		got := row.in
		if tags.take(&got); got.Text != row.out.Text || got.Reasoning != "" {
			t.Errorf("%+v becomes %+v; expected the text %q", row.in, got, row.out.Text)
		}
	}
}
