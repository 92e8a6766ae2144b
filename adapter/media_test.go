package adapter

import (
	"context"
	"encoding/base64"
	"iter"
	"strings"
	"testing"
)

// asked is a model that keeps what it was asked.
type asked struct{ last *Request }

func (a asked) Stream(_ context.Context, req Request) iter.Seq2[Chunk, error] {
	*a.last = req
	return func(yield func(Chunk, error) bool) { yield(Chunk{Text: "a", Finish: FinishStop}, nil) }
}

type askedProvider struct{ asked }

func (p askedProvider) Model(string) (Model, error) { return p.asked, nil }
func (p askedProvider) Names() []string             { return nil }

// askWith asks a model of a name for what the messages say.
func askWith(t *testing.T, rules []MediaRule, model string, messages ...Message) (got []Message, err error) {
	t.Helper()
	var last Request
	provider, _, _ := strings.Cut(model, ":")
	r := &Registry{Media: rules, Retries: Retries{Attempts: 1}}
	r.Register(provider, askedProvider{asked{&last}})
	m, err := r.Model(model)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range m.Stream(t.Context(), Request{Messages: messages}) {
		err = e
	}
	return last.Messages, err
}

func userPart(p Part) Message {
	return Message{Role: User, Parts: []Part{{Type: "text", Text: "look"}, p}}
}

var (
	png = Part{Type: "image_url", Image: "data:image/png;base64,AA=="}
	pdf = Part{Type: "file", File: "data:application/pdf;base64,AA==", Name: "a.pdf"}
	wav = Part{Type: "file", File: "data:audio/wav;base64,AA=="}
	csv = Part{Type: "file", File: "data:text/csv;base64,YSxiCg==", Name: "a.csv"}
	zip = Part{Type: "file", File: "data:application/zip;base64,AA=="}
)

// MO-25
func TestAModelIsNotAskedForWhatItCannotTake(t *testing.T) {
	for _, row := range []struct {
		model string
		part  Part
		want  string
	}{
		{"openai:gpt-4o", png, ""},
		{"openai:gpt-4o", pdf, ""},
		{"openai:gpt-4o", wav, "the model openai:gpt-4o does not accept audio; expected text, images and PDF files"},
		{"openai:gpt-4o-audio-preview", wav, ""},
		{"openai:gpt-3.5-turbo", png, "the model openai:gpt-3.5-turbo does not accept images; expected text only"},
		{"deepseek:deepseek-chat", pdf, "the model deepseek:deepseek-chat does not accept PDF files; expected text only"},
		{"mine:anything", png, ""},
		{"mine:anything", pdf, ""},
		{"mine:anything", zip, "the model mine:anything does not accept files of this type; expected text, images, PDF files and audio"},
		{"coze:bot", zip, ""},
		{"ollama:llava", pdf, "the model ollama:llava does not accept PDF files; expected text and images"},
		{"deepseek:deepseek-chat", csv, ""},
	} {
		_, err := askWith(t, nil, row.model, userPart(row.part))
		switch {
		case row.want == "" && err == nil:
		case row.want == "" || err == nil || err.Error() != row.want || AsError(err).Code != CodeInvalid:
			t.Errorf("%s %s: %v", row.model, row.part.Type, err)
		}
	}
}

// MO-25
func TestRulesOfSettingsGoBeforeTheTable(t *testing.T) {
	var rules []MediaRule
	for _, text := range []string{"deepseek:*-vl = image", "openai:gpt-4o=none"} {
		r, err := ParseMediaRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	if _, err := askWith(t, rules, "deepseek:new-VL", userPart(png)); err != nil {
		t.Error(err)
	}
	if _, err := askWith(t, rules, "openai:gpt-4o", userPart(png)); err == nil {
		t.Error("the setting does not count")
	}
}

// MO-25: a file of text is text for every model, and an image in a file is an image.
func TestFilesOfTextAreTextAndFilesOfImagesImages(t *testing.T) {
	before := []Message{userPart(csv)}
	got, err := askWith(t, nil, "deepseek:x", before...)
	if want := "<file name=\"a.csv\">\na,b\n\n</file>"; err != nil || got[0].Parts[1] != (Part{Type: "text", Text: want}) {
		t.Errorf("%+v %v", got, err)
	}
	if before[0].Parts[1] != csv {
		t.Error("the caller's message was changed")
	}
	got, err = askWith(t, nil, "mine:x", userPart(Part{Type: "file", File: png.Image, Name: "a.png"}))
	if err != nil || got[0].Parts[1] != png {
		t.Errorf("%+v %v", got, err)
	}
}

// MO-25: no session ends since its model was changed for one that takes less, and no loop of tools.
func TestMediaOfTheHistoryAndOfToolsAreToldWhereTheyCannotBeTaken(t *testing.T) {
	got, err := askWith(t, nil, "deepseek:x",
		userPart(png), Message{Role: Assistant, Content: "a cat"}, Message{Role: User, Content: "draw"},
		Message{Role: Assistant, ToolCalls: []ToolCall{{ID: "c", Name: "draw"}}}, Message{Role: ToolRole, ToolCallID: "c"}, userPart(pdf))
	if err != nil || got[0].Parts[1].Text != "[an image that this model cannot read]" || got[5].Parts[1].Text != "[a PDF that this model cannot read]" {
		t.Errorf("%+v %v", got, err)
	}
}

func TestTheTypeOfDataIsWhatIsInThem(t *testing.T) {
	for _, row := range []struct{ data, claimed, want string }{
		{"\x89PNG\r\n\x1a\n", "text/plain", "image/png"},
		{"%PDF-1.7", "image/png", "application/pdf"},
		{"a,b\n", "text/csv", "text/csv"},
		{"a,b\n", "image/png", "text/plain"},
		{"<html>", "application/pdf", "text/html"},
		{"\x7fELF\x00\x01", "application/pdf", "application/octet-stream"},
		{"RIFF\x00\x00\x00\x00WAVEfmt ", "", "audio/wav"},
		{"OggS\x00", "", "audio/ogg"},
		{"ID3\x03", "", "audio/mpeg"},
		{"\x00\x00\x00\x20ftypM4A ", "", "audio/mp4"},
		{`{"a":1}`, "application/json; charset=utf-8", "application/json"},
	} {
		if got := SniffMedia([]byte(row.data), row.claimed); got != row.want {
			t.Errorf("%q %s: %s, want %s", row.data, row.claimed, got, row.want)
		}
	}
}

func FuzzPatternsOfModels(f *testing.F) {
	f.Add("openai:*audio*", "openai:gpt-audio")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if MatchesPattern(pattern, name) && !strings.Contains(pattern, "*") && pattern != name {
			t.Errorf("%q fits %q", name, pattern)
		}
		if !MatchesPattern(strings.ReplaceAll(name, "*", "")+"*", strings.ReplaceAll(name, "*", "")) || !MatchesPattern("*", name) {
			t.Errorf("%q", name)
		}
	})
}

// DH-14
func TestTextFilesAreReadInTheirEncoding(t *testing.T) {
	for name, row := range map[string]struct{ data, params, want, guessed string }{
		"UTF-8":                       {"Zürich €", "", "Zürich €", ""},
		"UTF-8 with a mark":           {"\xef\xbb\xbfZürich", "", "Zürich", ""},
		"UTF-16, little end first":    {"\xff\xfeZ\x00\xfc\x00", "", "Zü", ""},
		"UTF-16, big end first":       {"\xfe\xff\x00Z\x00\xfc", "", "Zü", ""},
		"Windows-1252":                {"Z\xfcrich \x80", "", "Zürich €", ` encoding="windows-1252, guessed"`},
		"a charset that is said":      {"\xcf\xf0\xe8\xe2\xe5\xf2", ";charset=windows-1251", "Привет", ""},
		"one that nobody knows":       {"Z\xfcrich", ";charset=klingon", "Zürich", ` encoding="windows-1252, guessed"`},
		"a mark against what it says": {"\xef\xbb\xbfZürich", ";charset=windows-1252", "Zürich", ""},
	} {
		p := Part{Type: "file", Name: "a.txt", File: "data:text/plain" + row.params + ";base64," + base64.StdEncoding.EncodeToString([]byte(row.data))}
		if err := (&guarded{Registry: new(Registry)}).fitPart(&p, true); err != nil {
			t.Fatal(err)
		}
		if want := `<file name="a.txt"` + row.guessed + ">\n" + row.want + "\n</file>"; p.Text != want {
			t.Errorf("%s: %q, want %q", name, p.Text, want)
		}
	}
}
