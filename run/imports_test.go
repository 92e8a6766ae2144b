package run

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// RU-40: package run knows no HTTP.
func TestRU_40_TheServiceKnowsNoHTTP(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if path := strings.Trim(i.Path.Value, `"`); path == "net/http" || strings.HasPrefix(path, "net/http/") {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}
