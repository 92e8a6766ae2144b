package attacks

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every attack that there is a rule for stands in the table of docs/security.md, and every test that is named there exists.
func TestTheTableOfThreatsNamesTestsThatExist(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "<!-- threats:")
	table, _, end := strings.Cut(table, "<!-- end of threats -->")
	if !ok || !end {
		t.Fatal("there is no table")
	}
	functions := map[string]map[string]bool{} // by folder
	named := regexp.MustCompile("`([^`]+)`")
	for n := 1; n <= 24; n++ {
		id := fmt.Sprintf("SE-%02d", n)
		if strings.Count(table, "\n| "+id+" |") != 1 {
			t.Errorf("%s has no row of its own", id)
		}
	}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, " | ")
		if len(cells) < 4 || !strings.HasPrefix(row, "| SE") && !strings.HasPrefix(row, "| FT") {
			continue
		}
		tests := named.FindAllStringSubmatch(cells[3], -1)
		if len(tests) == 0 {
			t.Errorf("%s is shown by nothing", cells[0])
		}
		for _, m := range tests {
			if strings.HasSuffix(m[1], ".js") {
				if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
					t.Errorf("%s: %v", cells[0], err)
				}
				continue
			}
			dot := strings.LastIndexByte(m[1], '.')
			if dot < 0 {
				t.Errorf("%s: %s has no package", cells[0], m[1])
				continue
			}
			folder, name := m[1][:dot], m[1][dot+1:]
			if functions[folder] == nil {
				functions[folder] = testsOf(t, filepath.Join(root, folder))
			}
			if !functions[folder][name] {
				t.Errorf("%s: there is no %s in %s", cells[0], name, folder)
			}
		}
	}
}

// testsOf are the names of the tests and fuzz targets in a folder.
func testsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has no tests: %v", folder, err)
	}
	names := map[string]bool{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			continue // somebody is at work on it; the compiler will say
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}
