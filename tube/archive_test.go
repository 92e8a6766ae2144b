package tube_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

func documents() *tube.Options {
	return &tube.Options{MaxBytes: 4 << 10, Document: func() tube.Document { return new(jsonuri.Document) }}
}

// ended is a run with everything in it; where long, more than its log holds.
func ended(t *testing.T, long bool) *tube.Tube {
	t.Helper()
	tb := tube.New("run", documents())
	send(t, tb, named("started", `{"run":"run"}`), text("$reasoning_context", "hm"), set("n", "1.10"), set("big", "12345678901234567890"), quiet(text("a", "quiet ")), quiet(named("secret", "1")))
	for i := range 10 {
		send(t, tb, text("a", fmt.Sprint(i, ` \u00e9\n`)), done(fmt.Sprint("x/", i)))
	}
	for i := 0; long && i < 2000; i++ {
		send(t, tb, text("b", "word "))
	}
	send(t, tb, named("usage", `{"bot":"b"}`), text("b", "."))
	if err := tb.Cancel("why not"); err != nil {
		t.Fatal(err)
	}
	return tb
}

func events(t *testing.T, tb *tube.Tube) (all, visible []string) {
	t.Helper()
	for e, err := range tb.AllEvents(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(e.N, e.Part, e.Hidden, string(e.AppendJSON(nil))))
	}
	return all, lines(tb.NewReader(0))
}

func TestAnArchiveGivesTheSameTubeBack(t *testing.T) {
	for _, c := range []struct {
		name           string
		long, snapshot bool
	}{{"whole", false, false}, {"whole and folded", false, true}, {"without its front", true, false}, {"without its front and folded", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			tb := ended(t, c.long)
			if c.snapshot {
				tb.Snapshot(true)
			}
			var file bytes.Buffer
			n, err := tb.WriteTo(&file)
			if err != nil || n != int64(file.Len()) {
				t.Fatal(n, err)
			}
			back, err := tube.Restore("run", bytes.NewReader(file.Bytes()), documents())
			if err != nil {
				t.Fatal(err)
			}
			if c.long && c.snapshot { // the archive begins later than the log did
				a, b := newClient(), newClient()
				for e := range tb.NewReader(0).Waiting() {
					a.take(e)
				}
				for e := range back.NewReader(0).Waiting() {
					b.take(e)
				}
				if d := cmp.Diff(fmt.Sprint(a.doc, a.named, a.marks(), a.id), fmt.Sprint(b.doc, b.named, b.marks(), b.id)); d != "" {
					t.Errorf("a client: %s", d)
				}
			} else {
				wantAll, wantVisible := events(t, tb)
				all, visible := events(t, back)
				if d := cmp.Diff(wantAll, all); d != "" {
					t.Errorf("events: %s", d)
				}
				if d := cmp.Diff(wantVisible, visible); d != "" {
					t.Errorf("visible events: %s", d)
				}
			}
			for _, all := range []bool{false, true} {
				a, ar := tb.Snapshot(all)
				b, br := back.Snapshot(all)
				if !bytes.Equal(a, b) || !bytes.Equal(ar, br) {
					t.Errorf("all %v: %s%s became %s%s", all, a, ar, b, br)
				}
			}
			if _, err := back.Send(text("a", "x")); !errors.Is(err, tube.ErrEnded) {
				t.Errorf("the run goes on: %v", err)
			}
			if back.Run() != "run" || back.Len() != tb.Len() {
				t.Errorf("run %q of %d events", back.Run(), back.Len())
			}
			var again bytes.Buffer
			if _, err := back.WriteTo(&again); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(file.String(), again.String()); !c.long && d != "" {
				t.Errorf("the archive of an archive differs: %s", d)
			}
		})
	}
}

func TestAnArchiveSaysThatItsDiskIsFull(t *testing.T) {
	full := errors.New("disk full")
	if n, err := ended(t, false).WriteTo(failing{full}); !errors.Is(err, full) || n != 3 {
		t.Error(n, err)
	}
}

type failing struct{ err error }

func (f failing) Write(p []byte) (int, error) { return 3, f.err }

func TestArchivesThatAreForeignOrTornAreRefused(t *testing.T) {
	var whole, front bytes.Buffer
	if _, err := ended(t, false).WriteTo(&whole); err != nil {
		t.Fatal(err)
	}
	if _, err := ended(t, true).WriteTo(&front); err != nil {
		t.Fatal(err)
	}
	archive := strings.SplitAfter(whole.String(), "\n")
	line := func(i int, to string) string {
		l := append([]string(nil), archive...)
		l[i] = to
		return strings.Join(l, "")
	}
	cases := map[string]struct{ in, want string }{
		"nothing":            {"", "line 1: the archive is cut off"},
		"another file":       {"%PDF-1.7\n", "line 1: "},
		"other JSON":         {"{}\n", `line 1: expected {"archive":"lingserve run",…}`},
		"another version":    {line(0, `{"archive":"lingserve run","version":2,"run":"run","events":1}`+"\n"), "line 1: version 2; this program reads version 1"},
		"another run":        {line(0, `{"archive":"lingserve run","version":1,"run":"x","events":1}`+"\n"), "line 1: it is another run's archive"},
		"no events":          {line(0, `{"archive":"lingserve run","version":1,"run":"run"}`+"\n"), "line 1: a run without events"},
		"a line is missing":  {line(4, ""), "line 5: event 4 in place of 3"},
		"a line twice":       {line(4, archive[4]+archive[4]), "line 6: event 3 in place of 4"},
		"a broken line":      {line(4, archive[4][:9]+"\n"), "line 5: "},
		"an unknown line":    {line(4, "{\"n\":3}\n"), "line 5: an invalid event"},
		"neither":            {line(4, "{\"uri\":\"\"}\n"), "line 5: expected an event or a base"},
		"an early end":       {line(4, `{"n":3,"event":"finished","data":{}}`+"\n"), "line 5: event 3 of 29"},
		"a late base":        {line(4, `{"base":3,"document":{},"reserved":{}}`+"\n"), "line 5: a base that was not expected"},
		"bad text":           {line(3, `{"n":2,"event":"a b","data":{}}`+"\n"), "line 4: tube: invalid event name"},
		"the end is missing": {strings.Join(archive[:len(archive)-2], ""), "line 30: the archive is cut off"},
		"more after the end": {whole.String() + archive[1], "line 31: data follows the end"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := tube.Restore("run", strings.NewReader(c.in), documents())
			if !errors.Is(err, tube.ErrArchive) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want … %s", err, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		file []byte
		step int
	}{"whole": {whole.Bytes(), 7}, "without its front": {front.Bytes(), 331}} {
		t.Run("cut anywhere/"+name, func(t *testing.T) {
			file := c.file
			for i := 0; i < len(file)-1; i += c.step { // the last line may lack its line feed
				if _, err := tube.Restore("", bytes.NewReader(file[:i]), documents()); !errors.Is(err, tube.ErrArchive) {
					t.Fatalf("cut at %d: %v", i, err)
				}
			}
		})
	}
	t.Run("a disk that fails is no torn archive", func(t *testing.T) {
		bad := errors.New("bad sector")
		_, err := tube.Restore("", io.MultiReader(bytes.NewReader(whole.Bytes()[:100]), errReader{bad}), documents())
		if !errors.Is(err, bad) || errors.Is(err, tube.ErrArchive) {
			t.Error(err)
		}
	})
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func FuzzRestore(f *testing.F) {
	for _, s := range []string{
		`{"archive":"lingserve run","version":1,"run":"r","events":3}
{"base":2,"document":{"a":"x"},"reserved":{"$r":"y"}}
{"base":2,"document":{"a":"xx"},"reserved":{},"hidden":true}
{"n":0,"event":"started","data":{}}
{"n":2,"event":"finished","data":{"status":"completed"}}
`,
		`{"archive":"lingserve run","version":1,"run":"r","events":4}
{"n":0,"event":"started","data":{}}
{"n":1,"uri":"a","delta":"x"}
{"n":2,"uri":"a","done":true,"hidden":true}
{"n":3,"event":"canceled","data":{"reason":""}}
`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		tb, err := tube.Restore("", bytes.NewReader(in), documents())
		if err != nil {
			return
		}
		var once, twice bytes.Buffer
		if _, err := tb.WriteTo(&once); err != nil {
			t.Fatal(err)
		}
		back, err := tube.Restore(tb.Run(), bytes.NewReader(once.Bytes()), documents())
		if err != nil {
			t.Fatalf("%v\n%s", err, once.Bytes())
		}
		if _, err := back.WriteTo(&twice); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(once.String(), twice.String()); d != "" {
			t.Fatal(d)
		}
	})
}
