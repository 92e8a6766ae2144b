package jsonuri

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// change is a delta in a test: Append of content where append is set, else Set of value.
type change struct {
	uri    string
	append string
	set    string
}

func (c change) apply(d *Document) error {
	if c.set != "" {
		return d.Set([]byte(c.uri), []byte(c.set))
	}
	return d.Append([]byte(c.uri), []byte(c.append))
}

// JS-11, and the table of what a delta means.
func TestDocumentFoldsDeltas(t *testing.T) {
	for _, tt := range []struct {
		name    string
		changes []change
		want    string
	}{
		{"nothing is an empty object", nil, `{}`},
		{"a string grows", []change{{uri: "a", append: "x"}, {uri: "a", append: "y"}}, `{"a":"xy"}`},
		{"an empty string", []change{{uri: "a"}}, `{"a":""}`},
		{"escapes stay as they are", []change{{uri: "a", append: `\u00e9\n`}, {uri: "a", append: `\"`}}, `{"a":"\u00e9\n\""}`},
		{"a surrogate pair in two pieces", []change{{uri: "a", append: `\ud83d`}, {uri: "a", append: `\ude42`}}, `{"a":"\ud83d\ude42"}`},
		{"append to what is not a string starts it anew", []change{{uri: "a", set: "17"}, {uri: "a", append: "x"}}, `{"a":"x"}`},
		{"append to an object replaces it", []change{{uri: "a/b", set: "1"}, {uri: "a", append: "x"}}, `{"a":"x"}`},
		{
			"a number keeps its text",
			[]change{{uri: "a", set: "1.10"}, {uri: "b", set: "1e400"}, {uri: "c", set: "12345678901234567890"}, {uri: "d", set: "-0"}},
			`{"a":1.10,"b":1e400,"c":12345678901234567890,"d":-0}`,
		},
		{"literals", []change{{uri: "a", set: "true"}, {uri: "b", set: "false"}, {uri: "c", set: "null"}}, `{"a":true,"b":false,"c":null}`},
		{"{} keeps an object", []change{{uri: "a/b", set: "1"}, {uri: "a", set: "{}"}}, `{"a":{"b":1}}`},
		{"{} with space in it too", []change{{uri: "a/b", set: "1"}, {uri: "a", set: " { } "}}, `{"a":{"b":1}}`},
		{"{} replaces anything else", []change{{uri: "a", append: "x"}, {uri: "a", set: "{}"}, {uri: "b", set: "[1]"}, {uri: "b", set: "{}"}}, `{"a":{},"b":{}}`},
		{"[] empties an array", []change{{uri: "a", set: "[1,2]"}, {uri: "a", set: "[]"}}, `{"a":[]}`},
		{"a non-empty object sets", []change{{uri: "a/b", set: "1"}, {uri: "a", set: `{"c":2}`}}, `{"a":{"c":2}}`},
		{"a snapshot at the root sets everything", []change{{uri: "x", set: "1"}, {uri: "", set: `{"a":{"b":"t"}}`}, {uri: "a/b", append: "u"}}, `{"a":{"b":"tu"}}`},
		{"a string value sets", []change{{uri: "a", append: "x"}, {uri: "a", set: `"y\n"`}, {uri: "a", append: "z"}}, `{"a":"y\nz"}`},
		{"null before a repeated key", []change{{uri: "a/b", set: "1"}, {uri: "c", set: "2"}, {uri: "a", set: "null"}, {uri: "a", set: "{}"}}, `{"a":{},"c":2}`},
		{"intermediate objects are made", []change{{uri: "a/b/c", set: "1"}}, `{"a":{"b":{"c":1}}}`},
		{"and replace what is no container", []change{{uri: "a", append: "x"}, {uri: "a/b", set: "1"}}, `{"a":{"b":1}}`},
		{"an index without an array is a key", []change{{uri: "a/0", set: "1"}}, `{"a":{"0":1}}`},
		{"an index into an array", []change{{uri: "a", set: "[]"}, {uri: "a/0", set: "1"}, {uri: "a/1/b", append: "x"}}, `{"a":[1,{"b":"x"}]}`},
		{"an array inside an array", []change{{uri: "a", set: "[]"}, {uri: "a/0", set: "[]"}, {uri: "a/0/0", set: "[]"}}, `{"a":[[[]]]}`},
		{"a slot beyond the end fills with null", []change{{uri: "a", set: "[]"}, {uri: "a/2", append: "x"}}, `{"a":[null,null,"x"]}`},
		{"an element that grows", []change{{uri: "a", set: "[]"}, {uri: "a/0", append: "x"}, {uri: "a/0", append: "y"}}, `{"a":["xy"]}`},
		{"a top-level array", []change{{uri: "", set: "[]"}, {uri: "0", set: "1"}}, `[1]`},
		{"a top-level string", []change{{uri: "", append: "x"}, {uri: "", append: "y"}}, `"xy"`},
		{"a top-level scalar", []change{{uri: "", set: "null"}}, `null`},
		{"a member makes the root an object again", []change{{uri: "", set: "3"}, {uri: "a", set: "1"}}, `{"a":1}`},
		{"members keep the order they came in", []change{{uri: "z", set: "1"}, {uri: "a", set: "2"}, {uri: "m", set: "3"}, {uri: "z", set: "4"}}, `{"z":4,"a":2,"m":3}`},
		{"a set object keeps its order too", []change{{uri: "", set: ` {"z" : 1, "a":[ 2 ,3 ], "z":{"y" : "\"}"} } `}}, `{"z":{"y":"\"}"},"a":[2,3]}`},
		{
			"keys with escapes",
			[]change{{uri: `\e`, set: "1"}, {uri: `a\/b`, set: "2"}, {uri: `\.`, set: "3"}, {uri: `\$x`, set: "4"}, {uri: `a\\`, set: "5"}},
			`{"":1,"a/b":2,".":3,"$x":4,"a\\":5}`,
		},
		{
			"keys of a set object with escapes are the same keys",
			[]change{{uri: "", set: `{"a\u002fb":1,"\"\n\u0001":2}`}, {uri: `a\/b`, append: "x"}},
			`{"a/b":"x","\"\n\u0001":2}`,
		},
		{
			"many keys",
			[]change{{uri: "", set: `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1}`}, {uri: "b", set: "2"}, {uri: "j", set: "2"}, {uri: "k", set: "2"}},
			`{"a":1,"b":2,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":2,"k":2}`,
		},
		{
			"a way that is shared in part",
			[]change{{uri: "ab/c/d", set: "1"}, {uri: "ab/c", append: "x"}, {uri: "ab/c/d/e", set: "2"}, {uri: "ab/cd", set: "3"}, {uri: "a/c", set: "4"}, {uri: "a", set: "5"}, {uri: `a\\/c`, set: "6"}},
			`{"ab":{"c":{"d":{"e":2}},"cd":3},"a":5,"a\\":{"c":6}}`,
		},
		{"a way that was replaced", []change{{uri: "a/b/c", set: "1"}, {uri: "a", set: `{"b":{"d":2}}`}, {uri: "a/b/c", append: "x"}, {uri: "a/b", set: "[]"}, {uri: "a/b/0", append: "y"}}, `{"a":{"b":["y"]}}`},
		{
			"elements that move as their array grows",
			[]change{{uri: "a", set: "[]"}, {uri: "a/0/b", append: "x"}, {uri: "a/1/b", append: "y"}, {uri: "a/2/b", append: "z"}, {uri: "a/0/b", append: "x"}, {uri: "a/9", set: "1"}, {uri: "a/0/b", append: "x"}},
			`{"a":[{"b":"xxx"},{"b":"y"},{"b":"z"},null,null,null,null,null,null,1]}`,
		},
		{"reserved uris stand beside", []change{{uri: "$reasoning_context", append: "hm"}, {uri: "a", set: "1"}, {uri: "b/$tools/0", set: "{}"}}, `{"a":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d Document
			for i, c := range tt.changes {
				if err := c.apply(&d); err != nil {
					t.Fatalf("change %d: %v", i, err)
				}
			}
			if got := string(d.AppendJSON(nil)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			checkSize(t, &d)
		})
	}
}

func TestDocumentKeepsReservedValuesByTheURIUpToTheDollar(t *testing.T) {
	var d Document
	if got := string(d.AppendReserved(nil)); got != `{}` {
		t.Errorf("an empty document has %s beside it", got)
	}
	for _, c := range []change{
		{uri: "article/$reasoning_context", append: "let me "},
		{uri: "article/$reasoning_context", append: "think"},
		{uri: "$tools", set: "[]"},
		{uri: "$tools/0", set: `{"id":"1"}`},
		{uri: "$tools/0/arguments", append: "{"},
		{uri: `$tools/1/$deep/\$x`, set: "1"},
		{uri: `\$plain`, set: "2"},
	} {
		if err := c.apply(&d); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"article/$reasoning_context":"let me think","$tools":[{"id":"1","arguments":"{"},{"$deep":{"$x":1}}]}`
	if got := string(d.AppendReserved(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(d.AppendJSON(nil)); got != `{"$plain":2}` {
		t.Errorf("the document is %s", got)
	}
	if got, ok := d.Get("$tools/0/arguments"); !ok || string(got) != `"{"` {
		t.Errorf("Get gives %s, %v", got, ok)
	}
	if !d.Delete("$tools/0") || !d.Delete("article/$reasoning_context") || d.Delete("article/$other") {
		t.Error("Delete does not say what there was")
	}
	if got := string(d.AppendReserved(nil)); got != `{"$tools":[{"$deep":{"$x":1}}]}` {
		t.Errorf("after deleting: %s", got)
	}
	checkSize(t, &d)
}

func TestDocumentRefusesWhatItCannotKeep(t *testing.T) {
	deep := strings.Repeat("a/", maxDocumentDepth-1) + "a"
	for _, tt := range []struct {
		name   string
		change change
		is     func(error) bool
	}{
		{"a malformed uri", change{uri: "x/", set: "1"}, isA[*URIError]},
		{"a malformed uri after new segments", change{uri: `n/e/w\x`, set: "1"}, isA[*URIError]},
		{"a uri that is not UTF-8", change{uri: "\xff", set: "1"}, isA[*URIError]},
		{"a key into an array", change{uri: "arr/x", set: "1"}, isA[*URIError]},
		{"an index with a leading zero", change{uri: "arr/01", set: "1"}, isA[*URIError]},
		{"a negative index", change{uri: "arr/-1", append: "x"}, isA[*URIError]},
		{"the empty key into an array", change{uri: `arr/\e`, append: "x"}, isA[*URIError]},
		{"a slot far beyond the end", change{uri: fmt.Sprint("arr/", maxFill+3), set: "1"}, isA[*URIError]},
		{"an index beyond what fits an int", change{uri: "arr/99999999999999999999999", set: "1"}, isA[*URIError]},
		{"a uri too deep", change{uri: deep + "/a", set: "1"}, isA[*LimitError]},
		{"a value too deep below its uri", change{uri: deep, set: "[[1]]"}, isA[*LimitError]},
		{"a value too deep", change{uri: "v", set: strings.Repeat("[", maxDocumentDepth+1) + strings.Repeat("]", maxDocumentDepth+1)}, isA[*LimitError]},
		{"no value", change{uri: "v", set: " "}, isValue},
		{"a word", change{uri: "v", set: "nul"}, isValue},
		{"two values", change{uri: "v", set: "1 2"}, isValue},
		{"a number with a leading zero", change{uri: "v", set: "01"}, isValue},
		{"an unfinished number", change{uri: "v", set: "1."}, isValue},
		{"an unfinished exponent", change{uri: "v", set: "1e+"}, isValue},
		{"an unfinished object", change{uri: "v", set: `{"a":1`}, isValue},
		{"a value that is not UTF-8", change{uri: "v", set: "\"\xff\""}, isValue},
		{"a quote in content", change{uri: "v", append: `a"b`}, isContentError},
		{"a line break in content", change{uri: "v", append: "a\nb"}, isContentError},
		{"an escape cut off", change{uri: "v", append: `a\`}, isContentError},
		{"a hexadecimal escape cut off", change{uri: "v", append: `\u12`}, isContentError},
		{"a wrong hexadecimal escape", change{uri: "v", append: `\u12g4`}, isContentError},
		{"an unknown escape", change{uri: "v", append: `\x`}, isContentError},
		{"content that is not UTF-8", change{uri: "v", append: "\xe4"}, isContentError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d Document
			if err := d.Set(nil, []byte(`{"s":"t","arr":[1,2]}`)); err != nil {
				t.Fatal(err)
			}
			err := tt.change.apply(&d)
			if err == nil {
				t.Fatalf("no error; the document is %.200s", d.AppendJSON(nil))
			}
			if !tt.is(err) {
				t.Errorf("an error of another kind: %T %v", err, err)
			}
			if len(err.Error()) > 400 {
				t.Errorf("a message of %d bytes", len(err.Error()))
			}
			if got := string(d.AppendJSON(nil)); got != `{"s":"t","arr":[1,2]}` {
				t.Errorf("the document has changed: %.200s", got)
			}
			checkSize(t, &d)
		})
	}
}

func isA[E error](err error) bool   { _, ok := errors.AsType[E](err); return ok }
func isValue(err error) bool        { return errors.Is(err, ErrValue) }
func isContentError(err error) bool { return errors.Is(err, ErrContent) }

func TestDocumentTakesWhatIsJustWithinItsLimits(t *testing.T) {
	var d Document
	deep := strings.Repeat("a/", maxDocumentDepth-1) + "a"
	for _, c := range []change{
		{uri: deep, set: "[]"},
		{uri: deep[2:], set: "[[]]"},
		{uri: "arr", set: "[]"},
		{uri: fmt.Sprint("arr/", maxFill), set: "1"},
		{uri: "v", set: strings.Repeat("[", maxDocumentDepth) + strings.Repeat("]", maxDocumentDepth)},
	} {
		if err := c.apply(&d); err != nil {
			t.Fatalf("%.20s…: %v", c.uri, err)
		}
	}
	if !json.Valid(d.AppendJSON(nil)) {
		t.Error("the text is not valid JSON")
	}
}

func TestGetFindsWhatIsThere(t *testing.T) {
	var d Document
	if err := d.Set(nil, []byte(`{"a":[1,{"b":"x\u0041"}],"":{"c/d":null},"$e":true}`)); err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]string{
		"":         `{"a":[1,{"b":"x\u0041"}],"":{"c/d":null},"$e":true}`,
		"a":        `[1,{"b":"x\u0041"}]`,
		"a/0":      "1",
		"a/1":      `{"b":"x\u0041"}`,
		"a/1/b":    `"x\u0041"`,
		`\e`:       `{"c/d":null}`,
		`\e/c\/d`:  "null",
		`\$e`:      "true",
		"a/2":      "",
		"a/01":     "",
		"a/b":      "",
		"a/0/0":    "",
		"$e":       "",
		"nothing":  "",
		"a//":      "",
		"a/99999":  "",
		"a/1/b/c":  "",
		"a/-1":     "",
		`a/1/\e`:   "",
		"a/1/b\\x": "",
	} {
		got, ok := d.Get(uri)
		if string(got) != want || ok != (want != "") {
			t.Errorf("Get(%q) = %s, %v, want %s", uri, got, ok, want)
		}
	}
}

func TestDeleteRemovesAndMovesElementsUp(t *testing.T) {
	var d Document
	if err := d.Set(nil, []byte(`{"a":[1,2,3],"b":{"c":4},"d":5,"e":6,"f":7,"g":8,"h":9,"i":10,"j":11}`)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		uri  string
		ok   bool
		want string
	}{
		{"a/1", true, `{"a":[1,3],"b":{"c":4},"d":5,"e":6,"f":7,"g":8,"h":9,"i":10,"j":11}`},
		{"a/2", false, `{"a":[1,3],"b":{"c":4},"d":5,"e":6,"f":7,"g":8,"h":9,"i":10,"j":11}`},
		{"b/c", true, `{"a":[1,3],"b":{},"d":5,"e":6,"f":7,"g":8,"h":9,"i":10,"j":11}`},
		{"b/c", false, `{"a":[1,3],"b":{},"d":5,"e":6,"f":7,"g":8,"h":9,"i":10,"j":11}`},
		{"d", true, `{"a":[1,3],"b":{},"e":6,"f":7,"g":8,"h":9,"i":10,"j":11}`},
		{"j", true, `{"a":[1,3],"b":{},"e":6,"f":7,"g":8,"h":9,"i":10}`},
		{"j/k", false, `{"a":[1,3],"b":{},"e":6,"f":7,"g":8,"h":9,"i":10}`},
		{"i/k", false, `{"a":[1,3],"b":{},"e":6,"f":7,"g":8,"h":9,"i":10}`},
		{"a//", false, `{"a":[1,3],"b":{},"e":6,"f":7,"g":8,"h":9,"i":10}`},
		{"a/0", true, `{"a":[3],"b":{},"e":6,"f":7,"g":8,"h":9,"i":10}`},
		{"a/0", true, `{"a":[],"b":{},"e":6,"f":7,"g":8,"h":9,"i":10}`},
		{"", true, `{}`},
	} {
		if ok := d.Delete(step.uri); ok != step.ok {
			t.Errorf("Delete(%q) = %v", step.uri, ok)
		}
		if got := string(d.AppendJSON(nil)); got != step.want {
			t.Fatalf("after Delete(%q):\ngot  %s\nwant %s", step.uri, got, step.want)
		}
		checkSize(t, &d)
	}
}

func TestDeltaAfterDeleteDoesNotWriteIntoWhatWasDeleted(t *testing.T) {
	var d Document
	for _, c := range []change{{uri: "a", set: "[]"}, {uri: "a/0", append: "x"}, {uri: "a/1", append: "y"}} {
		if err := c.apply(&d); err != nil {
			t.Fatal(err)
		}
	}
	d.Delete("a/0")
	if err := d.Append([]byte("a/1"), []byte("z")); err != nil {
		t.Fatal(err)
	}
	if got := string(d.AppendJSON(nil)); got != `{"a":["y","z"]}` {
		t.Error(got)
	}
}

func TestWalkVisitsEachValueOnceInDocumentOrder(t *testing.T) {
	var d Document
	const text = `{"a":[1,{"b":"x"}],"":{"c/d":null},"e":[]}`
	if err := d.Set(nil, []byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := d.Set([]byte("$tools"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"=" + text, `a=[1,{"b":"x"}]`, "a/0=1", `a/1={"b":"x"}`, `a/1/b="x"`, `\e={"c/d":null}`, `\e/c\/d=null`, "e=[]",
	}
	var got []string
	for uri, value := range d.Walk {
		got = append(got, uri+"="+string(value))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for stop := range want {
		n := 0
		d.Walk(func(string, []byte) bool { n++; return n <= stop })
		if n != stop+1 {
			t.Errorf("%d visits, want %d", n, stop+1)
		}
	}
}

func TestDocumentKeepsNoReferenceToItsArguments(t *testing.T) {
	var d Document
	uri, value := []byte("a"), []byte(`1`)
	for _, v := range []string{`1`, `"s"`, `{"k":"v"}`, `[1.5]`, `true`} {
		value = append(value[:0], v...)
		uri = append(uri[:0], "a"...)
		if err := d.Set(uri, value); err != nil {
			t.Fatal(err)
		}
		clear(value)
		clear(uri)
		if got := string(d.AppendJSON(nil)); got != `{"a":`+v+`}` {
			t.Errorf("got %q after its argument was overwritten", got)
		}
	}
}

// An append in the steady state allocates nothing: only the string's own growth does, which doubles.
func TestAppendToTheSameStringAllocatesNothingButItsGrowth(t *testing.T) {
	var d Document
	uri, content := []byte("outline/0/text"), []byte("abcd")
	const pieces = 100_000
	if n := testing.AllocsPerRun(1, func() {
		for range pieces {
			if err := d.Append(uri, content); err != nil {
				t.Fatal(err)
			}
		}
	}); n > 60 {
		t.Errorf("%v allocations for %d appends", n, pieces)
	}
}

// Time is linear: elements and keys by the hundred thousand take a fraction of a second; anything
// quadratic would take minutes.
func TestDocumentOfManyPieces(t *testing.T) {
	const many = 200_000
	var d Document
	var uri []byte
	set := func(format string, i int) {
		uri = strconv.AppendInt(append(uri[:0], format...), int64(i), 10)
		if err := d.Set(uri, []byte("0")); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Set([]byte("array"), []byte("[]")); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		set("array/", i)
		set("object/", i)
	}
	text := d.AppendJSON(nil)
	if !json.Valid(text) {
		t.Error("the text is not valid JSON")
	}
	if want := bytes.Count(text, []byte("0,")); want < many {
		t.Errorf("%d elements", want)
	}
}

// A delta of a deep document costs no more than its uri does: the way that it shares with the delta before is not gone
// again. Going it each time would take a hundred times as long.
func TestDocumentOfManyDeepArrays(t *testing.T) {
	var d Document
	if err := d.Set(nil, []byte("[]")); err != nil {
		t.Fatal(err)
	}
	const deep = maxDocumentDepth
	for i := range 100 {
		var uri []byte
		for level := range deep {
			if level == 0 {
				uri = strconv.AppendInt(uri, int64(i), 10)
			} else {
				uri = append(uri, "/0"...)
			}
			if err := d.Set(uri, []byte("[]")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := 100*deep*2 + 99 + 2; len(d.AppendJSON(nil)) != want {
		t.Errorf("%d bytes, want %d", len(d.AppendJSON(nil)), want)
	}
}

// checkSize compares the size that was kept up to date with one counted anew.
func checkSize(t interface {
	Errorf(string, ...any)
	Helper()
}, d *Document,
) {
	t.Helper()
	if want := d.root.size() - nodeSize + d.reserved.size() - nodeSize; d.Size() != want {
		t.Errorf("Size() = %d, counted anew %d", d.Size(), want)
	}
}

// oracle is the fold on Go's own values, with nothing shared or remembered. A value that cannot be changed at its place
// is an error.
func oracle(v any, path []string, change func(any) any) (any, error) {
	if len(path) == 0 {
		return change(v), nil
	}
	if a, ok := v.([]any); ok {
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || strconv.Itoa(i) != path[0] {
			return nil, errors.New("not an index")
		}
		a = slices.Clone(a)
		for len(a) <= i {
			a = append(a, nil)
		}
		a[i], err = oracle(a[i], path[1:], change)
		return a, err
	}
	m := map[string]any{}
	if was, ok := v.(map[string]any); ok {
		for k, v := range was {
			m[k] = v
		}
	}
	var err error
	m[path[0]], err = oracle(m[path[0]], path[1:], change)
	return m, err
}

func decodeValue(t *rapid.T, text []byte) any {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// JS-11: the fold of any deltas is what the table of their meaning gives on Go's own values.
func TestFoldOfRandomDeltasEqualsTheOracle(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "b", "c", "0", "1", "2", "3", "", "a/b", ".", "$x", "ключ", "01", "k1", "k2", "k3", "k4", "k5", "k6", "k7"})
	value := rapid.SampledFrom([]string{
		"{}", "[]", "null", "true", "1.50", "-1e9", `"s"`, `{"a":{"0":"x"}}`, `[[],{"a":1},"t"]`, ` [ 1 , 2 ] `, `{"a":1,"b":2,"a":"3"}`, `{"\u0061":"\ud83d\ude42"}`,
	})
	content := rapid.SampledFrom([]string{"", "x", "schön", `\n`, `\u0041`, `\ud83d\ude42`})
	rapid.Check(t, func(t *rapid.T) {
		var d Document
		var want any = map[string]any{}
		var path []string
		for range rapid.IntRange(0, 40).Draw(t, "deltas") {
			if !rapid.Bool().Draw(t, "same uri again") {
				path = append(path[:rapid.IntRange(0, len(path)).Draw(t, "shared")], rapid.SliceOfN(segment, 0, 3).Draw(t, "path")...)
			}
			uri := []byte(Format(path...))
			var err error
			var next any
			if rapid.Bool().Draw(t, "append") {
				c := content.Draw(t, "content")
				err = d.Append(uri, []byte(c))
				var wantErr error
				next, wantErr = oracle(want, path, func(v any) any {
					s, _ := v.(string)
					return s + decodeValue(t, []byte(`"`+c+`"`)).(string)
				})
				if (err != nil) != (wantErr != nil) {
					t.Fatalf("append to %q: %v, want %v", uri, err, wantErr)
				}
			} else {
				text := value.Draw(t, "value")
				err = d.Set(uri, []byte(text))
				var wantErr error
				next, wantErr = oracle(want, path, func(v any) any {
					if _, ok := v.(map[string]any); ok && text == "{}" {
						return v
					}
					return decodeValue(t, []byte(text))
				})
				if (err != nil) != (wantErr != nil) {
					t.Fatalf("set %q: %v, want %v", uri, err, wantErr)
				}
			}
			if err == nil {
				want = next
			}
			switch rapid.IntRange(0, 9).Draw(t, "in between") { // nothing of this may disturb the delta after it
			case 0:
				d.Get("a/b")
			case 1:
				if err := d.Append([]byte(Format(path...)+"/$r/x"), []byte("y")); len(path) > 0 && err != nil {
					t.Fatal(err)
				}
			}
			text := d.AppendJSON(nil)
			if diff := cmp.Diff(want, decodeValue(t, text)); diff != "" {
				t.Fatalf("after %q: %s", uri, diff)
			}
			checkSize(t, &d)
		}
		// Everything that a walk visits, Get finds, and what is deleted is gone.
		for uri, value := range d.Walk {
			if got, ok := d.Get(uri); !ok || !bytes.Equal(got, value) {
				t.Fatalf("Get(%q) = %s, %v; the walk gave %s", uri, got, ok, value)
			}
		}
		var uris []string
		for uri := range d.Walk {
			uris = append(uris, uri)
		}
		uri := rapid.SampledFrom(uris).Draw(t, "deleted")
		if !d.Delete(uri) {
			t.Fatalf("Delete(%q) found nothing", uri)
		}
		checkSize(t, &d)
	})
}

// Whatever comes, the document does not panic and stays JSON. The input is lines of an operation, a uri and a value.
func FuzzDocument(f *testing.F) {
	f.Add("+a\tx\n+a\ty\n=b\t[]\n=b/3\t{\"a\":1}\n-b/0\t")
	f.Add("=\t[1,2]\n=0\tnull\n+$t/0\tq\n=a\t1")
	f.Add("=a\t{\"k\":[{}, \"\\u0041\", -1.5e3]}\n+a/k/1\t\\n\n-a/k\t\n+a/k/1\tx")
	f.Fuzz(func(t *testing.T, script string) {
		var d Document
		for line := range strings.SplitSeq(script, "\n") {
			if line == "" {
				continue
			}
			uri, value, _ := strings.Cut(line[1:], "\t")
			before := d.AppendJSON(nil)
			var err error
			switch line[0] {
			case '+':
				err = d.Append([]byte(uri), []byte(value))
			case '=':
				err = d.Set([]byte(uri), []byte(value))
			case '-':
				d.Delete(uri)
			}
			text := d.AppendJSON(nil)
			if err != nil && !bytes.Equal(text, before) {
				t.Fatalf("an error, %v, has changed %s to %s", err, before, text)
			}
			if !json.Valid(text) {
				t.Fatalf("not JSON: %q", text)
			}
			if beside := d.AppendReserved(nil); !json.Valid(beside) {
				t.Fatalf("not JSON: %q", beside)
			}
			checkSize(t, &d)
		}
		d.Walk(func(uri string, value []byte) bool {
			if got, ok := d.Get(uri); !ok || !bytes.Equal(got, value) {
				t.Fatalf("Get(%q) = %s, %v; the walk gave %s", uri, got, ok, value)
			}
			return len(uri) < 1000
		})
	})
}

func BenchmarkDocumentAppendSameURI(b *testing.B) {
	var d Document
	uri, content := []byte("outline/0/text"), []byte("abcd")
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n%100_000 == 0 { // a string of the size that models write
			d.Delete("")
		}
		if err := d.Append(uri, content); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDocumentAppendAlternatingURIs(b *testing.B) {
	var d Document
	uris := [][]byte{[]byte("outline/0/text"), []byte("quiz/questions/3/answer")}
	content := []byte("abcd")
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n%100_000 == 0 {
			d.Delete("")
		}
		if err := d.Append(uris[n%2], content); err != nil {
			b.Fatal(err)
		}
	}
}
