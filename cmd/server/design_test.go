package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The code that the design page names exists: `package`, `package.Name` or `package.Type.Method`.
func TestTheDesignNamesCodeThatExists(t *testing.T) {
	root := filepath.Join("..", "..")
	folders := map[string]string{} // of packages, by path and by last element
	if err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if folder := filepath.Dir(name); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			rel, err := filepath.Rel(root, folder)
			if err != nil {
				return err
			}
			rel = filepath.ToSlash(rel)
			folders[rel] = folder
			if other := folders[path.Base(rel)]; other == "" || strings.Count(folder, string(filepath.Separator)) < strings.Count(other, string(filepath.Separator)) {
				folders[path.Base(rel)] = folder
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	names := 0
	for _, m := range regexp.MustCompile("`([a-z][a-z/]*)((?:\\.[A-Z][A-Za-z]*)*)`").FindAllStringSubmatch(readGuide(t, "docs/design.md"), -1) {
		folder := folders[m[1]]
		if _, err := os.Stat(filepath.Join(root, m[1])); folder == "" && (err != nil || m[2] != "") && !standard(m[1]) {
			if m[2] != "" || strings.Contains(m[1], "/") {
				t.Errorf("`%s%s`: there is no package %s", m[1], m[2], m[1])
			}
			continue
		}
		if m[2] == "" {
			continue
		}
		if names++; !declared(t, folder)[strings.TrimPrefix(m[2], ".")] {
			t.Errorf("`%s%s`: %s does not declare it", m[1], m[2], folder)
		}
	}
	if names < 10 {
		t.Errorf("found only %d names", names)
	}
}

// standard reports whether a package is one of Go's that the page names.
func standard(name string) bool { return name == "testing/synctest" }

// declared returns the names of a package, and its methods as "Type.Method".
func declared(t *testing.T, folder string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				receiver := ""
				if d.Recv != nil {
					typ := d.Recv.List[0].Type
					if star, ok := typ.(*ast.StarExpr); ok {
						typ = star.X
					}
					if id, ok := typ.(*ast.Ident); ok {
						receiver = id.Name + "."
					}
				}
				all[receiver+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						all[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, id := range s.Names {
							all[id.Name] = true
						}
					}
				}
			}
		}
	}
	return all
}
