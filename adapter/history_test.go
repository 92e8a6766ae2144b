package adapter

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// MO-20, MO-21: what providers get begins with the user, takes turns, and has results in the order of their calls.
func TestAHistoryIsArrangedForEveryProvider(t *testing.T) {
	system := func(text string) Message { return Message{Role: System, Content: text} }
	user := func(text string) Message { return Message{Role: User, Content: text} }
	said := func(text string, calls ...string) Message {
		m := Message{Role: Assistant, Content: text}
		for _, id := range calls {
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: id, Name: "f"})
		}
		return m
	}
	result := func(id string) Message { return Message{Role: ToolRole, ToolCallID: id, Content: id} }
	noted := func(text string) string { return notes + text + "\n</notes>" } // DV-09
	image := []Part{{Type: "image_url", Image: "data:image/png;base64,"}}
	for name, row := range map[string]struct{ in, out []Message }{
		"nothing":                   {nil, nil},
		"a system message":          {[]Message{system("s")}, []Message{system("s")}},
		"turns":                     {[]Message{system("s"), user("a"), said("b"), user("c")}, []Message{system("s"), user("a"), said("b"), user("c")}},
		"an anchor":                 {[]Message{system("s"), said("anchor"), user("a")}, []Message{system("s"), user(noted("anchor") + "\n\na")}},
		"an anchor without system":  {[]Message{said("anchor"), user("a")}, []Message{user(noted("anchor") + "\n\na")}},
		"two anchors":               {[]Message{said("anchor"), said("another"), user("a")}, []Message{user(noted("anchor\n\nanother") + "\n\na")}},
		"an anchor before calls":    {[]Message{system("s"), said("anchor"), said("", "1"), result("1")}, []Message{system("s"), user(noted("anchor")), said("", "1"), result("1")}},
		"calls first":               {[]Message{said("", "1"), result("1")}, []Message{user("Continue."), said("", "1"), result("1")}},
		"an anchor alone":           {[]Message{system("s"), said("anchor")}, []Message{system("s"), user(noted("anchor"))}},
		"a system message later":    {[]Message{system("s"), user("a"), system("t"), said("b")}, []Message{system("s\n\nt"), user("a"), said("b")}},
		"an answer of nothing":      {[]Message{user("a"), said(""), user("b")}, []Message{user("a\n\nb")}},
		"neighbours":                {[]Message{system("s"), system("t"), user("a"), user("b"), said("c"), said("d", "1"), result("1")}, []Message{system("s\n\nt"), user("a\n\nb"), said("c\n\nd", "1"), result("1")}},
		"a neighbour with an image": {[]Message{user("a"), {Role: User, Parts: image}}, []Message{{Role: User, Parts: append([]Part{{Type: "text", Text: "a"}}, image...)}}},
		"results":                   {[]Message{user("a"), said("", "1", "2", "3"), result("3"), result("x"), result("1"), result("2")}, []Message{user("a"), said("", "1", "2", "3"), result("1"), result("2"), result("3"), result("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(row.in)
			got := history(row.in, "p", "m")
			if diff := cmp.Diff(row.out, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, row.in); diff != "" {
				t.Errorf("the history itself was changed:\n%s", diff)
			}
		})
	}
}

// MO-20, MO-21: so it is for every history, nothing of it is lost, and what is arranged stays as it is.
func TestEveryHistoryCanBeArranged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SampledFrom([]string{"1", "2", "3"})
		messages := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Message {
			m := Message{Role: rapid.SampledFrom([]string{System, User, Assistant, ToolRole}).Draw(t, "role"), Content: rapid.StringN(1, 3, -1).Draw(t, "content")}
			switch m.Role {
			case Assistant:
				for _, id := range rapid.SliceOfNDistinct(ids, 0, 3, rapid.ID).Draw(t, "calls") {
					m.ToolCalls = append(m.ToolCalls, ToolCall{ID: id})
				}
			case ToolRole:
				m.ToolCallID = ids.Draw(t, "call")
			}
			return m
		}), 0, 10).Draw(t, "messages")
		size := func(list []Message) (n, calls int) {
			for _, m := range list {
				for _, r := range m.Content {
					if r != '\n' {
						n++
					}
				}
				calls += len(m.ToolCalls)
			}
			return n, calls
		}
		out := history(messages, "p", "m")
		n1, calls1 := size(messages)
		n2, calls2 := size(out)
		if i := slices.IndexFunc(out, func(m Message) bool { return m.Content == "Continue." }); i >= 0 {
			n2 -= len("Continue.")
		}
		if i := slices.IndexFunc(out, func(m Message) bool { return strings.HasPrefix(m.Content, notes) }); i >= 0 {
			n2 -= len(strings.ReplaceAll(notes+"</notes>", "\n", ""))
		}
		if n1 != n2 || calls1 != calls2 {
			t.Fatalf("of %d characters and %d calls %d and %d are left: %+v", n1, calls1, n2, calls2, out)
		}
		begun := false
		for i, m := range out {
			if m.Role != ToolRole && i > 0 && out[i-1].Role == m.Role || m.Role == Assistant && !begun || m.Role == System && i > 0 {
				t.Fatalf("message %d is out of its turn: %+v", i, out)
			}
			begun = begun || m.Role != System
		}
		if again := history(out, "p", "m"); !cmp.Equal(out, again) {
			t.Fatalf("arranged once more it is %+v; expected %+v", again, out)
		}
	})
}

// MO-02, MO-03: what a model made goes back to models of its family at its provider, and to nobody else. Joined messages keep the order of their parts.
func TestWhatAModelMadeGoesBackToItsFamilyOnly(t *testing.T) {
	made := func(model, data string) *Made {
		return &Made{Model: model, Parts: []MadePart{{Type: PartReasoning, Text: "hm", Data: []byte(data)}, {Type: PartText, Text: "yes"}}}
	}
	messages := []Message{
		{Role: User, Content: "a"},
		{Role: Assistant, Content: "yes", Made: made("anthropic:claude-opus-4-5", "1")},
		{Role: Assistant, Content: "well"},
		{Role: User, Content: "b"},
		{Role: Assistant, Content: "yes", Made: made("openrouter:anthropic/claude-sonnet-4.5", "2")},
		{Role: User, Content: "c"},
	}
	for _, row := range []struct {
		provider, name string
		want           [2]bool
	}{
		{"anthropic", "claude-haiku-4-5", [2]bool{true, false}},
		{"openrouter", "anthropic/claude-opus-4.6", [2]bool{false, true}},
		{"openrouter", "google/gemini-3-pro", [2]bool{}},
		{"bedrock", "us.anthropic.claude-opus-4-5-v1:0", [2]bool{}},
	} {
		got := history(messages, row.provider, row.name)
		if len(got) != 5 || got[1].Content != "yes\n\nwell" || (got[1].Made != nil) != row.want[0] || (got[3].Made != nil) != row.want[1] {
			t.Errorf("%s:%s gets %+v", row.provider, row.name, got)
		}
		if row.want[0] {
			if diff := cmp.Diff([]MadePart{{Type: PartReasoning, Text: "hm", Data: []byte("1")}, {Type: PartText, Text: "yes"}, {Type: PartText, Text: "well"}}, got[1].Made.Parts); diff != "" {
				t.Error(diff)
			}
		}
	}
	if messages[1].Made == nil || messages[4].Made == nil {
		t.Error("the history itself was changed")
	}
}

func TestFamiliesOfModels(t *testing.T) {
	for name, want := range map[string]string{
		"claude-opus-4-5": "claude", "us.anthropic.claude-opus-4-5-v1:0": "claude", "anthropic/claude-3.5": "claude", "gpt-5.1": "gpt", "gpt-oss:20b": "gpt", "o4-mini": "o",
		"gemini-2.5-pro": "gemini", "publishers/google/models/gemini-3-flash": "gemini", "deepseek-reasoner": "deepseek", "kimi-k2-thinking": "kimi", "glm-4.6": "glm",
		"Qwen/Qwen3-30B": "qwen", "": "",
	} {
		if got := Family(name); got != want {
			t.Errorf("%q is of the family %q; expected %q", name, got, want)
		}
	}
}
