package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAProfileHasWhatWasRun(t *testing.T) {
	got, err := parseProfile(strings.NewReader("mode: set\nm/a.go:1.2,3.4 5 1\nm/a.go:4.1,5.2 1 0\nm/b.go:10.20,11.3 2 7\nm/a.go:4.1,5.2 1 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := profile{{"m/a.go", 1, 2, "3.4"}: true, {"m/b.go", 10, 20, "11.3"}: true}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(block{})); diff != "" {
		t.Error(diff)
	}
	if got, err := parseProfile(strings.NewReader("mode: atomic\n")); err != nil || len(got) != 0 {
		t.Errorf("of code that is not run: %v, %v", got, err)
	}
}

func TestWhatIsNoProfileIsAnErrorThatNamesTheLine(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing":         {"", "line 1: \"\""},
		"without a mode":  {"m/a.go:1.2,3.4 5 1\n", "line 1"},
		"a word too many": {"mode: set\nm/a.go:1.2,3.4 5 1 1\n", "line 2"},
		"a word too few":  {"mode: set\nm/a.go:1.2,3.4 5 1\nm/a.go:1.2,3.4 1\n", "line 3"},
		"no file":         {"mode: set\n1.2,3.4 5 1\n", "line 2"},
		"no end":          {"mode: set\nm/a.go:1.2 5 1\n", "line 2"},
		"no column":       {"mode: set\nm/a.go:1,3.4 5 1\n", "line 2"},
		"no line":         {"mode: set\nm/a.go:x.2,3.4 5 1\n", "line 2"},
		"no count":        {"mode: set\nm/a.go:1.2,3.4 5 x\n", "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseProfile(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v; want an error with %q", got, err, test.want)
			}
		})
	}
}

func TestFewInputsAreChosenThatReachAllThatAnyDoes(t *testing.T) {
	// A letter is a block, in the order of the alphabet.
	of := func(letters string) profile {
		p := profile{}
		for _, l := range letters {
			p[block{file: "m/a.go", line: int(l)}] = true
		}
		return p
	}
	for name, test := range map[string]struct {
		before string
		inputs []string
		most   int
		want   string // input and its first letter
	}{
		"none without inputs":                  {"ab", nil, 8, ""},
		"none where all is reached":            {"abc", []string{"a", "bc", ""}, 8, ""},
		"the one that reaches most":            {"a", []string{"b", "abcd", "cd"}, 8, "1b"},
		"of two that reach as much, the first": {"", []string{"x", "ab", "cd"}, 1, "1a"},
		"no more than is said":                 {"", []string{"a", "b", "c"}, 2, "0a 1b"},
		// At first 1 reaches more than 2, and nothing more behind 0.
		"by what is left":                           {"z", []string{"abcdz", "abc", "ef"}, 8, "0a 2e"},
		"the first is of what none before it does":  {"", []string{"bcde", "abcz"}, 8, "0b 1a"},
		"twice the same is once":                    {"a", []string{"ab", "ab"}, 8, "0b"},
		"what was there before counts for nothing":  {"abcdef", []string{"abcdef", "ag"}, 8, "1g"},
		"those that are left out may share the end": {"", []string{"ab", "bc", "ac"}, 8, "0a 1c"},
	} {
		t.Run(name, func(t *testing.T) {
			var inputs []profile
			for _, letters := range test.inputs {
				inputs = append(inputs, of(letters))
			}
			var got []string
			for _, c := range choose(of(test.before), inputs, test.most) {
				got = append(got, string(rune('0'+c.input))+string(rune(c.first.line)))
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestTheFirstBlockIsThatNextToTheTop(t *testing.T) {
	blocks := []block{{"m/a.go", 9, 1, "9.2"}, {"m/a.go", 10, 2, "11.1"}, {"m/a.go", 10, 10, "11.1"}, {"m/b.go", 1, 1, "2.2"}, {"m/b.go", 1, 1, "2.3"}}
	for i, a := range blocks {
		for j, b := range blocks {
			if got := a.compare(b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%v and %v: %d", a, b, got)
			}
		}
	}
}

// source is a file with a line of each kind.
const source = `package p

import "fmt"

// F is documented.
func F() {
	fmt.Println(func() int {
		return 8
	}())
}

func (t *T[K]) Method() bool { return true }

var (
	x, y = 1, 2
	f    = func() int {
		return 17
	}
)

type T[K any] struct{}
`

func TestALineIsCalledAfterWhatItIsIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[int]string{6: "F", 8: "F", 10: "F", 12: "Method", 15: "x", 17: "f"} {
		if got, err := function(file, line); err != nil || got != want {
			t.Errorf("line %d: got %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []int{1, 11, 21, 100} {
		if got, err := function(file, line); err == nil {
			t.Errorf("line %d: got %q", line, got)
		}
	}
	if _, err := function(file+"x", 1); err == nil {
		t.Error("a file that is not there is no error")
	}
}

func TestALineForEachInputToKeep(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"root/sub/p.go": source,
		"before":        "mode: set\nexample.org/m/sub/p.go:6.10,7.2 1 1\nexample.org/m/sub/p.go:12.30,12.40 1 0\n",
		"profiles/one":  "mode: set\nexample.org/m/sub/p.go:6.10,7.2 1 1\nexample.org/m/sub/p.go:12.30,12.40 1 1\n",
		"profiles/two":  "mode: set\nexample.org/m/sub/p.go:7.25,9.3 1 1\nexample.org/m/sub/p.go:16.18,18.3 1 1\n",
		"profiles/same": "mode: set\nexample.org/m/sub/p.go:16.18,18.3 1 1\n",
		"foreign":       "mode: set\nexample.org/other/p.go:16.18,18.3 1 1\n",
		"bad":           "mode: set\nx\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	args := []string{"-root", "root", "-module", "example.org/m"}
	if err := run(append(args, "before", "profiles/one", "profiles/same", "profiles/two"), &out); err != nil {
		t.Fatal(err)
	}
	if want := "two F sub/p.go:7\none Method sub/p.go:12\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"nothing named":  {nil, "BEFORE"},
		"no such file":   {[]string{"before", "profiles/none"}, "none"},
		"no profile":     {[]string{"before", "bad"}, "bad: line 2"},
		"of another one": {[]string{"before", "foreign"}, "example.org/other/p.go"},
	} {
		if err := run(append(args, test.args...), &out); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
}
