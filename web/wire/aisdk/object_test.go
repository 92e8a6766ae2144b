package aisdk_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/aisdk"
)

// written is the text of a run's document, and whether it is complete.
func written(t interface {
	Helper()
	Fatal(...any)
}, end func(*tube.Tube) error, events ...tube.Event,
) (text string, complete bool, document string) {
	t.Helper()
	tb := newTube(0)
	for _, e := range events {
		if _, err := tb.Send(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := end(tb); err != nil {
		t.Fatal(err)
	}
	o := aisdk.NewObject(nil)
	var dst []byte
	for ev := range tb.NewReader(0).Waiting() {
		dst = o.Append(dst, ev)
	}
	if !o.Over() {
		t.Fatal("it goes on")
	}
	whole, _ := tb.Snapshot(false)
	return string(dst), o.Complete(), string(whole)
}

func completed(t *tube.Tube) error { return t.Close("completed") }

func TestAnObjectIsTheDocumentsText(t *testing.T) {
	for _, c := range []struct {
		name     string
		end      func(*tube.Tube) error
		events   []tube.Event
		want     string
		complete bool
	}{
		{"a document", completed, []tube.Event{text("$reasoning_context", "hm"), set("a", "{}"), text("a/b", `x\n`), named("usage", "{}"), set("a/n", "1.10")}, `{"a":{"b":"x\n","n":1.10}}`, true},
		{"a text", completed, []tube.Event{text("", `say \"hi\"\n`)}, "say \"hi\"\n", true},
		{"nothing", completed, nil, "{}", true},
		{"a run that fails", func(t *tube.Tube) error { return t.Close("failed") }, []tube.Event{text("a", "x")}, `{"a":"x`, false},
		{"a run that is canceled", func(t *tube.Tube) error { return t.Cancel("asked") }, []tube.Event{text("a", "x")}, `{"a":"x`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, complete, _ := written(t, c.end, c.events...); got != c.want || complete != c.complete {
				t.Errorf("%q, complete: %v", got, complete)
			}
		})
	}
}

func TestWhatAnObjectsTextDecodesToIsTheRunsDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got, complete, want := written(t, completed, documents(t)...)
		if complete && want[0] != '"' {
			same(t, "the text", want, got)
		}
	})
}
