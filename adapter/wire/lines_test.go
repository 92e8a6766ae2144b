package wire

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// readLines returns the lines of a reader, and what ended them. A last line without an end has a "~" behind it.
func readLines(r io.Reader, maxLine int) (all []string, err error) {
	lines := NewLines(r, maxLine)
	for {
		line, ended, err := lines.Next()
		switch {
		case err != nil:
			return all, err
		case ended:
			all = append(all, string(line))
		default:
			all = append(all, string(line)+"~")
		}
	}
}

func TestLinesAreTheSameHoweverTheyArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"\n", "\n", "\n", "\r\n", " ", "\t", "a", "bc", "{}", strings.Repeat("x", 700), strings.Repeat("long", 1100), "é",
		}), 0, 40).Draw(t, "words"), "")
		var want []string
		for line := range strings.Lines(text) {
			trimmed := strings.TrimSpace(line)
			if trimmed != "" && !strings.HasSuffix(line, "\n") {
				trimmed += "~"
			}
			if trimmed != "" {
				want = append(want, trimmed)
			}
		}
		for name, r := range everyCut(text) {
			got, err := readLines(r, 1<<20)
			if diff := cmp.Diff(want, got); diff != "" || err != io.EOF {
				t.Fatalf("%s: %q: %v -want +got\n%s", name, text, err, diff)
			}
		}
	})
}

func TestLinesHaveALimit(t *testing.T) {
	for _, limit := range []int{1, 10, 1000, minBuffer, 3 * minBuffer, 64 << 10} {
		for name, row := range map[string]struct {
			text string
			err  error
		}{
			"as long as allowed":            {strings.Repeat("x", limit) + "\r\n", io.EOF},
			"as long as allowed, no end":    {strings.Repeat("x", limit), io.EOF},
			"one byte more":                 {strings.Repeat("x", limit+1) + "\n", bufio.ErrTooLong},
			"one byte more, no end":         {strings.Repeat("x", limit+1), bufio.ErrTooLong},
			"far more":                      {strings.Repeat("x", 10*limit+64<<10), bufio.ErrTooLong},
			"a long one behind short ones":  {strings.Repeat("x\n", limit) + strings.Repeat("x", limit+1) + "\n", bufio.ErrTooLong},
			"two as long as allowed":        {strings.Repeat("x", limit) + "\n" + strings.Repeat("y", limit) + "\n", io.EOF},
			"more blank lines than allowed": {strings.Repeat("\n", 10*limit), io.EOF},
		} {
			for _, r := range []io.Reader{strings.NewReader(row.text), iotest.HalfReader(strings.NewReader(row.text))} {
				if all, err := readLines(r, limit); err != row.err {
					t.Errorf("%d, %s: %d lines, %v", limit, name, len(all), err)
				}
			}
		}
	}
}

func TestLinesEndWithTheErrorOfTheReader(t *testing.T) {
	reset := errors.New("reset")
	for name, row := range map[string]struct {
		r    io.Reader
		want []string
		err  error
	}{
		"behind a line": {io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(reset)), []string{"a"}, reset},
		"within a line": {io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(reset)), []string{"a", "b~"}, reset},
		"white space":   {io.MultiReader(strings.NewReader("a\n \r"), iotest.ErrReader(reset)), []string{"a"}, reset},
		"no progress":   {stuck{}, nil, io.ErrNoProgress},
	} {
		got, err := readLines(row.r, 100)
		if diff := cmp.Diff(row.want, got); diff != "" || err != row.err {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}
