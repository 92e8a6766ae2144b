package tape_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/tape"
)

// TA-24: an index of folded text misses nothing: what a search selects has all of its words in the text that a Folder gives.
func TestAFolderMissesNothingThatASearchSelects(t *testing.T) {
	var f tape.Folder
	if got := f.Words(" ＮＥＥＤＬＥ\u3000Straße ｶﾞ\n"); !slices.Equal(got, []string{"needle", "strasse", "ガ"}) {
		t.Errorf("the words are %q", got)
	}
	if got := f.Text(tape.NewEvent("needle", "needle")); got != "" {
		t.Errorf("of an event %q is searched", got)
	}
	words := []string{"Ａb", "ß", "ｶﾞ", "e\u0301", "é", "İ", "ﬁ", "天气", " ", "\n", "\u3000", `"`, `\`, "ς", "Σ", "\u0301"}
	found := 0
	rapid.Check(t, func(r *rapid.T) {
		draw := func(label string) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 6).Draw(r, label), "")
		}
		s := tape.NewMemory(nil)
		defer s.Close()
		entries := []tape.Entry{
			tape.NewMessage("user", draw("message")),
			tape.NewToolCall(draw("content"), tape.Call{ID: "c", Function: tape.FunctionCall{Name: draw("name"), Arguments: `{"a":"x"}`}}),
			tape.NewToolResult([]string{"c"}, draw("result"), draw("another")),
			tape.NewError("internal", draw("error")),
		}
		if _, err := s.Append(t.Context(), "a", tape.Batch{Create: true, Entries: entries}); err != nil {
			r.Fatal(err)
		}
		q := tape.Query{Text: draw("query")}
		for e, err := range s.Read(t.Context(), "a", q) {
			if err != nil {
				r.Fatal(err)
			}
			found++
			for _, word := range f.Words(q.Text) {
				if text := f.Text(e); !strings.Contains(text, word) {
					r.Errorf("%q selects %s, whose text %q has no %q", q.Text, e.Payload, text, word)
				}
			}
		}
	})
	if found == 0 {
		t.Error("nothing was ever found")
	}
}
