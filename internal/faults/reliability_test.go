package faults

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of bench/RELIABILITY.md has each fault, and names tests that exist and name the fault in turn.
func TestTheTableOfFaultsNamesTestsThatExist(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "bench", "RELIABILITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{} // of tests, by the folder of their package
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() && (e.Name() == "node_modules" || strings.HasPrefix(e.Name(), ".") && e.Name() != "..") {
			return fs.SkipDir
		}
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		folder, _ := filepath.Rel(root, filepath.Dir(path))
		if !strings.HasSuffix(path, "_test.go") && folder != "adapter/adaptertest" {
			return nil
		}
		source, err := os.ReadFile(path)
		sources[filepath.ToSlash(folder)] += string(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (FT-\d\d) \|.*$`)
	named := regexp.MustCompile("`([a-z/]+)\\.(Test\\w+)`")
	rows := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		id := m[1]
		rows[id] = true
		tests := named.FindAllStringSubmatch(m[0], -1)
		if len(tests) == 0 {
			t.Errorf("%s names no test", id)
		}
		for _, test := range tests {
			source := sources[test[1]]
			if !strings.Contains(source, "func "+test[2]+"(") {
				t.Errorf("%s: there is no test %s in %s", id, test[2], test[1])
			} else if !strings.Contains(source, id) {
				t.Errorf("%s: no test in %s names it", id, test[1])
			}
		}
	}
	for n := 1; n <= 35; n++ {
		if id := fmt.Sprintf("FT-%02d", n); !rows[id] {
			t.Errorf("%s is not in the table", id)
		}
	}
}
