package textview_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/internal/textview"
	"github.com/lingserve/lingserve/tube"
)

// DN-14: lines end at words, also of what comes in pieces.
func TestAGrowingTextBreaksAtWords(t *testing.T) {
	var out strings.Builder
	g := textview.New(&out, textview.Options{Terminal: true, Width: 20}, nil)
	for _, piece := range []string{"The qui", "ck brown f", "ox jum", "ps over", " it"} {
		g.Event(tube.Event{Kind: tube.Append, URI: []byte("answer"), Value: []byte(piece)})
	}
	g.Event(tube.Event{Kind: tube.Set, URI: []byte("long_list"), Value: []byte(`["An element that is longer than a row"]`)})
	g.End()
	if diff := cmp.Diff("The quick brown fox \njumps over it\n\n\x1b[1mLong list\x1b[0m\n\n- An element that is\n  longer than a row\n", out.String()); diff != "" {
		t.Error(diff)
	}
}
