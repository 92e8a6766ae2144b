package workflows_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/workflows"
)

func TestTheShippedWorkflowsAreWell(t *testing.T) {
	r, err := flow.OpenFS("workflows", workflows.Files)
	if err != nil {
		t.Fatal(err)
	}
	graphs := map[string]map[string][]string{} // workflow → bot → what it comes after
	for _, w := range r.All() {
		info := w.Info()
		graphs[info.Name] = map[string][]string{}
		for _, b := range info.Graph.Bots {
			graphs[info.Name][b.Name] = b.After
		}
		if info.Description == "" {
			t.Errorf("%s has no description", info.Name)
		}
	}
	want := map[string]map[string][]string{
		"chat":         {"assistant": nil},
		"page":         {"page": nil},
		"encyclopedia": {"outline": nil, "section": {"outline"}, "quiz": {"section"}},
	}
	if diff := cmp.Diff(want, graphs); diff != "" {
		t.Error(diff)
	}
}

// PROTOCOL 3: all can be asked with a plain string.
func TestAPlainStringIsEnough(t *testing.T) {
	r, err := flow.OpenFS("workflows", workflows.Files)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]any{
		"chat":         {"message": "Why?"},
		"page":         {"question": "Why?"},
		"encyclopedia": {"question": "Why?", "audience": "curious readers of any age", "level": "general"},
	} {
		w, ok := r.Get(name)
		if !ok {
			t.Fatalf("there is no workflow %s", name)
		}
		got, err := flow.Prepare(w, json.RawMessage(`"Why?"`))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}
