package attacks

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	tests := map[string][]string{} // that are named, by folder
	named := regexp.MustCompile("`([^`]+)`")
	for n := 1; n <= 24; n++ {
		id := fmt.Sprintf("SE-%02d", n)
		if strings.Count(table, "\n"+id+" |") != 1 {
			t.Errorf("%s has no row of its own", id)
		}
	}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, " | ")
		if len(cells) < 4 || !strings.HasPrefix(row, "SE") && !strings.HasPrefix(row, "FT") && !strings.HasPrefix(row, "DA") {
			continue
		}
		shown := named.FindAllStringSubmatch(cells[3], -1)
		if len(shown) == 0 {
			t.Errorf("%s is shown by nothing", cells[0])
		}
		for _, m := range shown {
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
			tests[m[1][:dot]] = append(tests[m[1][:dot]], m[1][dot+1:])
		}
	}
	for folder, names := range tests {
		has := testsOf(t, filepath.Join(root, folder), names)
		for _, name := range names {
			if !has[name] {
				t.Errorf("there is no %s in %s", name, folder)
			}
		}
	}
}

// Every parser of foreign bytes has its fuzz target, and no target is there that the list does not know.
func TestTheTableOfParsersHasEveryFuzzTarget(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "<!-- parsers:")
	table, _, end := strings.Cut(table, "<!-- end of parsers -->")
	if !ok || !end {
		t.Fatal("there is no table")
	}
	named := map[string]bool{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, " | ")
		if len(cells) != 2 || strings.HasPrefix(row, "what is read |") {
			continue
		}
		targets := regexp.MustCompile("`([a-z0-9/]+\\.Fuzz[A-Za-z0-9_]+)`").FindAllStringSubmatch(cells[1], -1)
		if len(targets) == 0 {
			t.Errorf("%s is fuzzed by nothing", cells[0])
		}
		for _, m := range targets {
			named[m[1]] = true
		}
	}
	target := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	there := map[string]bool{}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || name != root && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(name))
		for _, m := range target.FindAllSubmatch(text, -1) {
			there[filepath.ToSlash(folder)+"."+string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range there {
		if !named[name] {
			t.Errorf("%s does not stand in the table", name)
		}
	}
	for name := range named {
		if !there[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

// testsOf are those of the tests and fuzz targets that a folder has.
func testsOf(t *testing.T, folder string, wanted []string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has no tests: %v", folder, err)
	}
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		if !slices.ContainsFunc(wanted, func(name string) bool { return bytes.Contains(text, []byte("func "+name+"(")) }) {
			continue // which is sooner known than all that is in it
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
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
