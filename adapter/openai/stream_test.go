package openai

import (
	"path/filepath"
	"testing"

	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/rogpeppe/go-internal/txtar"
)

func FuzzStream(f *testing.F) {
	var seeds [][]byte
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range archive.Files {
			if section.Name == "stream" && len(section.Data) < 4096 {
				seeds = append(seeds, section.Data)
			}
		}
	}
	adaptertest.Fuzz(f, subject, seeds...)
}
