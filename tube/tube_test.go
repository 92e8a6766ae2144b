package tube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tube"
)

func newTube(maxBytes int) *tube.Tube {
	return tube.New("run", &tube.Options{MaxBytes: maxBytes})
}

func text(uri, content string) tube.Event {
	return tube.Event{Kind: tube.Append, URI: []byte(uri), Value: []byte(content)}
}

func set(uri, value string) tube.Event {
	return tube.Event{Kind: tube.Set, URI: []byte(uri), Value: []byte(value)}
}

func done(uri string) tube.Event { return tube.Event{Kind: tube.Done, URI: []byte(uri)} }

func named(name, data string) tube.Event {
	return tube.Event{Kind: tube.Named, Name: name, Value: []byte(data)}
}

func quiet(e tube.Event) tube.Event { e.Hidden = true; return e }

func send(t *testing.T, to *tube.Tube, events ...tube.Event) {
	t.Helper()
	for _, e := range events {
		if _, err := to.Send(e); err != nil {
			t.Fatal(err)
		}
	}
}

// lines are the events that wait for a reader, each as its number and its JSON.
func lines(r *tube.Reader) []string {
	var l []string
	for e := range r.Waiting() {
		if e.Part {
			l = append(l, "- "+string(e.AppendJSON(nil)))
		} else {
			l = append(l, fmt.Sprintf("%d %s", e.N, e.AppendJSON(nil)))
		}
	}
	return l
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestTB_01_EventsGetTheNextIDInOrderAndReadersSeeThemFromAnyID(t *testing.T) {
	tb := newTube(0)
	for i, e := range []tube.Event{named("started", `{"run":"run"}`), text("a/b", "x"), text("a/b", `\n`), set("a/c", "1.10"), set("l", "[]"), set("o", "{}"), done("a/b"), text("a/b", "")} {
		if n, err := tb.Send(e); err != nil || n != uint64(i) {
			t.Fatalf("event %d was sent as %d, %v", i, n, err)
		}
	}
	if err := tb.Close("completed"); err != nil {
		t.Fatal(err)
	}
	all := []string{
		`0 {"event":"started","data":{"run":"run"}}`,
		`1 {"uri":"a/b","delta":"x"}`,
		`2 {"uri":"a/b","delta":"\n"}`,
		`3 {"uri":"a/c","delta":1.10}`,
		`4 {"uri":"l","delta":[]}`,
		`5 {"uri":"o","delta":{}}`,
		`6 {"uri":"a/b","done":true}`,
		`7 {"uri":"a/b","delta":""}`,
		`8 {"event":"finished","data":{"status":"completed"}}`,
	}
	for from := range all {
		r := tb.NewReader(uint64(from))
		want(t, lines(r), all[from:]...)
		if !r.Ended() || r.Next() != 9 {
			t.Errorf("from %d: ended %v, next %d", from, r.Ended(), r.Next())
		}
	}
	if r := tb.NewReader(99); len(lines(r)) != 0 || !r.Ended() {
		t.Error("a reader from beyond the end of an ended run waits")
	}
	if tb.Len() != 9 {
		t.Errorf("length %d", tb.Len())
	}
}

func TestTB_01_WhatWasSentIsCopied(t *testing.T) {
	tb := newTube(0)
	uri, value := []byte("a/b"), []byte("text")
	send(t, tb, tube.Event{URI: uri, Value: value})
	copy(uri, "???")
	copy(value, "????")
	want(t, lines(tb.NewReader(0)), `0 {"uri":"a/b","delta":"text"}`)
}

func TestTB_02_FiltersHideFromClientsAndFromNobodyElse(t *testing.T) {
	cases := []struct {
		name   string
		filter tube.Filter
		hidden string // the uris of a, a/b, ab, c that clients do not see
	}{
		{"a uri", tube.Filter{Exclude: []tube.Matcher{tube.URI("a")}}, "a"},
		{"a regexp", tube.Filter{Exclude: []tube.Matcher{regexp.MustCompile("^a.")}}, "a/b ab"},
		{"a func", tube.Filter{Exclude: []tube.Matcher{tube.Func(func(u []byte) bool { return len(u) == 1 })}}, "a c"},
		{"any of several", tube.Filter{Exclude: []tube.Matcher{tube.URI("a"), tube.URI("c")}}, "a c"},
		{"an include map keeps only what it names", tube.Filter{Include: []tube.Matcher{tube.URI("a/b"), tube.URI("c")}}, "a ab"},
		{"exclude wins over include", tube.Filter{Include: []tube.Matcher{tube.URI("a")}, Exclude: []tube.Matcher{tube.URI("a")}}, "a a/b ab c"},
		{"within a bot's root", tube.Filter{Root: "a", Include: []tube.Matcher{tube.URI("none")}}, "a a/b"},
		{"nothing", tube.Filter{}, ""},
	}
	uris := []string{"a", "a/b", "ab", "c"}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			tb := newTube(0)
			remove := tb.AddFilter(c.filter)
			for _, u := range uris {
				send(t, tb, text(u, "x"), text(u, "y"), done(u), named("kept", "1"))
			}
			remove()
			for _, u := range uris {
				send(t, tb, set(u, "1"))
			}
			var seen, hidden []string
			for e := range tb.NewReader(0).Waiting() {
				seen = append(seen, fmt.Sprintf("%d %s", e.N, e.AppendJSON(nil)))
			}
			_ = tb.Cancel("")
			var all []string
			for e, err := range tb.AllEvents(t.Context(), 0) {
				if err != nil {
					t.Fatal(err)
				}
				line := fmt.Sprintf("%d %s", e.N, e.AppendJSON(nil))
				if e.Hidden {
					hidden = append(hidden, line)
				} else if !e.Terminal() {
					all = append(all, line)
				}
			}
			if d := cmp.Diff(all, seen); d != "" {
				t.Errorf("clients do not see what is not hidden: %s", d)
			}
			var wantHidden []string
			for i, u := range uris {
				if strings.Contains(" "+c.hidden+" ", " "+u+" ") {
					wantHidden = append(wantHidden, fmt.Sprintf(`%d {"uri":%q,"delta":"x"}`, 4*i, u), fmt.Sprintf(`%d {"uri":%q,"delta":"y"}`, 4*i+1, u), fmt.Sprintf(`%d {"uri":%q,"done":true}`, 4*i+2, u))
				}
			}
			if d := cmp.Diff(wantHidden, hidden); d != "" {
				t.Errorf("hidden: %s", d)
			}
		})
	}
}

func TestTB_02_AMatcherThatPanicsLeavesTheTubeUsable(t *testing.T) {
	tb := newTube(0)
	remove := tb.AddFilter(tube.Filter{Exclude: []tube.Matcher{tube.Func(func([]byte) bool { panic("matcher") })}})
	func() {
		defer func() { _ = recover() }()
		_, _ = tb.Send(text("a", "x"))
		t.Error("the panic was lost")
	}()
	remove()
	send(t, tb, text("a", "y"))
	want(t, lines(tb.NewReader(0)), `0 {"uri":"a","delta":"y"}`)
}

func TestTB_04_TheEndIsTheLastEvent(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		tb := newTube(0)
		r := tb.NewReader(0)
		if err := tb.Close("failed"); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"send": errOf(tb.Send(text("a", "x"))), "close": tb.Close("completed"), "cancel": tb.Cancel("")} {
			if !errors.Is(err, tube.ErrEnded) {
				t.Errorf("%s after the end: %v", what, err)
			}
		}
		want(t, lines(r), `0 {"event":"finished","data":{"status":"failed"}}`)
		select {
		case <-tb.Ended():
		default:
			t.Error("Ended is open")
		}
	})
	t.Run("canceled for a reason with anything in it", func(t *testing.T) {
		tb := newTube(0)
		if err := tb.Cancel("a \"b\"\r\nevent: x\u2028\xff"); err != nil {
			t.Fatal(err)
		}
		want(t, lines(tb.NewReader(0)), `0 {"event":"canceled","data":{"reason":"a \"b\"\r\nevent: x`+"\u2028\ufffd"+`"}}`)
	})
}

func errOf(_ uint64, err error) error { return err }

func TestTB_04_TheRunCannotBeEndedByAnEvent(t *testing.T) {
	tb := newTube(0)
	for _, name := range []string{"finished", "canceled"} {
		if _, err := tb.Send(named(name, "{}")); err == nil {
			t.Errorf("%s was sent", name)
		}
	}
	if tb.Len() != 0 {
		t.Errorf("length %d", tb.Len())
	}
}

func TestSE_07_EventsThatWouldBreakAFrameAreRefused(t *testing.T) {
	bad := map[string]tube.Event{
		"a name with a line feed":           named("a\nb", "1"),
		"an empty name":                     named("", "1"),
		"a name that begins with a digit":   named("1a", "1"),
		"a name of 65 characters":           named(strings.Repeat("a", 65), "1"),
		"a name in another script":          named("événement", "1"),
		"a name with a space":               named("a b", "1"),
		"data that is no JSON":              named("a", "{"),
		"data with two values":              named("a", "1 2"),
		"data with a raw line feed":         named("a", "\"a\nb\""),
		"data that is not UTF-8":            named("a", "\"\xff\""),
		"text with a line feed":             text("u", "a\nb"),
		"text with a carriage return":       text("u", "a\rb"),
		"text with NUL":                     text("u", "a\x00b"),
		"text with a quote":                 text("u", `a"b`),
		"text that ends in a backslash":     text("u", `a\`),
		"text with half an escape":          text("u", `a\u12`),
		"text with an unknown escape":       text("u", `a\x`),
		"text with half a character":        text("u", "a\xe2\x82"),
		"a value that is no JSON":           set("u", "nul"),
		"a value that is empty":             set("u", ""),
		"a value that is white space":       set("u", " \n"),
		"a number with a leading zero":      set("u", "012"),
		"a value with a raw carriage":       set("u", "[\"a\rb\"]"),
		"a value that is not UTF-8":         set("u", "[\"\xc0\"]"),
		"a uri that is not UTF-8":           text("a\xff", "x"),
		"a kind that there is not":          {Kind: 9},
		"the string of a value not in UTF8": set("u", "\"\xed\xa0\x80\""),
	}
	for name, e := range bad {
		t.Run(name, func(t *testing.T) {
			tb := newTube(0)
			if _, err := tb.Send(e); err == nil {
				t.Errorf("was sent as %q", lines(tb.NewReader(0)))
			}
			if tb.Len() != 0 {
				t.Error("took an id")
			}
		})
	}
}

func TestJSONIsBroughtToOneLine(t *testing.T) {
	tb := newTube(0)
	send(t, tb,
		set("a", " {\n\t\"b\": [1,\r\n 2.50]\n} "),
		named("note", "{ \"x\":\n 1 }\n"),
		named("empty", ""),
		set("s", ` "it\n" `),
		set("a\n\"\\\u2028\u0085é", "-0.5e+7"),
		text("t", `\u2028 `+"\u2028\u007f é 😀"))
	want(t, lines(tb.NewReader(0)),
		`0 {"uri":"a","delta":{"b":[1,2.50]}}`,
		`1 {"event":"note","data":{"x":1}}`,
		`2 {"event":"empty","data":null}`,
		`3 {"uri":"s","delta":"it\n"}`,
		`4 {"uri":"a\n\"\\`+"\u2028\u0085é"+`","delta":-0.5e+7}`,
		`5 {"uri":"t","delta":"\u2028 `+"\u2028\u007f é 😀\"}")
	if document, _ := tb.Snapshot(false); !bytes.Contains(document, []byte(`"s":"it\n"`)) {
		t.Errorf("%s", document)
	}
}

func TestNumbersAreThoseOfJSON(t *testing.T) {
	for _, v := range []string{"0", "-0", "7", "-12", "1.10", "0.5", "1e5", "1E+05", "-0.1e-7", "12345678901234567890", "1e400", "", "-", "+1", "01", "-01", ".5", "5.", "1e", "1e+", "1.e1", "0x1", "1_0", "Infinity", "NaN", "1 2", "--1", "1-", "e1", "0e0", "00"} {
		_, err := newTube(0).Send(set("a", v))
		if valid := json.Valid([]byte(v)); valid != (err == nil) {
			t.Errorf("%q: %v, and it is a number: %v", v, err, valid)
		}
	}
}

func TestTB_05_AReaderThatFellOutGoesOnFromASnapshot(t *testing.T) {
	tb := newTube(4 << 10)
	r := tb.NewReader(0) // never reads until the end
	send(t, tb, named("started", `{"run":"run"}`), text("$reasoning_context", "hm"), set("$tools/0", `{"id":"1"}`), text("title", "T"), done("title"), named("usage", `{"bot":"a"}`))
	tb.AddFilter(tube.Filter{Exclude: []tube.Matcher{tube.URI("secret")}})
	for range 2000 {
		send(t, tb, text("body", "word"), text("secret", "word"))
	}
	send(t, tb, named("note", "1"), done("body"))
	if tb.Bytes() > 8<<10+3*8000 { // the document, visible and whole
		t.Errorf("%d bytes in memory", tb.Bytes())
	}
	body := strings.Repeat("word", 2000)
	group := []string{
		`- {"event":"started","data":{"run":"run"}}`,
		`- {"event":"usage","data":{"bot":"a"}}`,
		`- {"event":"note","data":1}`,
		`- {"uri":"","delta":{"title":"T","body":"` + body + `"}}`,
		`- {"uri":"$reasoning_context","delta":null}`,
		`- {"uri":"$reasoning_context","delta":"hm"}`,
		`- {"uri":"$tools","delta":{"0":{"id":"1"}}}`,
		`- {"uri":"title","done":true}`,
		`4007 {"uri":"body","done":true}`,
	}
	want(t, lines(r), group...)
	want(t, lines(tb.SnapshotReader()), group...)
	want(t, lines(tb.NewReader(3)), group[1:]...)

	send(t, tb, text("body", "!"))
	_ = tb.Close("completed")
	want(t, lines(r), `4008 {"uri":"body","delta":"!"}`, `4009 {"event":"finished","data":{"status":"completed"}}`)
	if !r.Ended() {
		t.Error("the reader has not ended")
	}
	var last tube.Event
	n := 0
	for e, err := range tb.AllEvents(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; string(e.URI) == "" && e.Kind == tube.Set && !bytes.Contains(e.Value, []byte(`"secret":"`+body)) {
			t.Error("a listener's snapshot has not what is hidden")
		}
		last = e
	}
	if !last.Terminal() || n != len(group)+1 {
		t.Errorf("a listener got %d events, the last %s", n, last.AppendJSON(nil))
	}
}

func TestASnapshotIsOneEventWhereTheDocumentIsAll(t *testing.T) {
	tb := newTube(0)
	want(t, lines(tb.SnapshotReader()))
	send(t, tb, text("a", "x"), text("a", "y"))
	r := tb.SnapshotReader()
	want(t, lines(r), `1 {"uri":"","delta":{"a":"xy"}}`)
	send(t, tb, text("a", "z"))
	want(t, lines(r), `2 {"uri":"a","delta":"z"}`)
	_ = tb.Close("completed")
	r = tb.SnapshotReader()
	want(t, lines(r), `2 {"uri":"","delta":{"a":"xyz"}}`, `3 {"event":"finished","data":{"status":"completed"}}`)
	if !r.Ended() {
		t.Error("the reader has not ended")
	}
}

func TestAnEventLargerThanTheLogIsDelivered(t *testing.T) {
	tb := newTube(4 << 10)
	r := tb.NewReader(0)
	large := strings.Repeat("x", 100<<10)
	send(t, tb, text("a", "0"), text("a", large))
	if got := lines(r); len(got) != 1 || len(got[0]) < len(large) {
		t.Errorf("%d events", len(got))
	}
	send(t, tb, text("a", "1"))
	want(t, lines(r), `2 {"uri":"a","delta":"1"}`)
	for range 2000 {
		send(t, tb, text("a", "2"))
	}
	if b := tb.Bytes() - len(large) - len(large)/8; b > 12<<10 { // the document has it
		t.Errorf("%d bytes in memory", b)
	}
}

func TestTB_05_ManyWritersAndManyReadersAtAnySpeed(t *testing.T) {
	const writers, each, readers = 8, 1500, 16
	tb := tube.New("run", &tube.Options{MaxBytes: 32 << 10})
	never := tb.NewReader(0) // waits, and never reads
	never.More()
	remove := tb.AddFilter(tube.Filter{Exclude: []tube.Matcher{tube.URI("w3/hidden")}})
	defer remove()

	var w, r sync.WaitGroup
	for i := range writers {
		w.Go(func() {
			for j := range each {
				e := text(fmt.Sprintf("w%d/text", i), fmt.Sprint(j, " "))
				if j%50 == 0 {
					e = text("w3/hidden", "x")
				}
				if _, err := tb.Send(e); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	docs := make([]*client, readers)
	for i := range readers {
		c := newClient()
		docs[i] = c
		rnd := rand.New(rand.NewPCG(7, uint64(i)))
		r.Go(func() {
			reader := tb.NewReader(0)
			for !reader.Ended() {
				last := reader.Next()
				n := rnd.IntN(2000)
				for e := range reader.Waiting() {
					if e.N < last && last > 0 && !e.Part {
						t.Errorf("event %d after %d", e.N, last)
					}
					if !e.Part {
						last = e.N
					}
					if e.Hidden {
						t.Error("saw what is hidden")
					}
					c.take(e)
					if n--; n < 0 {
						break
					}
				}
				switch rnd.IntN(4) {
				case 0:
					reader = tb.NewReader(c.from()) // reconnects
				case 1:
					tb.Snapshot(rnd.IntN(2) == 0)
				}
				if n >= 0 && !reader.Ended() {
					select {
					case <-reader.More():
					case <-t.Context().Done():
						return
					}
				}
			}
		})
	}
	w.Wait()
	if err := tb.Close("completed"); err != nil {
		t.Fatal(err)
	}
	r.Wait()
	visible, _ := tb.Snapshot(false)
	for i, c := range docs {
		if got := normal(c.doc.AppendJSON(nil)); got != normal(visible) {
			t.Errorf("reader %d has another document", i)
		}
		if len(c.named) != 1 {
			t.Errorf("reader %d got %q", i, c.named)
		}
	}
	if tb.Len() != writers*each+1 {
		t.Errorf("%d events", tb.Len())
	}
	var document map[string]map[string]string
	if err := json.Unmarshal(visible, &document); err != nil {
		t.Fatal(err)
	}
	for i := range writers {
		var b strings.Builder
		for j := range each {
			if j%50 != 0 {
				fmt.Fprint(&b, j, " ")
			}
		}
		if document[fmt.Sprintf("w%d", i)]["text"] != b.String() {
			t.Errorf("writer %d's text is not in its order", i)
		}
	}
	if got := lines(never); len(got) < 2 {
		t.Errorf("the reader that never read gets %d events", len(got))
	}
}

func TestReadersAreWokenByAnEventAndByTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTube(0)
		var got []string
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			r := tb.NewReader(0)
			for {
				for _, l := range lines(r) {
					got = append(got, fmt.Sprint(time.Since(begin), " ", l))
				}
				if r.Ended() {
					return
				}
				<-r.More()
			}
		})
		time.Sleep(time.Second)
		send(t, tb, text("a", "1"))
		time.Sleep(time.Second)
		send(t, tb, text("a", "2"), text("a", "3"))
		time.Sleep(time.Second)
		_ = tb.Close("completed")
		wg.Wait()
		want(t, got, `1s 0 {"uri":"a","delta":"1"}`, `2s 1 {"uri":"a","delta":"2"}`, `2s 2 {"uri":"a","delta":"3"}`, `3s 3 {"event":"finished","data":{"status":"completed"}}`)
	})
}

func TestMoreDoesNotMissWhatCameBefore(t *testing.T) {
	tb := newTube(0)
	r := tb.NewReader(0)
	send(t, tb, text("a", "1"))
	select {
	case <-r.More():
	default:
		t.Error("nothing although an event waits")
	}
	lines(r)
	select {
	case <-r.More():
		t.Error("woken for nothing")
	default:
	}
	_ = tb.Close("completed")
	select {
	case <-r.More():
	default:
		t.Error("not woken by the end")
	}
	lines(r)
	select {
	case <-r.More():
	default:
		t.Error("after the end somebody could wait for ever")
	}
}

func TestURIsOfZeroBytesAreNotTakenForMemoryThatIsNotYetWritten(t *testing.T) {
	tb, uri := newTube(0), "\x00\x00\x00\x00"
	var want strings.Builder
	for i := range 1000 { // over several blocks
		send(t, tb, text(uri, fmt.Sprint(i)))
		fmt.Fprint(&want, i)
	}
	var got strings.Builder
	for e := range tb.NewReader(0).Waiting() {
		if string(e.URI) != uri {
			t.Fatalf("event %d is at %q", e.N, e.URI)
		}
		got.Write(e.Value)
	}
	if got.String() != want.String() {
		t.Error("the text differs")
	}
}

func TestAReaderThatLeavesIsForgottenAndMayComeBack(t *testing.T) {
	tb := newTube(0)
	a, b := tb.NewReader(0), tb.NewReader(0)
	a.More()
	b.More()
	a.Leave()
	a.Leave()
	send(t, tb, text("a", "1"))
	for name, c := range map[string]struct {
		r     *tube.Reader
		woken bool
	}{"left": {a, false}, "stayed": {b, true}} {
		// The channel itself, without asking again.
		got := tube.Woken(c.r)
		if got != c.woken {
			t.Errorf("the reader that %s: woken %v", name, got)
		}
	}
	select {
	case <-a.More():
	default:
		t.Error("it cannot come back")
	}
}

func TestAReaderCanBeWokenForNothing(t *testing.T) {
	tb := newTube(0)
	r := tb.NewReader(0)
	more := r.More()
	r.Wake()
	r.Wake()
	<-more
	if len(lines(r)) != 0 || r.Ended() {
		t.Error("something came")
	}
	r.More()
	send(t, tb, text("a", "1"))
	<-more
	want(t, lines(r), `0 {"uri":"a","delta":"1"}`)
}

func TestEventsEndWithTheContextsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTube(0)
		send(t, tb, text("a", "1"), quiet(text("a", "2")))
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		time.AfterFunc(time.Second, func() { cancel(cause) })
		n := 0
		for e, err := range tb.AllEvents(ctx, 0) {
			if err != nil {
				if err != cause || n != 2 {
					t.Errorf("%v after %d events", err, n)
				}
				return
			}
			if e.N != uint64(n) {
				t.Errorf("event %d is %d", n, e.N)
			}
			n++
		}
		t.Error("ended without an error")
	})
}

func TestTheFirstPieceOfTheDocumentIsToldOnce(t *testing.T) {
	calls := 0
	tb := tube.New("run", &tube.Options{First: func() { calls++ }})
	send := func(e tube.Event, want int) {
		t.Helper()
		if _, err := tb.Send(e); err != nil {
			t.Fatal(err)
		}
		if calls != want {
			t.Errorf("told %d times, expected %d", calls, want)
		}
	}
	send(named("started", "{}"), 0)
	send(done("a"), 0)
	send(text("a", "x"), 1)
	send(set("b", "1"), 1)
	_ = tb.Close("completed")
	_ = tube.New("run", &tube.Options{First: func() { calls++ }}).Close("failed")
	if calls != 1 {
		t.Errorf("told %d times, of runs that made nothing, too", calls)
	}
}

func TestAReaderCountsHowOftenItFellBehind(t *testing.T) {
	tb := newTube(4 << 10)
	late, fast := tb.NewReader(0), tb.NewReader(0)
	asked := tb.SnapshotReader()
	for range 3 {
		for range 100 {
			if _, err := tb.Send(text("a", strings.Repeat("x", 100))); err != nil {
				t.Fatal(err)
			}
			for range fast.Waiting() {
			}
		}
		for range late.Waiting() {
		}
	}
	for range asked.Waiting() {
	}
	if late.Snapshots() != 3 || fast.Snapshots() != 0 || asked.Snapshots() != 0 {
		t.Errorf("late %d, fast %d, asked %d", late.Snapshots(), fast.Snapshots(), asked.Snapshots())
	}
}
