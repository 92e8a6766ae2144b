package openai

import (
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// The buffer that events are read in is used again; a chunk is not.
func TestTextStaysAsItWasWhenMoreIsRead(t *testing.T) {
	p, err := New(Options{Transport: adaptertest.Canned("text/event-stream", stream(2000, "tok", false))})
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for c, err := range m.Stream(t.Context(), adapter.Request{Messages: []adapter.Message{{Role: adapter.User, Content: "go"}}}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Text != "" {
			kept = append(kept, c.Text)
		}
	}
	if len(kept) != 2000 {
		t.Fatalf("%d chunks", len(kept))
	}
	for i, text := range kept {
		if want := fmt.Sprintf("tok%d", i%10); text != want {
			t.Fatalf("chunk %d has become %q, was %q", i, text, want)
		}
	}
}
