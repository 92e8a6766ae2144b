package wire

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"
	"pgregory.net/rapid"
)

// Reading through lines gives the events that go-sse gives without it, whatever the stream and however it is cut.
func TestLinesChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{
			"\n", "\n", "\n\n", "\r", "\r\n", "\r\n\r\n", "\r\r", ":", ": a comment", "data: ", "data:", "data", "event: x", "id: 1", "x", "y y",
		}), 0, 40).Draw(t, "words")
		// A byte order mark counts at the start only; after comments, which are dropped, it would be taken for one.
		stream := rapid.SampledFrom([]string{"", "\ufeff"}).Draw(t, "bom") + strings.Join(words, "")
		want := read(strings.NewReader(stream))
		for name, r := range map[string]io.Reader{
			"at once":       strings.NewReader(stream),
			"byte by byte":  iotest.OneByteReader(strings.NewReader(stream)),
			"halves":        iotest.HalfReader(strings.NewReader(stream)),
			"with the end":  iotest.DataErrReader(strings.NewReader(stream)),
			"drawn lengths": &drawn{t, stream},
		} {
			if diff := cmp.Diff(want, read(&lines{r: r})); diff != "" {
				t.Fatalf("%s: %q: -want +got\n%s", name, stream, diff)
			}
		}
		// Buffers that are full after every byte, or every second, as a large event's are at times.
		for name, r := range map[string]io.Reader{
			"bytes": iotest.OneByteReader(&lines{r: strings.NewReader(stream)}),
			"pairs": &pairs{&lines{r: strings.NewReader(stream)}},
		} {
			if diff := cmp.Diff(want, read(r)); diff != "" {
				t.Fatalf("full %s: %q: -want +got\n%s", name, stream, diff)
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
	n := copy(p[:min(len(p), rapid.IntRange(0, 9).Draw(d.t, "n"))], d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

type pairs struct{ r io.Reader }

func (r *pairs) Read(p []byte) (int, error) { return r.r.Read(p[:min(len(p), 2)]) }

func read(r io.Reader) []string {
	var events []string
	for e, err := range sse.Read(r, nil) {
		if err != nil {
			return append(events, "error: "+err.Error())
		}
		events = append(events, e.Type+"|"+e.LastEventID+"|"+e.Data)
	}
	return events
}

// An event is handed on as soon as it is there, whatever comes after it.
func TestAnEventIsNotHeldBack(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r", "\n\r\n"} {
		pr, pw := io.Pipe()
		done := make(chan string)
		go func() {
			for e := range sse.Read(&lines{r: pr}, nil) {
				done <- e.Data
			}
			close(done)
		}()
		for _, part := range []string{": c\n", "da", "ta: x", end[:1], end[1:]} {
			io.WriteString(pw, part)
		}
		if got := <-done; got != "x" { // would never come
			t.Errorf("%q: %q", end, got)
		}
		io.WriteString(pw, "data: y"+end)
		if got := <-done; got != "y" {
			t.Errorf("%q: %q", end, got)
		}
		pw.Close()
		if got, more := <-done; more {
			t.Errorf("%q: %q", end, got)
		}
	}
}

func TestAReaderWithoutProgressIsGivenUp(t *testing.T) {
	if n, err := (&lines{r: stuck{}}).Read(make([]byte, 10)); n != 0 || err != io.ErrNoProgress {
		t.Errorf("%d, %v", n, err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }
