package config

import (
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/adapter"
)

// Files bounds what callers upload, and what models make.
type Files struct {
	MaxSize   Size
	MaxCount  int  // of one caller
	MaxBytes  Size // of one caller
	Retention time.Duration
	Types     []string
}

var filesSettings = []Setting{
	{
		Key: "files.max_size", Default: "16MiB", Min: "1KiB",
		Help: "maximum size of an upload or a model's image or sound; at most half of limit.bodies",
	},
	{Key: "files.max_count", Default: "1000", Min: "1", Help: "files of a caller"},
	{Key: "files.max_bytes", Default: "256MiB", Min: "1KiB", Help: "bytes of a caller's files"},
	{Key: "files.retention", Default: "168h", Min: "1ms", Help: "how long a file is kept"},
	{Key: "files.types", Default: "image,pdf,audio,text", Help: "allowed uploads: image, pdf, audio, text, file (any other)"},
}

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
