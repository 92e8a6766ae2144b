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
	space := strings.Repeat(" ", 2*maxSpace)
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
			for c, err := range (&guarded{Registry: new(Registry), model: p}).Stream(t.Context(), Request{}) {
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
		if tags.split(&got); got.Text != row.out.Text || got.Reasoning != "" {
			t.Errorf("%+v becomes %+v; expected the text %q", row.in, got, row.out.Text)
		}
	}
}

// read joins the chunks of an answer as their readers do.
func read(t *testing.T, g *guarded) (text, reasoning string, restarts int) {
	t.Helper()
	for c, err := range g.Stream(t.Context(), Request{}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Restart {
			text, reasoning, restarts = "", reasoning+text, restarts+1
		}
		text, reasoning = text+c.Text, reasoning+c.Reasoning
	}
	return text, reasoning, restarts
}

// inPieces cuts a text in pieces of a size.
func inPieces(text string, size int) (p pieces) {
	for text != "" {
		n := min(size, len(text))
		p, text = append(p, text[:n]), text[n:]
	}
	return p
}

// DV-12: what stands before an end tag that has no beginning is reasoning, wherever the text is cut; a tag that the text speaks of is not.
func TestAnEndTagWithoutABeginningEndsThoughts(t *testing.T) {
	for text, want := range map[string]struct{ text, reasoning string }{
		"They ask 12².\n</think>\n\n144":              {"144", "They ask 12².\n"},
		"hm, 144?</think>144":                         {"144", "hm, 144?"},
		"hm </think>144":                              {"144", "hm "},
		"hm</think> 144":                              {"144", "hm"},
		"hm \"so\"</think>\n144":                      {"144", "hm \"so\""},
		"try {\"a\": 1 < 2}\n</think>\n{\"a\": 2}":    {`{"a": 2}`, "try {\"a\": 1 < 2}\n"},
		"hm </think> {\"a\": 2}":                      {`{"a": 2}`, "hm "},
		"hm</think>```json\n{}":                       {"```json\n{}", "hm"},
		"</think>\n\n144":                             {"144", ""},
		"`</think>` ends thoughts":                    {"`</think>` ends thoughts", ""},
		"The </think> tag ends thoughts.":             {"The </think> tag ends thoughts.", ""},
		"It ends with </think>.":                      {"It ends with </think>.", ""},
		"It ends with </think>":                       {"It ends with </think>", ""},
		`{"a": "</think>"}`:                           {`{"a": "</think>"}`, ""},
		"Thoughts:\n<think>\nhm\n</think>\nand so on": {"Thoughts:\n<think>\nhm\n</think>\nand so on", ""},
		"```xml\n<think>hm</think>\n```":              {"```xml\n<think>hm</think>\n```", ""},
		"a < b, c </b> d </thin":                      {"a < b, c </b> d </thin", ""},
		"one\n</think>\ntwo\n</think>\nthree":         {"two\n</think>\nthree", "one\n"},
	} {
		for _, size := range []int{1, 2, 3, 5, 7, 11, 1 << 10} {
			said, thought, restarts := read(t, &guarded{Registry: new(Registry), model: inPieces(text, size)})
			if said != want.text || thought != want.reasoning || restarts > 1 {
				t.Errorf("%q in pieces of %d: text %q, reasoning %q, %d restarts; expected %q and %q", text, size, said, thought, restarts, want.text, want.reasoning)
			}
		}
	}
}

// DV-12: the next answers of such a model begin as thoughts, so that nothing has to be taken back. One without a tag is text.
func TestAModelThatBeganInThoughtsIsExpectedToDoSoAgain(t *testing.T) {
	var known Registry
	for i, row := range []struct {
		answer, text, reasoning string
		restarts                int
	}{
		{"hm\n</think>\n\n144", "144", "hm\n", 1},
		{"hm, the </think> tag", "tag", "hm, the ", 0},
		{"144", "144", "144", 0},
		{"144", "144", "", 0},
		{"hm\n</think>\n\n144", "144", "hm\n", 1},
		{"<think>hm</think>144", "144", "hm", 0},
		{"144", "144", "", 0},
	} {
		text, reasoning, restarts := read(t, &guarded{Registry: &known, model: inPieces(row.answer, 3)})
		if text != row.text || reasoning != row.reasoning || restarts != row.restarts {
			t.Errorf("answer %d, %q: text %q, reasoning %q, %d restarts; expected %+v", i, row.answer, text, reasoning, restarts, row)
		}
	}
}

// DV-12: of a provider that tells thoughts apart, no text is thoughts, but for a tag before it.
func TestTextBesideReasoningIsNoThought(t *testing.T) {
	for text, want := range map[string]string{"</think>\n144": "144", "hm\n</think>\n144": "hm\n</think>\n144"} {
		tags, got := thinking{}, ""
		for _, c := range []Chunk{{Reasoning: "so"}, {Text: text}, {Finish: FinishStop}} {
			tags.split(&c)
			if got += c.Text; c.Restart {
				t.Errorf("%q takes text back", text)
			}
		}
		if got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// DV-12: thoughts that a limit of tokens cuts off are no reason to forget that the model thinks first.
func TestThoughtsThatAreCutOffStayReasoning(t *testing.T) {
	tags, text, reasoning := thinking{known: true}, "", ""
	for _, c := range []Chunk{{Text: "hm, 12"}, {Finish: FinishLength}} {
		tags.split(&c)
		text, reasoning = text+c.Text, reasoning+c.Reasoning
	}
	if text != "" || reasoning != "hm, 12" || !tags.known {
		t.Errorf("text %q, reasoning %q, known %t", text, reasoning, tags.known)
	}
}
