package main

import (
	"strings"
	"testing"

	"github.com/lingserve/lingserve/tape"
)

// DC-07: what a person has written comes before what is known of the message.
func TestTapeShowBeginsWithThePersonsWords(t *testing.T) {
	facts := "channel: telegram\nsender_id: 42\nsender: Ann\nmessage_id: 7\nsent: 2026-03-01T09:00:00Z\nchat_type: direct\ndate: 2026-03-01T09:00:01Z\n\n"
	words := "Which bills are due?\nAnd when?"
	for name, e := range map[string]tape.Entry{
		"text":  tape.NewMessage("user", facts+words).With(tape.Meta{Title: tape.Title(words)}),
		"parts": tape.NewMessage("user", []map[string]string{{"type": "text", "text": facts + words}, {"type": "image_url"}}).With(tape.Meta{Title: tape.Title(words)}),
	} {
		if got := oneLine(summary(e), 100); !strings.HasPrefix(got, "user: Which bills are due? And when?") {
			t.Errorf("%s: %q", name, got)
		}
		if got := summary(e); !strings.HasSuffix(got, "date: 2026-03-01T09:00:01Z") {
			t.Errorf("%s: the facts are left out: %q", name, got)
		}
	}
	if got := summary(tape.NewMessage("user", "hi there")); got != "user: hi there" {
		t.Errorf("%q", got)
	}
}
