package cli

import (
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var same = cmp.AllowUnexported(key{})

func TestKeysAreRead(t *testing.T) {
	for _, test := range []struct {
		name, bytes string
		want        []key
	}{
		{"text", "héllo 你好", []key{{keyText, "héllo 你好"}}},
		{"enter", "a\rb\r\nc\n", []key{{keyText, "a"}, {name: keyEnter}, {keyText, "b"}, {name: keyEnter}, {keyText, "c"}, {name: keyEnter}}},
		{"control keys", "\x01\x03\x04\x0b\x0c\x17\x7f", []key{{name: keyHome}, {name: keyCancel}, {name: keyEOF}, {name: keyDeleteToEnd}, {name: keyClear}, {name: keyDeleteWord}, {name: keyBackspace}}},
		{"arrows of both kinds", "\x1b[A\x1bOB", []key{{name: keyUp}, {name: keyDown}}},
		{"words", "\x1bb\x1b[1;5C\x1b\x7f", []key{{name: keyWordLeft}, {name: keyWordRight}, {name: keyDeleteWord}}},
		{"a row within the line", "\x1b\r", []key{{name: keyNewline}}},
		{"a key that means nothing", "\x1b[15~\x1b[1;2Px\x00", []key{{keyText, "x"}}},
		{"the key Esc", "\x1b", nil},
		{"a paste is one key", "\x1b[200~one\rtwo\r\n\tthree\x1b[31m\x03\x1b[201~!", []key{{keyPaste, "one\ntwo\n\tthree[31m"}, {keyText, "!"}}},
		{"bytes that are no text", "a\xffb", []key{{keyText, "ab"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var k keys
			if d := cmp.Diff(test.want, k.read([]byte(test.bytes), false), same); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestKeysMayBeCutAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"a", "é", "你好", "\r", "\x1b[A", "\x1b[1;5D", "\x1bOC", "\x03", "\t", "\x1b[200~multi\rrow\x1b[201~", "\x1b[200~\x1b[20\x1b[201~", "\x1bb",
		})).Draw(t, "keys"), "")
		var whole keys
		want := joined(whole.read([]byte(text), true))
		var k keys
		var got []key
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			got = append(got, k.read([]byte(rest[:n]), true)...)
			rest = rest[n:]
		}
		if d := cmp.Diff(want, joined(got), same); d != "" {
			t.Fatalf("-whole +cut:\n%s", d)
		}
	})
}

// joined are keys of which texts that follow one another are one.
func joined(list []key) (out []key) {
	for _, k := range list {
		if n := len(out); k.name == keyText && n > 0 && out[n-1].name == keyText {
			out[n-1].text += k.text
			continue
		}
		out = append(out, k)
	}
	return out
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("hello\r\x1b[A\x1b[200~x\x1b[201~"), true)
	f.Add([]byte("\x1b[\x1b[1;999999999999\xff\x03"), false)
	f.Fuzz(func(t *testing.T, data []byte, more bool) {
		var k keys
		var e editor
		for _, one := range k.read(data, more) {
			if one.name != keyText && one.name != keyPaste && one.text != "" {
				t.Fatalf("the key %d has a text", one.name)
			}
			e.press(one)
			if e.at < 0 || e.at > len(e.text) {
				t.Fatalf("the cursor is at %d of %d", e.at, len(e.text))
			}
		}
		for _, r := range e.String() {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q has a control character", e.String())
			}
		}
		if len(k.held) > len(data) || !k.pasting && len(k.held) > maxSequence {
			t.Fatalf("%d bytes are held", len(k.held))
		}
	})
}

func TestAPasteIsBounded(t *testing.T) {
	var k keys
	k.read([]byte("\x1b[200~"), false)
	for range 300 {
		k.read([]byte(strings.Repeat("x", 8<<10)), true)
	}
	got := k.read([]byte("\x1b[201~"), false)
	if len(got) != 1 || len(got[0].text) != maxPaste {
		t.Fatalf("got %d keys, expected one of %d bytes", len(got), maxPaste)
	}
}

func TestTheLineIsEdited(t *testing.T) {
	for _, test := range []struct{ name, keys, want string }{
		{"insert", "ac\x1b[Db", "ab|c"},
		{"backspace", "abc\x7f", "ab|"},
		{"a character with an accent goes as one", "xe\u0301\x7f", "x|"},
		{"delete", "abc\x01\x1b[3~", "|bc"},
		{"Ctrl-D in a line deletes", "abc\x01\x04", "|bc"},
		{"words to the left", "one two, three\x1bb\x1bb", "one |two, three"},
		{"a word away", "one two, three\x17", "one two, |"},
		{"the next word away", "one two\x01\x1bd", "| two"},
		{"to the end", "one two\x1bb\x0b", "one |"},
		{"to the beginning", "one two\x1bb\x15", "|two"},
		{"two characters change places", "ab\x14", "ba|"},
		{"up within the line", "\x1b[200~one\rtwo\x1b[201~\x1b[A", "one|\ntwo"},
		{"down within the line", "\x1b[200~one\rtwo\x1b[201~\x1b[A\x01\x1b[B", "one\n|two"},
		{"home of a row", "\x1b[200~one\rtwo\x1b[201~\x01", "one\n|two"},
		{"nothing happens at the ends", "\x7f\x1b[D\x1b[C\x1b[3~\x17\x0b\x15\x14\x1b[A\x1b[B", "|"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var k keys
			var e editor
			for _, one := range k.read([]byte(test.keys), false) {
				e.press(one)
			}
			if got := string(e.text[:e.at]) + "|" + string(e.text[e.at:]); got != test.want {
				t.Errorf("got %q, expected %q", got, test.want)
			}
		})
	}
}

func TestTheLineIsBounded(t *testing.T) {
	var e editor
	for range 3 {
		e.insert(strings.Repeat("你", maxLine/2))
	}
	if len(e.text) != maxLine || e.at != maxLine {
		t.Errorf("the line has %d characters, the cursor is at %d; expected %d", len(e.text), e.at, maxLine)
	}
}

func TestCH_161CommandsAreCompleted(t *testing.T) {
	names := []string{"help", "model", "quit", "tape.anchors", "tape.info", "tools"}
	for _, test := range []struct {
		line, want string
		several    []string
	}{
		{",q", ",quit ", nil},
		{",t", ",t", []string{"tape.anchors", "tape.info", "tools"}},
		{",ta", ",tape.", nil},
		{",tape.", ",tape.", []string{"tape.anchors", "tape.info"}},
		{"，mo", "，model ", nil},
		{",help mo", ",help model", nil},
		{",zz", ",zz", nil},
		{"hello ,q", "hello ,q", nil},
		{",model x", ",model x", nil},
		{"", "", nil},
	} {
		e := editor{}
		e.set(test.line)
		several := e.complete(names)
		if e.String() != test.want || cmp.Diff(several, test.several) != "" {
			t.Errorf("%q becomes %q with %q, expected %q with %q", test.line, e.String(), several, test.want, test.several)
		}
	}
}
