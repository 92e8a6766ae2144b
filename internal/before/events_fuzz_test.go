package before

import (
	"os"
	"path/filepath"
	"testing"
)

// What is in a segment was written by an earlier version, but a disk may have changed it.
func FuzzRecordsOfAnyBytes(f *testing.F) { // CH-71
	names, err := filepath.Glob("testdata/*/journal/*.events")
	if err != nil || len(names) != 2 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(text[:len(text)-100])
		f.Add(append(make([]byte, align), text...))
	}
	f.Add([]byte("Lev1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for offset := 0; offset+headSize <= len(text); {
			e, size, ok := parseEvent(text[offset:])
			if !ok {
				offset += align
				continue
			}
			if size < headSize || size%align != 0 || len(e.Raw) > size-headSize || e.Settled && e.Raw != nil {
				t.Fatalf("a record at %d of %d bytes: %+v", offset, size, e)
			}
			offset += size
		}
	})
}
