package linear_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/jsonuri/linear"
)

// event is a delta, or a Done.
type event struct {
	uri  string
	op   byte // 'a' append, 's' set, 'd' done
	text string
}

func (e event) String() string { return fmt.Sprintf("%c %s %s", e.op, e.uri, e.text) }

func grow(uri, text string) event { return event{uri, 'a', text} }
func set(uri, text string) event  { return event{uri, 's', text} }
func done(uri string) event       { return event{uri, 'd', ""} }

// play gives events to a writer and to a document. It returns the text after each event and at last, and the document's.
func play(t rapid.TB, events []event, expect ...string) (steps []string, fold string, err error) {
	var w linear.Writer
	var d jsonuri.Document
	for _, root := range expect {
		w.Expect(root)
	}
	var text []byte
	for _, e := range events {
		switch e.op {
		case 'd':
			w.Done([]byte(e.uri))
		default:
			delta := jsonuri.Delta{URI: []byte(e.uri), Value: []byte(e.text)}
			if e.op == 's' {
				delta.Op = jsonuri.Set
			}
			w.Apply(delta)
			_ = d.Apply(delta) // what it refuses is left out
		}
		text = w.AppendText(text)
		steps = append(steps, string(text))
	}
	text, err = w.Close(text)
	if again, _ := w.Close(nil); len(again) > 0 {
		t.Errorf("closed twice it says %q", again)
	}
	return append(steps, string(text)), string(d.AppendJSON(nil)), err
}

// decoded is what a reader of JSON has, numbers as they were written.
func decoded(text string) (value any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err == nil {
		return nil, errors.New("there is more than one value")
	}
	return value, nil
}

// agree says what is wrong with a last text.
func agree(text, fold string) error {
	if fold[0] == '"' {
		var want string
		if err := json.Unmarshal([]byte(fold), &want); err != nil {
			return err
		}
		if text != want {
			return fmt.Errorf("%q is not %q", text, want)
		}
		return nil
	}
	got, err := decoded(text)
	if err != nil {
		return fmt.Errorf("%w in %s", err, text)
	}
	want, err := decoded(fold)
	if err != nil {
		return err
	}
	if d := cmp.Diff(want, got); d != "" {
		return fmt.Errorf("%s\nin  %s\nnot %s", d, text, fold)
	}
	return nil
}

func TestATextGrowsAtItsFrontier(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []event
		want   []string // what each event adds, and the end
	}{
		{"nothing", nil, []string{`{}`}},
		{"a string", []event{grow("a", "x"), grow("a", "y"), done("a"), grow("b", "z")}, []string{`{"a":"x`, `y`, `"`, `,"b":"z`, `"}`}},
		{"a number comes whole", []event{set("a", "1.10"), set("b", "1e400")}, []string{`{"a":1.10`, `,"b":1e400`, `}`}},
		{
			"what belongs behind waits",
			[]event{grow("a", "x"), grow("b", "1"), grow("a", "y"), grow("b", "2"), done("a"), grow("b", "3")},
			[]string{`{"a":"x`, ``, `y`, ``, `","b":"12`, `3`, `"}`},
		},
		{
			"a value is complete with what is around it",
			[]event{grow("a/b", "x"), grow("c", "1"), done("a")},
			[]string{`{"a":{"b":"x`, ``, `"},"c":"1`, `"}`},
		},
		{
			"an array",
			[]event{set("a", "[]"), grow("a/0", "x"), grow("a/1", "y"), done("a/0"), done("a/1"), done("a")},
			[]string{`{"a":[`, `"x`, ``, `","y`, `"`, `]`, `}`},
		},
		{"places that are left out", []event{set("a", "[]"), grow("a/2", "x")}, []string{`{"a":[`, ``, `null,null,"x"]}`}},
		{"null waits, since it stands before a repeated key", []event{set("a", "null"), grow("a", "x")}, []string{`{"a":`, `"x`, `"}`}},
		{"null that stays", []event{set("a", "null"), done("a")}, []string{`{"a":`, `null`, `}`}},
		{
			"a value that is written again as it was",
			[]event{grow("a/b", "x"), set("a", "null"), set("a", "{}"), grow("a/b", "x"), grow("a/b", "y")},
			[]string{`{"a":{"b":"x`, ``, ``, ``, `y`, `"}}`},
		},
		{"the root as text", []event{grow("", `He said \"`), grow("", `\ud83c`), grow("", `\udf08\n`), grow("", `\\`)}, []string{`He said "`, ``, "🌈\n", `\`, ``}},
		{"half a pair at the end", []event{grow("", `a\ud83c`)}, []string{`a`, "\uFFFD"}},
		{"no half of a pair", []event{grow("", `\\ud83c`)}, []string{`\ud83c`, ``}},
		{"an array at the root", []event{set("", "[]"), grow("0", "x"), done("0"), done("")}, []string{`[`, `"x`, `"`, ``, `]`}},
		{"a number at the root", []event{set("", "1.0"), done("")}, []string{``, ``, `1.0`}},
		{"what stands beside is left out", []event{grow("$reasoning_context", "x"), grow("a/$tools/0", "y"), grow("b", "z")}, []string{``, ``, `{"b":"z`, `"}`}},
		{"keys are escaped", []event{grow(`a"\\\/b/\e`, "x")}, []string{`{"a\"\\/b":{"":"x`, `"}}`}},
		{
			"a snapshot goes on where the text is",
			[]event{grow("a", "x"), set("", `{"a":"xyz","b":{"c":[1,"u"]}}`), done("a"), grow("b/c/1", "v")},
			[]string{`{"a":"x`, `yz`, `","b":{"c":[1,"u`, `v`, `"]}}`},
		},
		{
			"a snapshot of a text goes on where it is",
			[]event{grow("", "one "), set("", "null"), grow("", "one two"), grow("", " three")},
			[]string{`one `, ``, `two`, ` three`, ``},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps, fold, err := play(t, c.events)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			before := ""
			for _, s := range steps {
				rest, ok := strings.CutPrefix(s, before)
				if !ok {
					t.Errorf("%q does not begin with %q", s, before)
				}
				got, before = append(got, rest), s
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if err := agree(before, fold); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestChangeOfWhatWasWrittenIsAnError(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []event
		want   string
	}{
		{"a repeated key", []event{grow("a", "x"), done("a"), set("a", "null"), grow("a", "y")}, `{"a":"x"`},
		{"a value that is complete has a member more", []event{set("a/b", "1"), done("a"), set("a/c", "2")}, `{"a":{"b":1}`},
		{"a value that was begun is another one", []event{grow("a/b", "x"), set("a", "null"), set("a", "{}"), grow("a/c", "y")}, `{"a":{"b":"x`},
		{"a member that is missing", []event{grow("a", "x"), set("", "null"), set("", "{}"), grow("b", "y")}, `{"a":"x`},
		{"all of it", []event{grow("a", "x"), set("", "null")}, `{"a":"x`},
		{"the root is an array now", []event{grow("a", "x"), set("", "[]"), set("0", "1")}, `{"a":"x`},
		{"an element", []event{set("", "[]"), set("0", "1"), set("0", "2")}, `[1`},
		{"a string that is an object now", []event{grow("a", "x"), set("a/b", "1")}, `{"a":"x`},
		{"a text", []event{grow("", "one"), set("", "null"), grow("", "other")}, `one`},
		{"a text that is shorter", []event{grow("", "one"), set("", "null"), grow("", "on")}, `one`},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps, _, err := play(t, c.events)
			if got := steps[len(steps)-1]; !errors.Is(err, linear.ErrTakenBack) || got != c.want {
				t.Errorf("%v: %s", err, got)
			}
		})
	}
}

// genEvents makes events of all kinds, in any order, over few uris, so that much meets.
func genEvents() *rapid.Generator[[]event] {
	uris := []string{"", "a", "b", "a/b", "a/0", "a/1", "a/0/c", "b/c", "b/c/d", "b/2", "a/1/0", `\e`, `x\/y`, "$r", "a/$r", "0", "1"}
	values := []string{"null", "true", "1.10", "-0", "[]", "{}", `""`, `"s\n"`, `[1,"x",{"c":null}]`, `{"c":{"d":1},"b":[]}`, `{"0":"z"}`, `[[],[0]]`}
	content := []string{"x", "", `\n`, `\"`, `é`, `\ud83c\udf08`, `\ud83c`, `\udf08`, "word "}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		uri := rapid.SampledFrom(uris).Draw(t, "uri")
		switch rapid.IntRange(0, 9).Draw(t, "op") {
		case 0, 1, 2:
			return set(uri, rapid.SampledFrom(values).Draw(t, "value"))
		case 3, 4:
			return done(uri)
		default:
			return grow(uri, rapid.SampledFrom(content).Draw(t, "content"))
		}
	}), 0, 40)
}

// check plays events and holds the texts to the package's guarantees. It returns the writer's error.
func check(t rapid.TB, events []event, expect ...string) error {
	steps, fold, err := play(t, events, expect...)
	for i := 1; i < len(steps); i++ {
		if !strings.HasPrefix(steps[i], steps[i-1]) {
			t.Fatalf("%q does not begin with %q", steps[i], steps[i-1])
		}
	}
	if err == nil {
		if err := agree(steps[len(steps)-1], fold); err != nil {
			t.Fatal(err)
		}
	}
	return err
}

func TestWhateverComesTheTextOnlyGrowsAndIsTheFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roots := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a/*/c", "a/0/c", "b/*", "*/b", "x/*/y", "b/c/d", "no uri//"}), 0, 3)
		_ = check(t, genEvents().Draw(t, "events"), roots.Draw(t, "expected")...)
	})
}

// parsed are the deltas of a document that a model writes in chunks.
func parsed(t rapid.TB, root, text string, sizes []int) (events []event) {
	p := jsonuri.NewParser(jsonuri.Handler{
		Delta: func(d jsonuri.Delta) {
			e := event{string(d.URI), 'a', string(d.Value)}
			if d.Op == jsonuri.Set {
				e.op = 's'
			}
			events = append(events, e)
		},
		Done: func(uri []byte) { events = append(events, done(string(uri))) },
	}, &jsonuri.Options{Root: root})
	for i := 0; len(text) > 0; i++ {
		n := len(text)
		if len(sizes) > 0 {
			n = min(n, max(1, sizes[i%len(sizes)]))
		}
		if _, err := p.Write([]byte(text[:n])); err != nil {
			return nil // what no parser takes has no deltas
		}
		text = text[n:]
	}
	if p.Close() != nil {
		return nil
	}
	return events
}

// genJSON makes documents.
func genJSON(depth int) *rapid.Generator[string] {
	leaves := rapid.SampledFrom([]string{`null`, `true`, `1.0`, `12345678901234567890`, `""`, `"a b"`, `"\"\\\u00e9\ud83c\udf08"`, `"☀ é"`})
	if depth == 0 {
		return leaves
	}
	return rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return leaves.Draw(t, "leaf")
		case 1:
			return "[" + strings.Join(rapid.SliceOfN(genJSON(depth-1), 0, 4).Draw(t, "elements"), ",") + "]"
		}
		var members []string
		for _, key := range rapid.Permutation([]string{"a", "b", "c", "", "é/\\\"", "$x"}).Draw(t, "keys")[:rapid.IntRange(0, 5).Draw(t, "members")] {
			quoted, _ := json.Marshal(key)
			members = append(members, string(quoted)+":"+genJSON(depth-1).Draw(t, "value"))
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

func TestBotsThatWriteAtOnceBecomeOneText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var bots [][]event
		roots := []string{"", "x", "y/z", "x/q"}
		for i, root := range roots {
			text := `{"own":` + genJSON(3).Draw(t, "document") + `}` // so that each bot can write into what another one makes
			if i > 0 && rapid.Bool().Draw(t, "silent") {
				continue
			}
			bots = append(bots, parsed(t, root, text, rapid.SliceOfN(rapid.IntRange(1, 9), 0, 4).Draw(t, "chunks")))
		}
		var events []event
		for len(bots) > 0 {
			i := rapid.IntRange(0, len(bots)-1).Draw(t, "bot")
			if len(bots[i]) == 0 {
				bots = slices.Delete(bots, i, i+1)
				continue
			}
			n := rapid.IntRange(1, len(bots[i])).Draw(t, "events")
			events = append(events, bots[i][:n]...)
			bots[i] = bots[i][n:]
		}
		if err := check(t, events, roots...); err != nil {
			t.Fatal(err)
		}
	})
}

// One bot writes an outline, and each of its sections' bodies another one, which begins when the title is there.
func TestABotThatIsExpectedIsWaitedFor(t *testing.T) {
	outline := parsed(t, "a", `{"t":"T","s":[{"t":"one"},{"t":"two"}],"e":1}`, []int{1})
	begins := func(i int) []event { return []event{grow(fmt.Sprintf("a/s/%d/b", i), "body ")} }
	goesOn := func(i int) []event {
		return []event{grow(fmt.Sprintf("a/s/%d/b", i), "text"), done(fmt.Sprintf("a/s/%d/b", i))}
	}
	first := slices.IndexFunc(outline, func(e event) bool { return e.op == 'd' && e.uri == "a/s/0/t" }) + 1
	events := slices.Concat(outline[:first+1], begins(0), outline[first+1:], begins(1), goesOn(1), []event{grow("q", "quiz")}, goesOn(0), []event{grow("q", "!")})
	const want = `{"a":{"t":"T","s":[{"t":"one","b":"body text"},{"t":"two","b":"body text"}],"e":1},"q":"quiz!"}`
	steps, _, err := play(t, events, "a", "a/s/*/b", "q")
	if got := steps[len(steps)-1]; err != nil || got != want {
		t.Errorf("%v: %s", err, got)
	}
	if got := steps[len(steps)-3]; got != strings.TrimSuffix(want, `!"}`) { // before the last event and the end
		t.Errorf("%s", got)
	}
	t.Run("one that never comes", func(t *testing.T) {
		steps, fold, err := play(t, append(outline, grow("q", "quiz")), "a/s/*/b", "q")
		if got := steps[len(steps)-1]; err != nil || agree(got, fold) != nil || strings.Count(got, `"s"`) != 1 {
			t.Errorf("%v: %s", err, got)
		}
	})
}

// One bot alone is never ahead of its text, but for what is undecided: a text is all of what has come.
func TestOneBotsTextIsWrittenAsItComes(t *testing.T) {
	text := `{"title":"Why","n":1.5,"sections":[{"t":"a","b":"long text"},{"t":"b"}],"end":{"x":[]}}`
	events := parsed(t, "", text, []int{1})
	steps, _, err := play(t, events)
	if err != nil || steps[len(steps)-1] != text {
		t.Errorf("%v: %s", err, steps[len(steps)-1])
	}
	for i, e := range events {
		if e.op == 'a' && e.text != "" && !strings.HasSuffix(steps[i], e.text) {
			t.Errorf("after %v: %s", e, steps[i])
		}
	}
}

// Each change starts a long text again: the writer gives up before that takes more than linear time.
func TestManyChangesOfALongTextTakeLinearTime(t *testing.T) {
	var w linear.Writer
	w.Apply(jsonuri.Delta{URI: []byte("a/0"), Op: jsonuri.Set, Value: []byte("1")})
	w.Apply(jsonuri.Delta{URI: []byte("a/text"), Value: bytes.Repeat([]byte("x"), 1<<20)})
	changes := 0
	for w.AppendText(nil); w.Err() == nil && changes < 1000; changes++ {
		w.Apply(jsonuri.Delta{URI: []byte("a/0"), Op: jsonuri.Set, Value: []byte("1")})
		w.AppendText(nil)
	}
	if changes > 20 {
		t.Errorf("%d changes", changes)
	}
}

var far = regexp.MustCompile(`[0-9]{3}`)

func FuzzWriter(f *testing.F) {
	f.Add([]byte("a a x|d a |s a null|a a y|s  {\"a\":\"y\"}"))
	f.Add([]byte("s a []|a a/1 x|d a/0 |s a/0 7|d a |a b z"))
	f.Add([]byte("a  one|s  null|a  one two"))
	f.Add([]byte("a x/a 1|s  null|s  {}|a x/a 2"))
	f.Fuzz(func(t *testing.T, script []byte) {
		var events []event
		for line := range bytes.SplitSeq(script, []byte("|")) {
			parts := strings.SplitN(string(line), " ", 3)
			if len(parts) < 3 || len(parts[0]) != 1 || !strings.Contains("asd", parts[0]) || len(events) == 50 {
				continue
			}
			if far.MatchString(parts[1]) {
				continue // many places that are left out take time to compare
			}
			events = append(events, event{parts[1], parts[0][0], parts[2]})
		}
		_ = check(t, events)
	})
}

func BenchmarkWriter(b *testing.B) {
	text := `{"title":"Why","sections":[` + strings.Repeat(`{"t":"a title","body":"`+strings.Repeat("word ", 50)+`"},`, 100) + `null]}`
	events := parsed(b, "", text, []int{7})
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		var w linear.Writer
		for _, e := range events {
			switch e.op {
			case 'd':
				w.Done([]byte(e.uri))
			case 's':
				w.Apply(jsonuri.Delta{URI: []byte(e.uri), Op: jsonuri.Set, Value: []byte(e.text)})
			default:
				w.Apply(jsonuri.Delta{URI: []byte(e.uri), Value: []byte(e.text)})
			}
			out = w.AppendText(out[:0])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(events)), "ns/event")
}
