package config

import (
	"strings"

	"github.com/lingserve/lingserve/internal/edits"
)

// Nearest returns the name of known that was probably meant by a mistyped one, "" where none is near. The last part of a
// dotted name stands for the whole.
func Nearest(name string, known []string) string {
	best, most := "", min(max(2, len(name)/4), len(name)-1)
	for _, k := range known {
		if strings.EqualFold(k, name) || strings.HasSuffix(k, "."+name) {
			return k
		}
		if d := edits.Between(strings.ToLower(name), strings.ToLower(k), most); d <= most {
			best, most = k, d-1
		}
	}
	return best
}
