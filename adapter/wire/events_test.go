package wire

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"
	"pgregory.net/rapid"
)

type event struct{ Type, Data string }

// readEvents returns the events of a stream that have data.
func readEvents(r io.Reader, maxEvent int) (events []event, failure error) {
	stream := NewEvents(r, maxEvent)
	for {
		kind, data, err := stream.Next()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		if len(data) > 0 {
			events = append(events, event{string(kind), string(data)})
		}
	}
}

func readByGoSSE(r io.Reader) (events []event, failure error) {
	for e, err := range sse.Read(r, &sse.ReadConfig{MaxEventSize: 1 << 20}) {
		if err != nil {
			return events, err
		}
		if e.Data != "" {
			events = append(events, event{e.Type, e.Data})
		}
	}
	return events, nil
}

// AD-02: whatever a stream is made of and however it is cut, its events are those that go-sse finds.
func TestEventsAreThoseOfGoSSE(t *testing.T) {
	line := rapid.OneOf(
		rapid.Just(`data: {"a":1}`), rapid.Just("data:x"), rapid.Just("data"), rapid.Just("data:"), rapid.Just("data: "),
		rapid.Just(": ping"), rapid.Just(":"), rapid.Just("event: error"), rapid.Just("event:message.delta"), rapid.Just("event"), rapid.Just("events: 1"), rapid.Just("id: 7"), rapid.Just("retry: 9"),
		rapid.Just(""), rapid.Just(""), rapid.Just(""), rapid.Just("dat"), rapid.Just("datum: 1"),
		rapid.Just("data: "+strings.Repeat("long ", 900)), rapid.Just(": "+strings.Repeat("wait ", 900)),
	)
	rapid.Check(t, func(t *rapid.T) {
		usual := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "usual end")
		end := rapid.SampledFrom(append(slices.Repeat([]string{usual}, 10), "\n", "\r\n", "\r"))
		var text strings.Builder
		text.WriteString(rapid.SampledFrom([]string{"", "", "\ufeff"}).Draw(t, "byte order mark"))
		for range rapid.IntRange(1, 40).Draw(t, "lines") {
			text.WriteString(line.Draw(t, "line"))
			text.WriteString(end.Draw(t, "end"))
		}
		text.WriteString(rapid.SampledFrom([]string{"", "", "data: cut", ": cut"}).Draw(t, "rest"))
		want, wantErr := readByGoSSE(strings.NewReader(text.String()))
		for name, r := range everyCut(text.String()) {
			got, err := readEvents(r, 1<<20)
			if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
				t.Fatalf("%s: %q: %v, want %v\n%s", name, text.String(), err, wantErr, diff)
			}
		}
	})
}

// everyCut returns readers of a text that give it in different pieces.
func everyCut(text string) map[string]io.Reader {
	return map[string]io.Reader{
		"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
		"halves": iotest.HalfReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text)),
	}
}

// An event is returned as soon as it is complete, whatever comes after it.
func TestEventIsNotDelayed(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r", "\n\r\n"} {
		pr, pw := io.Pipe()
		got := make(chan string)
		go func() {
			stream := NewEvents(pr, 1<<10)
			for {
				_, data, err := stream.Next()
				if err != nil {
					close(got)
					return
				}
				got <- string(data)
			}
		}()
		for _, part := range []string{": c\n", "da", "ta: x", end[:1], end[1:]} {
			io.WriteString(pw, part)
		}
		if data := <-got; data != "x" {
			t.Errorf("%q: %q", end, data)
		}
		io.WriteString(pw, "data: y"+end)
		if data := <-got; data != "y" {
			t.Errorf("%q: %q", end, data)
		}
		pw.Close()
		if data, more := <-got; more {
			t.Errorf("%q: %q", end, data)
		}
	}
}

func TestEventsEndWithTheErrorOfTheReader(t *testing.T) {
	reset := errors.New("reset")
	for name, row := range map[string]struct {
		text string
		max  int
		rest io.Reader
		want error
	}{
		"between events":  {"data: 1\n\n", 1 << 10, iotest.ErrReader(reset), reset},
		"within an event": {"data: 1\n\ndata: 2\n", 1 << 10, iotest.ErrReader(reset), reset},
		"within a line":   {"data: 1\n\ndata: 2", 1 << 10, strings.NewReader(""), io.ErrUnexpectedEOF},
		"no progress":     {"data: 1\n\n", 1 << 10, stuck{}, io.ErrNoProgress},
		"a long event":    {"data: 1\n\n", 4 << 10, strings.NewReader("data: " + strings.Repeat("x", 4<<10) + "\n\n"), bufio.ErrTooLong},
		"many lines":      {"data: 1\n\n", 4 << 10, strings.NewReader(strings.Repeat("data: x\n", 1<<12) + "\n\n"), bufio.ErrTooLong},
	} {
		events, err := readEvents(io.MultiReader(strings.NewReader(row.text), row.rest), row.max)
		if len(events) != 1 || err != row.want {
			t.Errorf("%s: %v, %v", name, events, err)
		}
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }
