package jsonuri

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// reading is what a parser found in a text: everything that must not depend on where chunks end.
type reading struct {
	Events   []string // in order; appends to the same string in a row are one
	Final    string   // the fold
	Reserved string
	Err      string
	Complete bool
	Repairs  map[string]int
}

// parse reads text in pieces and checks on the way what holds for every delta.
func parse(t testing.TB, o Options, pieces ...string) reading {
	t.Helper()
	var (
		r      reading
		doc    Document
		last   string
		joined []byte
	)
	flush := func() {
		if last != "" {
			r.Events = append(r.Events, last+string(joined))
			last, joined = "", nil
		}
	}
	event := func(format string, args ...any) {
		flush()
		r.Events = append(r.Events, fmt.Sprintf(format, args...))
	}
	inChunk := map[string]bool{}
	p := NewParser(Handler{
		Delta: func(d Delta) {
			if !json.Valid(d.AppendJSON(nil)) {
				t.Errorf("%q: event %s is not JSON", pieces, d.AppendJSON(nil))
			}
			if err := doc.Apply(d); err != nil {
				t.Errorf("%q: fold %s: %v", pieces, d.AppendJSON(nil), err)
			}
			if d.Op == Set {
				event("set %s %s", d.URI, d.Value)
				return
			}
			head := fmt.Sprintf("append %s ", d.URI)
			if !utf8.Valid(d.Value) || last == head && endsHigh(joined) && startsLow(d.Value) {
				t.Errorf("%q: delta %q is cut inside a character", pieces, d.Value)
			}
			if last != head {
				flush()
			} else if inChunk[head] {
				t.Errorf("%q: two deltas for %s from one chunk", pieces, d.URI)
			}
			inChunk[head] = true
			last = head
			joined = append(joined, d.Value...)
		},
		String: func(uri []byte, v string) { event("string %s %q", uri, v) },
		Object: func(uri, v []byte) {
			event("object %s %s", uri, v)
			if !json.Valid(v) {
				t.Errorf("JS-01: the object at %q of %q is %q", uri, pieces, v)
			}
		},
		Scalar: func(uri, v []byte) { event("scalar %s %s", uri, v) },
		Done:   func(uri []byte) { event("done %s", uri) },
		Finish: func() { event("finish") },
	}, &o)
	var err error
	for _, piece := range pieces {
		clear(inChunk)
		// A copy that is spoiled afterwards shows whether the parser keeps the chunk.
		chunk := []byte(piece)
		_, err = p.Write(chunk)
		for i := range chunk {
			chunk[i] = '!'
		}
		if err != nil {
			break
		}
	}
	clear(inChunk)
	if cerr := p.Close(); err == nil {
		err = cerr
	} else if cerr != err {
		t.Errorf("Close gives %v after %v", cerr, err)
	}
	flush()
	if err != nil {
		r.Err = err.Error()
	}
	r.Final = string(doc.AppendJSON(nil))
	r.Reserved = string(doc.AppendReserved(nil))
	r.Complete = p.Complete()
	r.Repairs = p.Repairs()
	return r
}

// endsHigh says whether escaped content ends with the escape of a high surrogate, startsLow whether it begins with that of
// a low one.
func endsHigh(v []byte) bool {
	n := len(v)
	return n >= 6 && v[n-6] == '\\' && v[n-5] == 'u' && isHigh(hex4(v[n-4:])) && (n < 7 || v[n-7] != '\\')
}

func startsLow(v []byte) bool {
	return len(v) >= 6 && v[0] == '\\' && v[1] == 'u' && isLow(hex4(v[2:]))
}

func bytewise(text string) []string {
	pieces := make([]string, len(text))
	for i := range pieces {
		pieces[i] = text[i : i+1]
	}
	return pieces
}

func randomPieces(r *rand.Rand, text string, most int) []string {
	var pieces []string
	for len(text) > 0 {
		n := min(len(text), 1+r.IntN(most))
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

// parseAllWays reads text whole, byte by byte, cut in two at every place, and cut at random, and checks that all agree.
func parseAllWays(t testing.TB, o Options, text string) reading {
	t.Helper()
	whole := parse(t, o, text)
	check := func(pieces ...string) {
		t.Helper()
		if got := parse(t, o, pieces...); !reflect.DeepEqual(whole, got) {
			t.Errorf("JS-03: %q cut as %q differs (-whole +cut):\n%s", text, pieces, cmp.Diff(whole, got))
		}
	}
	check(bytewise(text)...)
	if len(text) <= 400 {
		for i := 1; i < len(text); i++ {
			check(text[:i], text[i:])
		}
	}
	r := rand.New(rand.NewPCG(1, uint64(len(text))))
	for range 3 {
		check(randomPieces(r, text, 9)...)
	}
	return whole
}

// decode is the oracle: the value that encoding/json gives, numbers as text.
func decode(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decode %q: %v", text, err)
	}
	return v
}

func TestParserSendsDeltasAndResolvedEventsInDocumentOrder(t *testing.T) {
	tests := []struct {
		name, root, text string
		want             []string
	}{
		{"JS-01 object", "", ` {"a": "x\ny", "n": [1.10, -0e+5], "t": true} `, []string{
			`append a x\ny`, `string a "x\ny"`, `done a`,
			`set n []`, `set n/0 1.10`, `scalar n/0 1.10`, `done n/0`, `set n/1 -0e+5`, `scalar n/1 -0e+5`, `done n/1`, `object n [1.10,-0e+5]`, `done n`,
			`set t true`, `scalar t true`, `done t`,
			`object  {"a":"x\ny","n":[1.10,-0e+5],"t":true}`, `done `, `finish`,
		}},
		{"JS-02 root is put in front", "art", `{"a/b":{"$x":null}}`, []string{
			`set art {}`, `set art/a\/b {}`, `set art/a\/b/\$x null`, `scalar art/a\/b/\$x null`, `done art/a\/b/\$x`,
			`object art/a\/b {"$x":null}`, `done art/a\/b`, `object art {"a/b":{"$x":null}}`, `done art`, `finish`,
		}},
		{"empty string is sent", "", `["",""]`, []string{
			`set  []`, `append 0 `, `string 0 ""`, `done 0`, `append 1 `, `string 1 ""`, `done 1`, `object  ["",""]`, `done `, `finish`,
		}},
		{"repeated key is taken back first", "", `{"a":{"b":1},"a":"x"}`, []string{
			`set a {}`, `set a/b 1`, `scalar a/b 1`, `done a/b`, `object a {"b":1}`, `done a`,
			`set a null`, `append a x`, `string a "x"`, `done a`, `object  {"a":{"b":1},"a":"x"}`, `done `, `finish`,
		}},
		{"key escapes are decoded", "", `{"\u0061\/":1,"a/":2,"":3,"\ud800":4}`, []string{
			`set a\/ 1`, `scalar a\/ 1`, `done a\/`, `set a\/ null`, `set a\/ 2`, `scalar a\/ 2`, `done a\/`,
			`set \e 3`, `scalar \e 3`, `done \e`, "set \ufffd 4", "scalar \ufffd 4", "done \ufffd",
			`object  {"\u0061\/":1,"a/":2,"":3,"\ud800":4}`, `done `, `finish`,
		}},
		{"JS-07 top-level string", "r", `"h\ud83d\ude00i"`, []string{`append r h\ud83d\ude00i`, `string r "h😀i"`, `done r`, `finish`}},
		{"JS-07 top-level number", "", ` 42`, []string{`set  42`, `scalar  42`, `done `, `finish`}},
		{"JS-07 top-level literal", "", "null\n", []string{`set  null`, `scalar  null`, `done `, `finish`}},
		{"JS-07 empty object", "", `{}`, []string{`object  {}`, `done `, `finish`}},
		{"JS-10 byte order mark", "", "\ufeff[]", []string{`set  []`, `object  []`, `done `, `finish`}},
		{"half pairs stay as they are", "", `["\ud83dx\ud83d\ud83d\ude00\ude00\ud83d\n"]`, []string{
			`set  []`, `append 0 \ud83dx\ud83d\ud83d\ude00\ude00\ud83d\n`, `string 0 "�x�😀��\n"`, `done 0`,
			`object  ["\ud83dx\ud83d\ud83d\ude00\ude00\ud83d\n"]`, `done `, `finish`,
		}},
	}
	for _, tt := range tests {
		for _, mode := range []string{"strict", "repair"} {
			t.Run(tt.name+"/"+mode, func(t *testing.T) {
				got := parseAllWays(t, Options{Root: tt.root, Repair: mode == "repair"}, tt.text)
				if got.Err != "" || !got.Complete || got.Repairs != nil {
					t.Errorf("error %q, complete %v, repairs %v", got.Err, got.Complete, got.Repairs)
				}
				if diff := cmp.Diff(tt.want, got.Events); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestStrictModeSaysWhereAndWhat(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "", "line 1, column 1 (byte 0): found the end of the text, expected a JSON value"},
		{"only a mark", "\xef\xbb", "line 1, column 3 (byte 2): found the end of the text, expected a JSON value"},
		{"prose", "Sure", "line 1, column 1 (byte 0): found 'S', expected a JSON value"},
		{"second line", "{\n  \"a\" 1}", "line 2, column 7 (byte 8): found '1', expected ':'"},
		{"unquoted key", "{a:1}", "line 1, column 2 (byte 1): found 'a', expected a key in quotes or '}'"},
		{"trailing comma", "{\"a\":1,}", "line 1, column 8 (byte 7): found '}', expected a key in quotes"},
		{"trailing comma in an array", "[1,]", "line 1, column 4 (byte 3): found ']', expected a JSON value"},
		{"wrong bracket", "[1}", "line 1, column 3 (byte 2): found '}', expected ',' or ']'"},
		{"missing comma", "{\"a\":1 \"b\"", "line 1, column 8 (byte 7): found a quote, expected ',' or '}'"},
		{"leading zero", "[01]", "line 1, column 3 (byte 2): found '1', expected '.', an exponent or the end of the number"},
		{"no digit", "[-]", "line 1, column 3 (byte 2): found ']', expected a digit"},
		{"word after a number", "[10a]", "line 1, column 4 (byte 3): found 'a', expected a digit"},
		{"literal", "[nul]", "line 1, column 5 (byte 4): found ']', expected the rest of 'null'"},
		{"raw line break", "[\"a\nb\"]", "line 1, column 4 (byte 3): found a line break, expected string content; control characters must be escaped"},
		{"escape", `["\x"]`, `line 1, column 4 (byte 3): found 'x', expected an escape: one of "\/bfnrtu`},
		{"hexadecimal", `["\u12G"]`, "line 1, column 7 (byte 6): found 'G', expected a hexadecimal digit"},
		{"JS-10 invalid UTF-8", "[\"\xff\"]", "line 1, column 3 (byte 2): found byte 0xFF, expected valid UTF-8"},
		{"JS-10 overlong", "[\"\xe0\x80\x80\"]", "line 1, column 4 (byte 3): found byte 0x80, expected the rest of a UTF-8 sequence"},
		{"JS-10 encoded surrogate", "[\"\xed\xa0\x80\"]", "line 1, column 4 (byte 3): found byte 0xA0, expected the rest of a UTF-8 sequence"},
		{"JS-10 cut sequence", "[\"\xe4\xbd\"]", "line 1, column 5 (byte 4): found a quote, expected the rest of a UTF-8 sequence"},
		{"JS-10 beyond Unicode", "[\"\xf4\x90\x80\x80\"]", "line 1, column 4 (byte 3): found byte 0x90, expected the rest of a UTF-8 sequence"},
		{"JS-10 in a key", "{\"\xc0\x80\":1}", "line 1, column 3 (byte 2): found byte 0xC0, expected valid UTF-8"},
		{"text after the end", "{} x", "line 1, column 4 (byte 3): found 'x', expected nothing more after the document"},
		{"JS-09 unfinished string", `{"a":"b`, "line 1, column 8 (byte 7): found the end of the text, expected the rest of the string"},
		{"JS-09 unfinished key", `{"a`, "line 1, column 4 (byte 3): found the end of the text, expected the rest of the key"},
		{"JS-09 unfinished array", `[1`, "line 1, column 3 (byte 2): found the end of the text, expected ',' or ']'"},
		{"JS-09 unfinished number", `-`, "line 1, column 2 (byte 1): found the end of the text, expected a digit"},
		{"JS-09 unfinished literal", `tr`, "line 1, column 3 (byte 2): found the end of the text, expected the rest of 'true'"},
		{"form feed", "[\f]", "line 1, column 2 (byte 1): found control character 0x0C, expected a JSON value or ']'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parseAllWays(t, Options{}, tt.text); got.Err != tt.want || got.Complete {
				t.Errorf("got  %s (complete %v)\nwant %s", got.Err, got.Complete, tt.want)
			}
		})
	}
}

func TestLimitsAreErrorsOfTheirOwn(t *testing.T) {
	o := Options{MaxDepth: 3, MaxBytes: 40, MaxKey: 5, MaxNumber: 4}
	tests := []struct {
		name, text, limit string
		max, offset       int64
	}{
		{"depth", "[[[[", "depth", 3, 3},
		{"document", `["` + strings.Repeat("x", 60), "document", 40, 40},
		{"white space after the document", "{}" + strings.Repeat(" ", 60), "document", 40, 40},
		{"key", `{"123456":1}`, "key", 5, 7},
		{"number", `[12345]`, "number", 4, 5},
	}
	for _, tt := range tests {
		t.Run("JS-08 "+tt.name, func(t *testing.T) {
			for _, pieces := range [][]string{{tt.text}, bytewise(tt.text)} {
				p := NewParser(Handler{}, &o)
				var err error
				for _, piece := range pieces {
					if _, err = p.WriteString(piece); err != nil {
						break
					}
				}
				le, ok := errors.AsType[*LimitError](err)
				if !ok {
					t.Fatalf("got %v", err)
				}
				if want := (LimitError{tt.limit, tt.max, tt.offset}); *le != want {
					t.Errorf("got %+v, want %+v", *le, want)
				}
				if _, again := p.WriteString("]"); again != err || p.Close() != err {
					t.Errorf("the error does not last: %v, %v", again, p.Close())
				}
			}
		})
	}
	for _, text := range []string{"[[[]]]", `["` + strings.Repeat("x", 36) + `"]`, `{"12345":1}`, "[1234]"} {
		if got := parseAllWays(t, o, text); got.Err != "" {
			t.Errorf("JS-08 just within the limits: %s: %s", text, got.Err)
		}
	}
}

func TestDefaultLimits(t *testing.T) {
	for limit, text := range map[string]string{
		"depth":    strings.Repeat("[", 513),
		"document": `"` + strings.Repeat("x", 16<<20),
		"key":      `{"` + strings.Repeat("x", 64<<10+1) + `":1}`,
		"number":   strings.Repeat("1", 4<<10+1) + " ",
	} {
		p := NewParser(Handler{}, nil)
		_, err := p.WriteString(text)
		if le, ok := errors.AsType[*LimitError](err); !ok || le.Limit != limit {
			t.Errorf("JS-08 %s: got %v", limit, err)
		}
	}
	p := NewParser(Handler{}, nil)
	if _, err := p.WriteString(strings.Repeat("[", 512) + strings.Repeat("]", 512)); err != nil || p.Close() != nil {
		t.Errorf("JS-08 depth 512: %v", err)
	}
}

func TestReaderMayStopAfterTheDocumentOrMuchWhiteSpace(t *testing.T) {
	tests := []struct {
		name, text string
		want       bool
	}{
		{"in the middle", `{"a":`, false},
		{"complete", `{}`, true},
		{"white space", `{"a":` + strings.Repeat(" \n", 128), true},
		{"a little white space", `{"a":` + strings.Repeat(" ", 255), false},
		{"white space that ended", `{"a":` + strings.Repeat(" ", 300) + "1", false},
		{"white space in a string", `{"a":"` + strings.Repeat(" ", 300), false},
		{"a number may go on", `12`, false},
	}
	for _, tt := range tests {
		for _, repair := range []bool{false, true} {
			t.Run(fmt.Sprintf("JS-08 %s, repair %v", tt.name, repair), func(t *testing.T) {
				for _, pieces := range [][]string{{tt.text}, bytewise(tt.text)} {
					p := NewParser(Handler{}, &Options{Repair: repair})
					for _, piece := range pieces {
						if _, err := p.WriteString(piece); err != nil {
							t.Fatal(err)
						}
					}
					if got := p.MayStop(); got != tt.want {
						t.Errorf("got %v", got)
					}
				}
			})
		}
	}
}

// suite is where the JSON test suite lies beside the repository, if it does.
const suite = "../../shared/data/JSONTestSuite/test_parsing"

func TestJSONTestSuite(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(suite, "*.json"))
	if len(files) == 0 {
		t.Skip("the suite is not here")
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run("JS-06 "+name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := string(data)
			r := rand.New(rand.NewPCG(2, 3))
			if len(text) > 10000 { // deep nesting: only that nothing breaks
				for _, repair := range []bool{false, true} {
					p := NewParser(Handler{}, &Options{Repair: repair})
					for _, piece := range randomPieces(r, text, 20) {
						if _, err = p.WriteString(piece); err != nil {
							break
						}
					}
					if err == nil {
						err = p.Close()
					}
					if !repair && (err == nil) != (name[0] == 'y') {
						t.Errorf("error %v", err)
					}
				}
				return
			}
			got := parseAllWays(t, Options{}, text)
			switch {
			case name[0] == 'y' && got.Err != "":
				t.Errorf("refused: %s", got.Err)
			case name[0] == 'n' && got.Err == "":
				t.Errorf("accepted")
			}
			mended := parseAllWays(t, Options{Repair: true}, text)
			if got.Err == "" {
				checkFold(t, text, got)
				checkUnchanged(t, text, got, mended)
			}
		})
	}
}

// checkFold holds a reading of a valid text to the fold law: a non-object is compared by its root.
func checkFold(t testing.TB, text string, got reading) {
	t.Helper()
	want := decode(t, strings.TrimPrefix(text, "\ufeff"))
	if !reflect.DeepEqual(want, decode(t, got.Final)) { // cmp takes for ever on deep nesting
		t.Errorf("JS-02: fold of %q is %s", text, got.Final)
	}
}

// checkUnchanged holds RP-10: repair reads a valid document as strict mode does.
func checkUnchanged(t testing.TB, text string, strict, mended reading) {
	t.Helper()
	if mended.Repairs != nil {
		t.Errorf("RP-10: repairs %v in %q", mended.Repairs, text)
	}
	if !reflect.DeepEqual(strict, mended) {
		t.Errorf("RP-10: %q (-strict +repair):\n%s", text, cmp.Diff(strict, mended))
	}
}

// genJSON draws a valid document with white space, escapes, half pairs, repeated keys and long numbers.
func genJSON(t *rapid.T) string {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n", "\r\n\t", "  ", strings.Repeat(" ", 300)})
	content := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{
				"a", "b/c", "$", ".", "..", `\n`, `\"`, `\\`, `\/`, `\u0041`, `\ud83d\ude00`, `\uD83D`, `\ude00`, `\u0000`,
				"ä", "你好", "😀", " ", ", ", ": ", "}", "]", "{", "[", "'", "`", "```", "//", "#", "/*", "“", "”", "<think>", "e", "true", `\",\"x\":`, `\u20`[:2] + "0020", "&quot;", "...",
			}),
			rapid.Just(strings.Repeat("long ", 60)), rapid.StringMatching(`[a-zA-Z0-9 ,.:;{}\[\]'()/*#+=-]{0,12}`),
		), 0, 6).Draw(t, "parts")
		return strings.Join(parts, "")
	})
	var value func(depth int) string
	value = func(depth int) string {
		kind := rapid.IntRange(0, 9).Draw(t, "kind")
		if depth == 0 {
			kind = 5
		}
		if depth <= 0 && kind > 6 || depth > 4 && kind > 6 {
			kind = 0
		}
		sp := func() string { return space.Draw(t, "space") }
		var s strings.Builder
		switch {
		case kind <= 1:
			return `"` + content.Draw(t, "string") + `"`
		case kind == 2:
			return rapid.SampledFrom([]string{"0", "-0", "1.10", "1e400", "12345678901234567890", "-12.5E-3", "7", "100", strings.Repeat("7", 300)}).Draw(t, "number")
		case kind == 3:
			return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "literal")
		case kind <= 6:
			s.WriteString("{" + sp())
			for i := range rapid.IntRange(0, 4).Draw(t, "members") {
				if i > 0 {
					s.WriteString("," + sp())
				}
				key := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "c"}), content).Draw(t, "key")
				s.WriteString(`"` + key + `"` + sp() + ":" + sp() + value(depth+1) + sp())
			}
			s.WriteString("}")
		default:
			s.WriteString("[" + sp())
			for i := range rapid.IntRange(0, 4).Draw(t, "elements") {
				if i > 0 {
					s.WriteString("," + sp())
				}
				s.WriteString(value(depth+1) + sp())
			}
			s.WriteString("]")
		}
		return s.String()
	}
	return space.Draw(t, "before") + value(rapid.IntRange(0, 1).Draw(t, "top")) + space.Draw(t, "after")
}

func TestEveryValidDocumentFoldsToItsValueHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := genJSON(rt)
		seed := rapid.Uint64().Draw(rt, "seed")
		r := rand.New(rand.NewPCG(seed, 1))
		whole := parse(t, Options{}, text)
		if whole.Err != "" {
			rt.Fatalf("%q: %s", text, whole.Err)
		}
		if strings.HasPrefix(strings.TrimSpace(text), "{") {
			checkFold(t, text, whole)
		}
		for _, most := range []int{1, 4, 13} {
			pieces := randomPieces(r, text, most)
			if diff := cmp.Diff(whole, parse(t, Options{}, pieces...)); diff != "" {
				rt.Fatalf("JS-03: %q as %q (-whole +cut):\n%s", text, pieces, diff)
			}
			checkUnchanged(t, text, whole, parse(t, Options{Repair: true}, pieces...))
		}
		rooted := parse(t, Options{Root: "r/0"}, text)
		if diff := cmp.Diff(map[string]any{"r": map[string]any{"0": decode(t, text)}}, decode(t, rooted.Final)); diff != "" {
			rt.Fatalf("JS-02: %q below a root (-want +got):\n%s", text, diff)
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}

func TestParserAllocatesNothingInTheSteadyState(t *testing.T) {
	text := append(article(64<<10), ',')
	for _, repair := range []bool{false, true} {
		for _, size := range []int{1, 4, 100, len(text)} {
			n := 0
			p := NewParser(Handler{Delta: func(d Delta) { n += len(d.Value) }, Done: func([]byte) { n++ }}, &Options{Repair: repair})
			if _, err := p.WriteString("["); err != nil {
				t.Fatal(err)
			}
			read := func() { // an element
				for i := 0; i < len(text); i += size {
					if _, err := p.Write(text[i:min(i+size, len(text))]); err != nil {
						t.Fatal(err)
					}
				}
			}
			read()
			if got := testing.AllocsPerRun(3, read); got != 0 {
				t.Errorf("JS-05: repair %v, chunks of %d: %v allocations for an element", repair, size, got)
			}
		}
	}
}

func TestManyKeysAreToldApart(t *testing.T) {
	var b bytes.Buffer
	for range 2 {
		for i := range 2000 {
			fmt.Fprintf(&b, `,"k%d":{"x":1,"y":2}`, i)
		}
	}
	text := "{" + b.String()[1:] + "}"
	nulls := 0
	p := NewParser(Handler{Delta: func(d Delta) {
		if string(d.Value) == "null" {
			nulls++
		}
	}}, nil)
	if _, err := p.WriteString(text); err != nil || p.Close() != nil {
		t.Fatal(err)
	}
	if nulls != 2000 {
		t.Errorf("%d keys were seen as repeated, want 2000", nulls)
	}
}

var _ io.Writer = (*Parser)(nil)
