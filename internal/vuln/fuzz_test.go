package main

import (
	"bytes"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

// The order of versions is one: each is as large as itself, of two either is the larger one, and of three the largest one is larger than
// the smallest one. A release comes behind what led to it.
func FuzzCompare(f *testing.F) {
	f.Add("v1.2.3", "1.2.4-rc.1", "1.2.4+meta")
	f.Add("1.26", "1.26.0-rc.2", "1.26.0-0")
	f.Add("1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-1")
	f.Add("0", "01.2.x", "99999999999999999999.0.0")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		sign := func(n int) int { return min(1, max(-1, n)) }
		ab, bc, ac := sign(compare(a, b)), sign(compare(b, c)), sign(compare(a, c))
		if compare(a, a) != 0 || ab != -sign(compare(b, a)) {
			t.Errorf("%q and %q: %d and %d", a, b, ab, compare(b, a))
		}
		if ab <= 0 && bc <= 0 && ac > 0 || ab >= 0 && bc >= 0 && ac < 0 {
			t.Errorf("%q, %q, %q: %d %d %d", a, b, c, ab, bc, ac)
		}
		if release, pre := split(a); pre != "" && compare(a, "v"+release) >= 0 {
			t.Errorf("%q is not before %q", a, release)
		}
	})
}

// Whatever a database holds, it is read or refused with the file that is wrong, and no id of a report leads to a file of another folder.
func FuzzDatabase(f *testing.F) {
	f.Add([]byte(files["index/db.json"]), []byte(files["index/modules.json"]), []byte(files["ID/GO-1.json"]))
	f.Add([]byte(`{}`), []byte(`[{"path":"example.com/a","vulns":[{"id":"../index/db"}]}]`), []byte(files["ID/GO-2.json"]))
	f.Add([]byte(`{}`), []byte(`[{"path":"example.com/a","vulns":[{"id":"GO-1"}]}]`), []byte(files["ID/GO-5.json"]))
	f.Fuzz(func(t *testing.T, about, modules, text []byte) {
		d := &database{root: ".", modules: map[string][]string{}, files: fstest.MapFS{
			"index/db.json": {Data: about}, "index/modules.json": {Data: modules}, "ID/GO-1.json": {Data: text},
		}}
		if err := d.index(); err != nil {
			if !bytes.Contains([]byte(err.Error()), []byte("index/")) {
				t.Errorf("%v names no file", err)
			}
			return
		}
		p := newProgram(&debug.BuildInfo{GoVersion: "go1.26.1", Deps: []*debug.Module{{Path: "example.com/a", Version: "v1.2.0"}}}, []byte("example.com/a/p.Read"))
		found, err := p.check(d, new(bytes.Buffer))
		if err != nil && found {
			t.Errorf("found and %v", err)
		}
		for module, ids := range d.modules {
			for _, id := range ids {
				if id == "GO-1" {
					continue
				}
				if _, err := d.reports(module); err == nil {
					t.Errorf("a report %q, which there is not", id)
				}
				break
			}
		}
	})
}
