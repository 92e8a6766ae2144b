package ollama

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// read returns the lines of a reader, and what ended them; a last line without an end has a "~" put after it.
func read(r io.Reader, limit int) (all []string, err error) {
	l := lines{r: r, max: limit}
	for {
		line, whole, err := l.next()
		switch {
		case err != nil:
			return all, err
		case whole:
			all = append(all, string(line))
		default:
			all = append(all, string(line)+"~")
		}
	}
}

// Whatever a stream is made of and however it is cut, its lines are those that strings.Lines finds.
func TestLinesAreTheSameHoweverTheyArrive(t *testing.T) {
	const limit = 9000
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"\n", "\n", "\n", "\r\n", " ", "\t", "a", "bc", "{}", strings.Repeat("x", 700), strings.Repeat("long", 1100), "é",
		}), 0, 40).Draw(t, "words"), "")
		var want []string
		for line := range strings.Lines(text) {
			trimmed := strings.TrimSpace(line)
			if trimmed == "" {
				continue
			}
			if !strings.HasSuffix(line, "\n") {
				trimmed += "~"
			}
			want = append(want, trimmed)
		}
		tooLong := false
		for line := range strings.Lines(text) {
			tooLong = tooLong || len(line) > limit
		}
		for name, r := range map[string]io.Reader{
			"at once":       strings.NewReader(text),
			"byte by byte":  iotest.OneByteReader(strings.NewReader(text)),
			"halves":        iotest.HalfReader(strings.NewReader(text)),
			"with the end":  iotest.DataErrReader(strings.NewReader(text)),
			"drawn lengths": &drawn{t, text},
		} {
			got, err := read(r, limit)
			if tooLong {
				if err != errLong && err != io.EOF { // white space is not counted where it is seen in time
					t.Fatalf("%s: %v", name, err)
				}
				continue
			}
			if diff := cmp.Diff(want, got); diff != "" || err != io.EOF {
				t.Fatalf("%s: %q: %v -want +got\n%s", name, text, err, diff)
			}
		}
	})
}

type drawn struct {
	t    *rapid.T
	rest string
}

func (d *drawn) Read(p []byte) (int, error) {
	if d.rest == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), rapid.IntRange(0, 5000).Draw(d.t, "n"))], d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func TestALineIsHandedOutAsSoonAsItIsThere(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	l := lines{r: r, max: 100}
	for _, text := range []string{"a\n", "b\n"} {
		go io.WriteString(w, text) // ends when the line is read
		if line, whole, err := l.next(); string(line)+"\n" != text || !whole || err != nil {
			t.Errorf("%q %v %v", line, whole, err)
		}
	}
}

func TestLinesHaveALimit(t *testing.T) {
	for _, limit := range []int{1, 10, 1000, minLines, 3 * minLines, maxIdle} {
		for name, row := range map[string]struct {
			text string
			err  error
		}{
			"just":                   {strings.Repeat("x", limit) + "\r\n", io.EOF},
			"just, without an end":   {strings.Repeat("x", limit), io.EOF},
			"one more":               {strings.Repeat("x", limit+1) + "\n", errLong},
			"one more, no end":       {strings.Repeat("x", limit+1), errLong},
			"far more":               {strings.Repeat("x", 10*limit+maxIdle), errLong},
			"after lines that are":   {strings.Repeat("x\n", limit) + strings.Repeat("x", limit+1) + "\n", errLong},
			"and lines after it":     {strings.Repeat("x", limit) + "\n" + strings.Repeat("y", limit) + "\n", io.EOF},
			"blank lines without it": {strings.Repeat("\n", 10*limit), io.EOF},
		} {
			for _, r := range []io.Reader{strings.NewReader(row.text), iotest.HalfReader(strings.NewReader(row.text))} {
				if all, err := read(r, limit); err != row.err {
					t.Errorf("%d, %s: %d lines, %v", limit, name, len(all), err)
				}
			}
		}
	}
}

// A buffer that a large line has made is not kept for the small ones after it.
func TestALargeBufferIsGivenBack(t *testing.T) {
	l := lines{r: iotest.HalfReader(io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)+"\n"), strings.NewReader("a\n"), strings.NewReader("b\n"))), max: 4 << 20}
	for i, want := range []int{1 << 20, 1, 1} {
		if line, _, err := l.next(); len(line) != want || err != nil {
			t.Fatalf("%d: %d %v", i, len(line), err)
		}
	}
	if len(l.buf) > maxIdle {
		t.Errorf("%d bytes kept", len(l.buf))
	}
}

func TestWhatEndsAStreamIsHandedOn(t *testing.T) {
	broken := errors.New("reset")
	for name, row := range map[string]struct {
		r    io.Reader
		want []string
		err  error
	}{
		"after a line":       {io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(broken)), []string{"a"}, broken},
		"in a line":          {io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), []string{"a", "b~"}, broken},
		"in white space":     {io.MultiReader(strings.NewReader("a\n \r"), iotest.ErrReader(broken)), []string{"a"}, broken},
		"no progress at all": {stuck{}, nil, io.ErrNoProgress},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(row.r, 100)
			if diff := cmp.Diff(row.want, got); diff != "" || err != row.err {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// Any bytes: every line is found, none is longer than allowed.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n c"), 2)
	f.Add([]byte("~\n"), 8142)
	f.Add(bytes.Repeat([]byte("xy"), 3000), 4000)
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		limit = 1 + int(uint(limit)%(8<<10))
		l := lines{r: iotest.HalfReader(bytes.NewReader(text)), max: limit}
		var found []byte
		for {
			line, _, err := l.next()
			if err == errLong {
				return
			} else if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if len(line) > limit {
				t.Fatalf("a line of %d bytes", len(line))
			}
			found = append(append(found, line...), '\n')
		}
		var want []byte
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				want = append(append(want, line...), '\n')
			}
		}
		if !bytes.Equal(found, want) {
			t.Fatalf("%q, want %q", found, want)
		}
	})
}
