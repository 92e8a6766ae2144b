package tape_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// A date of a query is a whole day or one moment, in UTC, which is found again when it is written.
func FuzzParseDate(f *testing.F) {
	for _, text := range []string{"2026-03-01", "2026-03-01T09:00:00Z", "2026-03-01T09:00:00.5+02:00", "2026-03-01T09:00:00", "0000-01-01", "9999-12-31", "2026-02-30", "9999-12-31T23:59:59.999999999-12:00", "tomorrow"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, last, err := tape.ParseDate(text)
		if err != nil {
			if !errors.Is(err, tape.ErrInvalid) || len(err.Error()) > 400 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if first.Location() != time.UTC || last.Before(first) || last.Sub(first) >= 24*time.Hour {
			t.Errorf("%q is from %v to %v", text, first, last)
		}
		if !last.Equal(first) && (first.Format(time.DateOnly) != text || last.Format(time.DateOnly) != text) {
			t.Errorf("the day %q is from %v to %v", text, first, last)
		}
		if year := first.Year(); last.Equal(first) && 0 <= year && year <= 9999 {
			if again, _, err := tape.ParseDate(first.Format(time.RFC3339Nano)); err != nil || !again.Equal(first) {
				t.Errorf("%q is %v, which is read as %v: %v", text, first, again, err)
			}
		}
	})
}
