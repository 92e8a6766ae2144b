package logs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/store"
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

func TestRecordsThatGoOnInTheNextEntryCountWhenTheyAreWhole(t *testing.T) {
	records := written(t, "one", "two")
	a := &applied{run: "run", options: options()}
	for i, b := range records {
		kind := byte(entryMore)
		if i == len(records)-1 {
			kind = entryLast
		}
		if err := a.takeEntry(uint64(i+1), []byte{kind, b}); err != nil {
			t.Fatal(err)
		}
		if (a.follower != nil) != (kind == entryLast) {
			t.Fatalf("after part %d of %d", i, len(records))
		}
	}
	if a.follower.Tube().Len() != 2 || string(load(&a.opening)) != "opening" || a.last != uint64(len(records)) {
		t.Errorf("%d events, opening %q, last %d", a.follower.Tube().Len(), load(&a.opening), a.last)
	}
}

// ST-03: records of any length are entries that a store takes.
func TestRecordsAreSplitIntoEntries(t *testing.T) {
	for _, size := range []int{0, 1, store.MaxEntry - 1, store.MaxEntry, 2*store.MaxEntry + 5} {
		records := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		var got []byte
		entries := entriesOf(append([]byte{9}, records...))
		for i, e := range entries {
			if want := byte(entryMore); len(e.Data) > store.MaxEntry || i < len(entries)-1 && e.Data[0] != want || i == len(entries)-1 && e.Data[0] != entryLast {
				t.Errorf("entry %d of %d has %d bytes and is %d", i, len(entries), len(e.Data), e.Data[0])
			}
			got = append(got, e.Data[1:]...)
		}
		if !bytes.Equal(got, records) {
			t.Errorf("%d bytes of %d", len(got), size)
		}
	}
}

func TestEntriesOfNoKnownFormAreRefused(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing":                {},
		"no entry":               {7},
		"no record":              whole([]byte("?")),
		"something before it":    whole(end("head")),
		"a text that is cut off": whole([]byte{recordRun, 0, 5, 'x'}),
		"a number too large":     whole([]byte{recordRun, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0}),
		"a number beyond 2^53":   whole(append(binary.AppendUvarint([]byte{recordRun}, maxNumber+1), 0)),
		"a piece that is none":   whole(append([]byte{recordRun, 0, 0, recordPiece, 0, 0}, appendText(nil, "\xff\xff")...)),
	} {
		a := &applied{run: "run", options: options()}
		if err := a.takeEntry(1, data); !errors.Is(err, errRecord) && !errors.Is(err, tube.ErrArchive) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := head{"replica", 1, 2, 3, 4, 5, 6}
	if h, err := parseHead(good.append(nil)); err != nil || h != good {
		t.Errorf("%+v, %v", h, err)
	}
	for name, data := range map[string][]byte{"nothing": nil, "another version": {9}, "cut off": good.append(nil)[:8]} {
		if _, err := parseHead(data); !errors.Is(err, errRecord) {
			t.Errorf("head, %s: %v", name, err)
		}
	}
}

func page(items ...pageItem) []byte {
	b := []byte{pageItems}
	for _, it := range items {
		b = appendText(binary.AppendUvarint(binary.AppendUvarint(b, it.run), it.after), it.records)
	}
	return b
}

// CL-05: what is read of pages is what is behind the run's log, in order, and nothing where something is missing.
func TestWhatPagesHaveIsTakenInOrder(t *testing.T) {
	leap := func(n uint64) []byte { return binary.AppendUvarint([]byte{recordLeap}, n) }
	piece := binary.AppendUvarint([]byte{recordPiece}, 50)
	piece = appendText(append(piece, 0), "x") // behind a gap
	for name, c := range map[string]struct {
		pages [][]byte
		taken int // bytes
		err   error
	}{
		"in order":                  {[][]byte{page(pageItem{1, 5, leap(100)}, pageItem{2, 5, leap(200)}), page(pageItem{1, 5, leap(300)})}, 5, nil},
		"of before":                 {[][]byte{page(pageItem{1, 4, leap(100)})}, 0, nil},
		"of another run":            {[][]byte{page(pageItem{2, 5, leap(100)})}, 0, nil},
		"behind a newer batch":      {[][]byte{page(pageItem{1, 7, leap(100)})}, 0, errStale},
		"behind a gap":              {[][]byte{page(pageItem{1, 5, piece})}, len(piece), errStale},
		"a seal":                    {[][]byte{{pageSeal}}, 0, nil},
		"a text that is cut off":    {[][]byte{append(page(), 1, 5, 9, 'x')}, 0, errRecord},
		"no page":                   {[][]byte{nil}, 0, errRecord},
		"another page":              {[][]byte{{'Q'}}, 0, errRecord},
		"a record of no known form": {[][]byte{page(pageItem{1, 5, []byte("?")})}, 1, errRecord},
	} {
		a := &applied{run: "run", options: options(), head: head{run: 1}}
		if err := a.takeEntry(5, whole(written(t, "one"))); err != nil {
			t.Fatal(err)
		}
		var err error
		for _, p := range c.pages {
			if err = parsePage(p, a.takeItem); err != nil {
				break
			}
		}
		if !errors.Is(err, c.err) || len(a.paged) != c.taken {
			t.Errorf("%s: %d bytes taken, %v", name, len(a.paged), err)
		}
	}
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

// What another replica sends is checked.
func TestRequestsOfNoKnownFormHaveNoAnswer(t *testing.T) {
	l := &Log{}
	for _, body := range []string{"", "w", "p\x05ab", strings.Repeat("\xff", 20)} {
		l.serve(message(body), nil) // would panic if there were an answer
	}
}
