package run

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
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

// RU-50: a service looks once, when it is opened, whether it shares anything with replicas. No other code asks.
func TestRU_50_NoBranchAsksWhetherThereAreReplicas(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	asks := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Shared" {
					if p, ok := s.X.(*ast.Ident); !ok || p.Name != "runlog" {
						asks[fn.Name.Name] = true
					}
				}
				return true
			})
		}
	}
	if want := map[string]bool{"Open": true, "newService": true}; !maps.Equal(asks, want) {
		t.Errorf("these functions ask: %v, expected %v", asks, want)
	}
}
