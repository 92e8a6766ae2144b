package logs

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

func options() *tube.Options {
	return &tube.Options{Document: func() tube.Document { return new(jsonuri.Document) }}
}

// written are the records of a run with a few events.
func written(t testing.TB, texts ...string) []byte {
	t.Helper()
	o := options()
	o.Held = true
	tb := tube.New("run", o)
	for _, text := range texts {
		if _, err := tb.Send(tube.Event{URI: []byte("a"), Value: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	e := &entry{log: &Log{}, run: runlog.Run{ID: "run", Opening: []byte("opening"), Tube: tb}}
	records := e.collect()
	if len(records) == 0 {
		t.Fatal("nothing")
	}
	return records
}

func whole(records []byte) []byte { return append([]byte{entryLast}, records...) }

func end(head string) []byte { return appendText([]byte{recordEnd}, head) }

func page(items ...pageItem) []byte {
	b := []byte{pageItems}
	for _, it := range items {
		b = appendText(binary.AppendUvarint(binary.AppendUvarint(b, it.run), it.after), it.records)
	}
	return b
}

func FuzzEntries(f *testing.F) {
	one := whole(written(f, "one", "two"))
	f.Add(one, whole(end("head")))
	f.Add(one, []byte{entryMore, recordLeap, 200, 1})
	f.Add(append([]byte{entryMore}, one[1:3]...), whole(one[3:]))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		a := &applied{run: "run", options: options()}
		_ = a.takeEntry(1, bytes.Clone(one))
		_ = a.takeEntry(2, bytes.Clone(two))
		if h, err := parseHead(one); err == nil {
			if g, err := parseHead(h.append(nil)); err != nil || g != h {
				t.Fatalf("%+v became %+v, %v", h, g, err)
			}
		}
		if a.follower != nil && a.follower.Tube().Unshown() > 0 {
			t.Fatal("something is not shown")
		}
	})
}

func FuzzPages(f *testing.F) {
	f.Add(page(pageItem{1, 1, []byte{recordLeap, 200, 1}}, pageItem{2, 1, nil}), page(pageItem{1, 1, end("head")}))
	f.Add([]byte{pageSeal}, []byte{pageItems, 0, 1, 1, 1, 200})
	f.Fuzz(func(t *testing.T, one, two []byte) {
		a := &applied{run: "run", options: options(), head: head{run: 1}}
		if err := a.takeEntry(1, whole(written(t, "one"))); err != nil {
			t.Fatal(err)
		}
		_ = parsePage(one, a.takeItem)
		_ = parsePage(two, a.takeItem)
		if a.follower.Tube().Unshown() > 0 {
			t.Fatal("something is not shown")
		}
	})
}
