package tape

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestADateIsReadAsTheStandardLibraryReadsIt(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := []byte(time.UnixMicro(rapid.Int64Range(-62_135_596_800_000_000, 253_402_300_799_999_999).Draw(r, "µs")).UTC().Format(dateLayout))
		for range rapid.IntRange(0, 2).Draw(r, "changes") {
			text[rapid.IntRange(0, len(text)-1).Draw(r, "at")] = rapid.SampledFrom([]byte("0123459 -:.TZ+/")).Draw(r, "byte")
		}
		got, err := parseDate(text)
		want, wantErr := time.Parse(dateLayout, string(text))
		if (err == nil) != (wantErr == nil) || err == nil && (!got.Equal(want) || got.Location() != want.Location()) {
			r.Errorf("%s: %v, %v; expected %v, %v", text, got, err, want, wantErr)
		}
	})
}
