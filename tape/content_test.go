package tape_test

import (
	"encoding/json"
	"testing"

	"github.com/lingserve/lingserve/tape"
)

func TestTheTextOfAMessageIsItselfOrThatOfItsParts(t *testing.T) {
	for content, want := range map[string]string{
		`"a\nb"`: "a\nb",
		`[{"type":"text","text":"a"},{"type":"image","text":"no"},{"type":"text","text":"b"}]`: "a\nb",
		`[]`: "", `null`: "", `{"text":"a"}`: "", ``: "",
	} {
		if got := tape.TextOf(json.RawMessage(content)); got != want {
			t.Errorf("%s says %q, expected %q", content, got, want)
		}
	}
}
