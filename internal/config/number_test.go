package config

import (
	"fmt"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/yaml"
)

// A size or a time that is taken is written so that it is read as the same, and is never less than nothing: a number that is too large
// for its unit is refused, and does not turn over.
func FuzzSizesAndTimes(f *testing.F) {
	for _, text := range []string{"512KiB", "8 MiB", "9223372036854775807", "9007199254740992KiB", "1GB", "-1B", "+1", "B", "1h0m", "90s", "1.5h", "-0s", "2562047h47m16s", "1µs"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if size, err := sizeOf(text); err == nil {
			if again, err := sizeOf(fmt.Sprint(size)); err != nil || again != size || size < 0 {
				t.Errorf("%q is %v, which is read as %v: %v", text, size, again, err)
			}
		}
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			if same, err := time.ParseDuration(yaml.FormatDuration(d)); err != nil || same != d {
				t.Errorf("%q is %v, which is read as %v: %v", text, yaml.FormatDuration(d), same, err)
			}
		}
	})
}

func sizeOf(text string) (s Size, err error) {
	err = s.UnmarshalText([]byte(text))
	return s, err
}
