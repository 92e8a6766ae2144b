package wire

import (
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

type readEvent struct{ Type, Data string }

// inPlace reads a stream as answers are read: what is plain in place, the rest by go-sse.
func inPlace(r io.Reader) (events []readEvent, plain int, failure error) {
	f := NewFrames(r)
	for {
		event, data, ok := f.Next()
		if !ok {
			break
		}
		if len(data) > 0 { // go-sse has events without data, which nobody looks at
			events = append(events, readEvent{Type: string(event), Data: string(data)})
		}
		plain++
	}
	rest, err := viaGoSSE(Lines(f.Remaining()))
	return append(events, rest...), plain, err
}

func viaGoSSE(r io.Reader) (events []readEvent, failure error) {
	for e, err := range sse.Read(r, &sse.ReadConfig{MaxEventSize: 1 << 20}) {
		if err != nil {
			return events, err
		}
		if e.Data != "" {
			events = append(events, readEvent{e.Type, e.Data})
		}
	}
	return events, nil
}

// AD-02: whatever a stream is made of and however it is cut, reading in place finds the events that go-sse finds.
func TestReadingInPlaceFindsTheSameEvents(t *testing.T) {
	line := rapid.OneOf(
		rapid.Just(`data: {"a":1}`), rapid.Just("data:x"), rapid.Just("data"), rapid.Just("data:"), rapid.Just("data: "),
		rapid.Just(": ping"), rapid.Just(":"), rapid.Just("event: error"), rapid.Just("event:message.delta"), rapid.Just("event"), rapid.Just("events: 1"), rapid.Just("id: 7"), rapid.Just("retry: 9"),
		rapid.Just(""), rapid.Just(""), rapid.Just(""), rapid.Just("dat"), rapid.Just("datum: 1"),
		rapid.Just("data: "+strings.Repeat("long ", 900)), rapid.Just(": "+strings.Repeat("wait ", 900)),
	)
	rapid.Check(t, func(t *rapid.T) {
		usual := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "usual end")
		end := rapid.SampledFrom(append(slices.Repeat([]string{usual}, 10), "\n", "\r\n", "\r"))
		var text strings.Builder
		for range rapid.IntRange(0, 40).Draw(t, "lines") {
			text.WriteString(line.Draw(t, "line"))
			text.WriteString(end.Draw(t, "end"))
		}
		text.WriteString(rapid.SampledFrom([]string{"", "", "data: cut", ": cut"}).Draw(t, "rest"))
		want, wantErr := viaGoSSE(strings.NewReader(text.String()))
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(text.String()), "byte by byte": iotest.OneByteReader(strings.NewReader(text.String())),
			"halves": iotest.HalfReader(strings.NewReader(text.String())), "with its end": iotest.DataErrReader(strings.NewReader(text.String())),
		} {
			got, _, err := inPlace(r)
			if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
				t.Fatalf("%s: %q: %v, want %v\n%s", name, text.String(), err, wantErr, diff)
			}
		}
	})
}

func TestPlainEventsAreReadInPlaceAndTheRestIsNot(t *testing.T) {
	const plain = "data: 1\n\n: wait\n\ndata: 2\n\n\n:\ndata:3\n\n"
	for name, c := range map[string]struct {
		text  string
		plain int
	}{
		"all":                   {plain, 3},
		"event fields":          {plain + "event: x\ndata: 4\n\nevent:y\ndata:5\n\n" + plain, 8},
		"a late event field":    {plain + "data: 4\nevent: x\n\ndata: 5\n\n", 3},
		"two event fields":      {plain + "event: x\nevent: y\ndata: 4\n\n", 3},
		"an event field alone":  {plain + "event: x\n\ndata: 4\n\n", 3},
		"a comment in an event": {plain + "event: x\n: wait\ndata: 4\n\n", 3},
		"two lines":             {plain + "data: 4\ndata: 5\n\ndata: 6\n\n", 3},
		"CR LF, as Google's":    {strings.ReplaceAll(plain+"event: x\ndata: 4\n\n", "\n", "\r\n"), 4},
		"CR":                    {strings.ReplaceAll(plain, "\n", "\r"), 0},
		"a CR in a line":        {plain + "data: 4\r5\n\n", 3},
		"a BOM":                 {"\ufeff" + plain, 0},
		"a large one":           {plain + "data: " + strings.Repeat("x", maxFrames) + "\n\n" + plain, 3},
	} {
		t.Run(name, func(t *testing.T) {
			events, n, err := inPlace(strings.NewReader(c.text))
			want, _ := viaGoSSE(strings.NewReader(c.text))
			if diff := cmp.Diff(want, events); diff != "" || n != c.plain || err != nil {
				t.Errorf("%d in place, %v\n%s", n, err, diff)
			}
		})
	}
}

func TestAnErrorOfTheConnectionIsHandedOn(t *testing.T) {
	broken := errors.New("reset")
	for text, want := range map[string]error{"data: 1\n\n": broken, "data: 1\n\n: half a": nil, "data: 1\n\ndata: 2": nil} {
		events, n, err := inPlace(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)))
		// Of a line that was cut off go-sse says just that.
		if len(events) != 1 || n != 1 || err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%q: %v, %d in place, %v", text, events, n, err)
		}
	}
}
