package flow

import (
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
