package config

import (
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
)

// finishFiles checks the elements of lists.
func (l *loader) finishFiles() {
	for _, text := range l.c.Media {
		if _, err := adapter.ParseMediaRule(text); err != nil {
			l.wrong("media", "%v", err)
		}
	}
	known := append(adapter.MediaKinds(), "text")
	for _, kind := range l.c.Files.Types {
		if !slices.Contains(known, kind) {
			l.wrong("files.types", "%q is no type of files; expected %s", kind, strings.Join(known, ", "))
		}
	}
}
