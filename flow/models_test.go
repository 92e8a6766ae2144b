package flow

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestTheModelsThatWorkflowsNameAreListedOnce(t *testing.T) {
	r, err := OpenFS("test", fstest.MapFS{
		"a.yaml": {Data: []byte("name: a\nmodel: openai:a\nbots:\n  one: {message: hi, root: one}\n  two: {message: hi, root: two, model: coze:b}\n")},
		"b.yaml": {Data: []byte("name: b\nbots:\n  one: {message: hi, root: one, model: [coze:b, ollama:c]}\n  two: {message: hi, root: two, model: coze:b}\n")},
		"c.yaml": {Data: []byte("name: c\nbots:\n  one: {message: hi}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"openai:a", "coze:b", "coze:b,ollama:c"}, r.Models()); diff != "" {
		t.Error(diff)
	}
	r.Register(Func("code", "", nil, nil)) // has no graph
	w, _ := r.Get("code")
	if models := w.Info().Models(); models != nil {
		t.Errorf("%v", models)
	}
}

// DW-07: a provider that there is not is an error at its place.
func TestAnUnknownProviderIsAnErrorAtItsPlace(t *testing.T) {
	const text = "model: opnai:gpt\nbots:\n  a: {model: [openai:x, ollama:y]}\n  b: {model: [openai:x, \"claude:z\"], root: b}\n"
	want := "w.yaml:1:8: model: unknown provider \"opnai\", did you mean \"openai\"? expected one of demo, openai and ollama\n" +
		"w.yaml:4:25: model: unknown provider \"claude\"; expected one of demo, openai and ollama"
	if _, err := ParseSpec("w.yaml", []byte(text), nil, "demo", "openai", "ollama"); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, err := ParseSpec("w.yaml", []byte(text), nil); err != nil {
		t.Errorf("without providers nothing is known of them: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "w.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir, "demo", "opnai", "openai", "ollama", "claude")
	if err != nil || len(r.All()) != 1 {
		t.Errorf("%v", err)
	}
	if r, err = Open(dir, "demo"); err == nil || len(r.All()) != 0 {
		t.Errorf("%v, %d workflows", err, len(r.All()))
	}
}
